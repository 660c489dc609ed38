//! `daybook trace get`: one trace as a tree over time.

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::sync::Arc;

use clap::Args;
use serde_json::Value;
use traza::span::Span;

use super::filter::id;
use super::folder;
use super::line::{attributes, took, what};
use super::place::{Place, PlaceArgs};
use super::server::Target;
use super::spans::of_answer;
use crate::failure::{DONE, Failure, Outcome};
use crate::output::Out;
use crate::styles::{FAINT, HINT, STRONG, WARN};
use crate::text::{count, duration, shorten, wall_time};

/// Deeper spans are not indented further.
const INDENT_MAX: usize = 24;
/// Characters of the bar that shows when a span was.
const BAR: usize = 24;

/// The spans of a trace as a tree: who caused what, when, and for how long.
///
/// A span whose parent is not there stands under a heading of its own, as do spans that are their own ancestors. Tenants
/// that use the same id have a tree each.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook trace get traces/ 4bf92f3577b34da6a3ce929d0e0e4736
  daybook trace get traces/ 4bf92f3577b34da6a3ce929d0e0e4736 --attributes
  daybook trace get --url http://127.0.0.1:4318 4bf92f3577b34da6a3ce929d0e0e4736
  daybook trace get traces/ t1 --tenant acme --json | jq '.spans[].name'")]
pub(super) struct GetArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// The trace. An id that no argument can hold, such as one with a NUL, is written as a JSON string.
    #[arg(value_parser = id)]
    trace_id: String,
    /// Only spans of this tenant; an empty text for those without one.
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// Shows the attributes too.
    #[arg(long)]
    attributes: bool,
    /// Prints JSON, with the spans as they are stored.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &GetArgs) -> Outcome {
    let tenant = args.tenant.as_deref();
    let spans = match args.place.place()? {
        Place::Folder(dir) => folder::open_to_read(dir)?.get_trace(&args.trace_id, tenant)?,
        Place::Server(server) => {
            let target = Target::new("/v1/traces").part(&args.trace_id);
            let found = server.find(&target.with_some("tenant", tenant))?;
            let spans = found.map(|body| of_answer(&server, &body)).transpose()?;
            spans.unwrap_or_default()
        }
    };
    if spans.is_empty() {
        let id = shorten(&args.trace_id, 80);
        let place = args.place.name();
        return Err(Failure::new(format!("no trace {id} in {place}")));
    }
    let mut out = Out::for_json(args.json);
    if args.json {
        write!(
            out,
            "{{\"trace_id\":{},\"spans\":[",
            Value::from(args.trace_id.as_str())
        )?;
        for (index, span) in spans.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(out, "{comma}\n{}", span.to_json())?;
        }
        out.write_all(b"\n]}\n")?;
        out.flush()?;
        return Ok(DONE);
    }
    let mut tenants: Vec<&str> = spans.iter().map(|span| span.tenant.as_str()).collect();
    tenants.sort_unstable();
    tenants.dedup();
    for (index, tenant) in tenants.iter().enumerate() {
        if index > 0 {
            out.line("")?;
        }
        let of_tenant: Vec<&Span> = spans
            .iter()
            .map(Arc::as_ref)
            .filter(|span| span.tenant == *tenant)
            .collect();
        print_tree(&mut out, args, tenant, &of_tenant)?;
    }
    out.flush()?;
    Ok(DONE)
}

fn print_tree(out: &mut Out, args: &GetArgs, tenant: &str, spans: &[&Span]) -> io::Result<()> {
    let window = Window::of(spans);
    let tenant = match tenant {
        "" => String::new(),
        tenant => format!(" of {}", shorten(tenant, 64)),
    };
    out.line(format_args!(
        "{STRONG}trace {}{STRONG:#}{tenant}: {}, {} from {}",
        shorten(&args.trace_id, 80),
        count(spans.len() as u64, "span"),
        duration(window.len()),
        wall_time(window.start)
    ))?;
    let mut heading = Heading::Roots;
    for row in rows(spans) {
        if row.heading != heading {
            heading = row.heading;
            let text = match heading {
                Heading::Roots => continue,
                Heading::Orphans => "their parents are not in the store",
                Heading::Cycles => "their own ancestors",
            };
            out.line(format_args!("{WARN}{text}:{WARN:#}"))?;
        }
        let span = row.span;
        let deep = match row.depth {
            depth if depth > INDENT_MAX => format!("{FAINT}({depth} deep){FAINT:#} "),
            _ => String::new(),
        };
        out.line(format_args!(
            "{HINT}{}{HINT:#} {:>10}  {FAINT}{}{FAINT:#}{deep}{}  {FAINT}{}{FAINT:#}",
            window.bar(span),
            took(span),
            row.branches,
            what(span),
            shorten(&span.span_id, 40)
        ))?;
        if args.attributes {
            for attribute in attributes(span) {
                out.line(format_args!("{:width$}{attribute}", "", width = BAR + 15))?;
            }
        }
    }
    Ok(())
}

/// The time of a whole trace.
struct Window {
    start: u64,
    end: u64,
}

impl Window {
    fn of(spans: &[&Span]) -> Self {
        let start = spans
            .iter()
            .map(|span| span.start_time_ns)
            .min()
            .unwrap_or(0);
        let end = spans.iter().map(|span| span.end_time_ns).max().unwrap_or(0);
        Self {
            start,
            end: end.max(start),
        }
    }

    fn len(&self) -> u64 {
        self.end - self.start
    }

    /// When a span was; a moment is one character.
    fn bar(&self, span: &Span) -> String {
        let column = |time: u64| {
            let passed = u128::from(time.saturating_sub(self.start)) * BAR as u128;
            let column = passed / u128::from(self.len().max(1));
            usize::try_from(column).unwrap_or(BAR).min(BAR)
        };
        let from = column(span.start_time_ns).min(BAR - 1);
        let to = column(span.end_time_ns).max(from + 1);
        let mut bar = " ".repeat(from);
        bar.push_str(&"━".repeat(to - from));
        bar.push_str(&" ".repeat(BAR - to));
        bar
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heading {
    Roots,
    Orphans,
    Cycles,
}

/// A line of the tree.
struct Row<'s> {
    heading: Heading,
    depth: usize,
    branches: String,
    span: &'s Span,
}

/// Every span once, each behind the one that caused it.
fn rows<'s>(spans: &[&'s Span]) -> Vec<Row<'s>> {
    let by_id: HashMap<&str, usize> = spans
        .iter()
        .enumerate()
        .map(|(at, span)| (span.span_id.as_str(), at))
        .collect();
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); spans.len()];
    let mut starts = Vec::new();
    let mut orphans = Vec::new();
    for (at, span) in spans.iter().enumerate() {
        match span
            .parent_span_id
            .as_deref()
            .map(|parent| by_id.get(parent))
        {
            None => starts.push((Heading::Roots, at)),
            Some(None) => orphans.push((Heading::Orphans, at)),
            Some(Some(parent)) => {
                if let Some(children) = children.get_mut(*parent) {
                    children.push(at);
                }
            }
        }
    }
    starts.append(&mut orphans);
    // What no start leads to is in a cycle, or behind one: the earliest of it begins.
    starts.extend((0..spans.len()).map(|at| (Heading::Cycles, at)));
    let mut is_shown = vec![false; spans.len()];
    let mut rows = Vec::with_capacity(spans.len());
    // No recursion: a trace may be as deep as it has spans.
    let mut open: Vec<(usize, usize, String, bool)> = Vec::new();
    for (heading, start) in starts {
        open.push((start, 0, String::new(), true));
        while let Some((at, depth, outer, is_last)) = open.pop() {
            let (Some(shown), Some(span)) = (is_shown.get_mut(at), spans.get(at)) else {
                continue;
            };
            if std::mem::replace(shown, true) {
                continue;
            }
            let branch = match (depth, is_last) {
                (0, _) => "",
                (_, true) => "└ ",
                (_, false) => "├ ",
            };
            rows.push(Row {
                heading,
                depth,
                branches: format!("{outer}{branch}"),
                span,
            });
            let inner = match (depth, is_last) {
                (0, _) => outer,
                (depth, _) if depth >= INDENT_MAX => outer,
                (_, true) => outer + "  ",
                (_, false) => outer + "│ ",
            };
            let children = children.get(at).map(Vec::as_slice).unwrap_or_default();
            for (index, child) in children.iter().rev().enumerate() {
                open.push((*child, depth + 1, inner.clone(), index == 0));
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(id: &str, parent: Option<&str>, start: u64, end: u64) -> Span {
        Span {
            span_id: id.into(),
            parent_span_id: parent.map(str::to_owned).map(Into::into),
            start_time_ns: start,
            end_time_ns: end,
            ..Span::default()
        }
    }

    fn drawn(spans: &[Span]) -> Vec<(Heading, String)> {
        let spans: Vec<&Span> = spans.iter().collect();
        let rows = rows(&spans);
        rows.iter()
            .map(|row| (row.heading, format!("{}{}", row.branches, row.span.span_id)))
            .collect()
    }

    #[test]
    fn children_stand_behind_their_parents_and_what_has_none_under_its_heading() {
        use Heading::{Cycles, Orphans, Roots};
        let spans = [
            span("root", None, 0, 9),
            span("a", Some("root"), 1, 2),
            span("aa", Some("a"), 1, 2),
            span("b", Some("root"), 3, 4),
            span("lost", Some("nowhere"), 5, 6),
            span("under lost", Some("lost"), 5, 6),
            span("self", Some("self"), 6, 6),
            span("x", Some("y"), 7, 7),
            span("y", Some("x"), 8, 8),
        ];
        let wanted = [
            (Roots, "root"),
            (Roots, "├ a"),
            (Roots, "│ └ aa"),
            (Roots, "└ b"),
            (Orphans, "lost"),
            (Orphans, "└ under lost"),
            (Cycles, "self"),
            (Cycles, "x"),
            (Cycles, "└ y"),
        ];
        let wanted: Vec<_> = wanted
            .map(|(heading, text)| (heading, text.to_owned()))
            .into();
        assert_eq!(drawn(&spans), wanted);
    }

    #[test]
    fn a_very_deep_trace_is_indented_only_so_far() {
        let spans: Vec<Span> = (0..20_000)
            .map(|at| {
                span(
                    &at.to_string(),
                    (at > 0).then(|| (at - 1).to_string()).as_deref(),
                    at,
                    at,
                )
            })
            .collect();
        let drawn = drawn(&spans);
        assert_eq!(drawn.len(), spans.len());
        assert!(
            drawn
                .iter()
                .all(|(_, line)| line.chars().count() < 2 * INDENT_MAX + 10)
        );
    }

    #[test]
    fn a_bar_shows_when_a_span_was_and_is_never_empty() {
        let spans = [
            span("a", None, 0, 100),
            span("b", None, 50, 100),
            span("c", None, 100, 90),
        ];
        let window = Window::of(&spans.iter().collect::<Vec<_>>());
        let bars: Vec<String> = spans.iter().map(|span| window.bar(span)).collect();
        assert_eq!(bars[0], "━".repeat(BAR));
        assert_eq!(bars[1], " ".repeat(BAR / 2) + &"━".repeat(BAR / 2));
        assert_eq!(bars[2], " ".repeat(BAR - 1) + "━");
        let moment = [span("d", None, u64::MAX, 0)];
        let window = Window::of(&moment.iter().collect::<Vec<_>>());
        assert_eq!(window.bar(&moment[0]).chars().count(), BAR);
    }
}
