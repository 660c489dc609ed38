//! `daybook trace query` and `daybook trace search`: the spans that conditions hold for.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};

use anstream::eprintln;
use clap::Args;
use serde_json::{Value, json};
use traza::store::{Cursor, Page, Query};

use super::filter::{FilterArgs, Order};
use super::folder;
use super::highlight::{Highlight, highlights};
use super::line::{attributes, span_line};
use super::place::{Place, PlaceArgs};
use super::spans;
use crate::failure::{DONE, Failure, Outcome};
use crate::output::Out;
use crate::styles::{FAINT, STRONG};
use crate::text::{clean, count, duration, shorten};

/// Longer arguments are no help to anybody.
const ARGUMENT_LEN_MAX: usize = 4096;

/// The spans that all conditions hold for, in the order of their starts.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook trace query traces/ --status error --since -1h
  daybook trace query traces/ --service bot --min-duration 2s --sort -duration --limit 10
  daybook trace query traces/ --attr gen_ai.request.model=gpt-4o --min-attr gen_ai.usage.input_tokens=1000
  daybook trace query --url http://127.0.0.1:4318 --status error --limit 0
  daybook trace query traces/ --text 'refund order' --json | jq -r '.spans[].trace_id'")]
pub(super) struct QueryArgs {
    #[command(flatten)]
    place: PlaceArgs,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    page: PageArgs,
}

/// The spans with all these words in the texts of their attributes and events, and where these stand.
///
/// Words are found whole, in either case; letters and digits outside ASCII separate. A text that was kept out of its span
/// is searched in its first 256 characters.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook trace search traces/ refund order
  daybook trace search --url http://127.0.0.1:4318 refund order
  daybook trace search traces/ timeout --status error --since -1d --limit 0")]
pub(super) struct SearchArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// What to look for.
    #[arg(required = true)]
    words: Vec<String>,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    page: PageArgs,
}

/// How much of an answer, and how.
#[derive(Args, Debug)]
struct PageArgs {
    /// The order.
    #[arg(long, value_enum, value_name = "ORDER", allow_hyphen_values = true, default_value_t = Order::Start)]
    sort: Order,
    /// At most so many spans; 0 for all.
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
    /// Goes on behind a page that was full, in the same order of starts.
    #[arg(long, value_name = "CURSOR", value_parser = cursor, allow_hyphen_values = true)]
    cursor: Option<Cursor>,
    /// Shows the attributes too.
    #[arg(long)]
    attributes: bool,
    /// Prints JSON: the spans, the next cursor and the cost.
    #[arg(long)]
    json: bool,
}

fn cursor(text: &str) -> Result<Cursor, String> {
    Cursor::from_token(text).ok_or("it is no cursor of a page".to_owned())
}

pub(super) fn query(args: &QueryArgs) -> Outcome {
    answer(&args.place, &args.filter, &args.page, &[])
}

pub(super) fn search(args: &SearchArgs) -> Outcome {
    answer(&args.place, &args.filter, &args.page, &args.words)
}

fn answer(place: &PlaceArgs, filter: &FilterArgs, args: &PageArgs, given: &[String]) -> Outcome {
    let mut query = Query::new(filter.filter(given)?);
    let words = match &query.filter.content {
        Some(content) if !given.is_empty() => content.words().to_vec(),
        _ => Vec::new(),
    };
    query.limit = if args.limit == 0 {
        usize::MAX
    } else {
        args.limit
    };
    query.sort = Some(args.sort.of());
    query.after.clone_from(&args.cursor);
    let is_other = |cursor: &Cursor| args.sort.is_descending() != Some(cursor.is_descending());
    if args.cursor.as_ref().is_some_and(is_other) {
        let what = "the cursor is a place in another order of starts than --sort";
        return Err(Failure::new(what).with_hint("narrow with --since and --until instead"));
    }
    let mut looked = None;
    let mut page = match place.place()? {
        Place::Folder(dir) => {
            let page = folder::open_to_read(dir)?.query(&query)?;
            looked = Some(page.cost.spans_examined);
            page
        }
        Place::Server(server) => {
            let target = filter.target("/v1/spans", given)?;
            let target = target.with_some("sort", args.sort.parameter());
            if args.sort.is_descending().is_some() {
                spans::in_pages(&server, &target, query.after.take(), query.limit)?
            } else {
                spans::sorted(&server, &target, query.limit)?
            }
        }
    };
    if args.sort.is_descending().is_none() {
        page.next = None;
    }
    let mut out = Out::for_json(args.json);
    if args.json {
        print_json(&mut out, &page, looked, &words)?;
        out.flush()?;
        return Ok(DONE);
    }
    for span in &page.spans {
        out.line(span_line(span))?;
        for Highlight { field, snippet } in highlights(span, &words) {
            out.line(format_args!(
                "    {FAINT}{}{FAINT:#}  {snippet}",
                shorten(&field, 60)
            ))?;
        }
        if args.attributes {
            for attribute in attributes(span) {
                out.line(format_args!("    {attribute}"))?;
            }
        }
    }
    out.flush()?;
    if !out.is_closed() {
        tell(&page, looked, args);
    }
    Ok(DONE)
}

/// The spans stand as they are stored. How many were looked at, a server does not tell.
fn print_json(out: &mut Out, page: &Page, looked: Option<u64>, words: &[String]) -> io::Result<()> {
    out.write_all(b"{\"spans\":[")?;
    for (index, span) in page.spans.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        write!(out, "{comma}\n{}", span.to_json())?;
    }
    if !words.is_empty() {
        out.write_all(b"\n],\"highlights\":[")?;
        for (index, span) in page.spans.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let found: Vec<Value> = highlights(span, words)
                .map(|found| json!({ "field": found.field, "snippet": found.snippet.plain() }))
                .collect();
            write!(out, "{comma}\n{}", Value::Array(found))?;
        }
    }
    let cost = page.cost;
    let cost = json!({
        "elapsed_ns": cost.elapsed_ns, "segments_examined": cost.segments_examined,
        "segments_pruned": cost.segments_pruned, "spans_examined": looked,
    });
    let next = json!(page.next.as_ref().map(Cursor::to_token));
    writeln!(out, "\n],\"next_cursor\":{next},\"cost\":{cost}}}")
}

fn tell(page: &Page, looked: Option<u64>, args: &PageArgs) {
    let cost = page.cost;
    let looked = looked.map(|looked| format!(", {} looked at", count(looked, "span")));
    eprintln!(
        "{FAINT}{} found{} in {}; {} of {} left out by their times{FAINT:#}",
        page.spans.len(),
        looked.unwrap_or_default(),
        duration(cost.elapsed_ns),
        cost.segments_pruned,
        count(cost.segments_examined as u64, "segment"),
    );
    // A cursor holds the ids of a span, which can be longer than any argument.
    let next = page.next.as_ref().map(Cursor::to_token);
    if let Some(next) = next.filter(|token| token.len() <= ARGUMENT_LEN_MAX) {
        let command = command_with(std::env::args_os(), &next);
        eprintln!("next page: {STRONG}{}{STRONG:#}", clean(&command));
    } else if page.spans.len() == args.limit {
        eprintln!("{FAINT}maybe there are more: --limit 0{FAINT:#}");
    }
}

/// The command that was given, to be continued behind the page.
fn command_with(given: impl Iterator<Item = OsString>, cursor: &str) -> String {
    let mut words = vec!["daybook".to_owned()];
    let mut given = given.skip(1);
    while let Some(word) = given.next() {
        let text = word.to_string_lossy();
        if text == "--cursor" {
            given.next();
        } else if text == "--token" {
            // Not everybody who sees the screen is to see it.
            given.next();
            words.push("--token …".to_owned());
        } else if text.starts_with("--token=") {
            words.push("--token …".to_owned());
        } else if !text.starts_with("--cursor=") {
            words.push(quoted(&word));
        }
    }
    words.extend(["--cursor".to_owned(), cursor.to_owned()]);
    words.join(" ")
}

/// As a shell takes it.
fn quoted(word: &OsStr) -> String {
    let text = word.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./-_".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_the_same_command_with_another_cursor() {
        let given = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            command_with(words.into_iter(), "NEW")
        };
        assert_eq!(
            given(&["/bin/daybook", "trace", "query", "d", "--text", "it's two"]),
            r"daybook trace query d --text 'it'\''s two' --cursor NEW"
        );
        assert_eq!(
            given(&["daybook", "--cursor", "OLD", "d", "--cursor=OLD"]),
            "daybook d --cursor NEW"
        );
        assert_eq!(
            given(&["daybook", "--token", "secret", "d", "--token=secret"]),
            "daybook --token … d --token … --cursor NEW"
        );
    }
}
