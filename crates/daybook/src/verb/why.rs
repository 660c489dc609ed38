//! `daybook why`: what led to a value; `daybook effects`: what a command brought about.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use omniloop_core::analysis::{
    Cause, Effect, Effects, Evidence, Place, Role, cause_of_with, effects_of_with, value_at,
    variables_of,
};
use omniloop_core::journal::{FrameKind, SegmentedPlayer};
use serde_json::{Value, json};

use crate::failure::{BAD_CODE, DONE, Failure, Outcome};
use crate::kind::kind_of;
use crate::output::Out;
use crate::styles::{FAINT, STRONG};
use crate::text::{clean, count, duration, shorten};

/// Names of variables that are suggested.
const SUGGESTED: usize = 12;
/// Variables that are looked through for suggestions.
const NAMES_MAX: usize = 10_000;
/// Characters of a value that are shown.
const VALUE_WIDTH: usize = 60;

/// Tells why a variable has its value: the change that set it, what brought that change, and who was behind it.
///
/// A value that no record says was set, such as a loss that the loop computes, has no cause to show.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook why run.omni lr
  daybook why run.omni arm.gain --tick 4000
  daybook why run.omni lr --json | jq '.causes[0].record'

Exit codes: 0 told (also when nobody set it), 1 the run is damaged, 2 no such variable, or it cannot be read.")]
pub(crate) struct WhyArgs {
    /// The run, or the first file of a set.
    path: PathBuf,
    /// The variable: a member of the telemetry, or a nested one as tables name it (arm.joints.0).
    variable: String,
    /// As of this tick; by default at the end of the run.
    #[arg(long, value_name = "N")]
    tick: Option<u64>,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn why(args: &WhyArgs) -> Outcome {
    let mut player = open(&args.path)?;
    let name = &args.variable;
    let value = value_at(&mut player.reopen()?, name, args.tick)?;
    let causes = cause_of_with(&mut player, name, args.tick)?;
    if value.is_none() && causes.is_empty() {
        return Err(unknown(args, &player)?);
    }
    let mut out = Out::for_json(args.json);
    if args.json {
        let shown = value
            .as_ref()
            .map(|(place, value)| json!({ "place": place, "value": value }));
        out.json(&json!({
            "path": args.path, "variable": name, "tick": args.tick, "telemetry": shown, "causes": causes,
        }))?;
        return Ok(DONE);
    }
    let when = args
        .tick
        .map_or_else(|| "at the end".to_owned(), |tick| format!("at tick {tick}"));
    let shown = match &value {
        Some((place, value)) => format!(
            "is {} {when}, since tick {} shows it",
            text(value),
            place.tick
        ),
        None => format!("does not show in the telemetry {when}"),
    };
    out.line(format_args!("{STRONG}{}{STRONG:#} {shown}", clean(name)))?;
    if causes.is_empty() {
        out.line("  No record says that it was set: the loop itself computes it.")?;
    }
    for cause in &causes {
        out.line(link(cause, name))?;
    }
    out.flush()?;
    Ok(DONE)
}

fn open(path: &std::path::Path) -> Result<SegmentedPlayer, Failure> {
    kind_of(path)?.run(path, "`daybook inspect` shows what it is")?;
    Ok(SegmentedPlayer::open(path)?)
}

fn unknown(args: &WhyArgs, player: &SegmentedPlayer) -> Result<Failure, Failure> {
    let names = variables_of(&mut player.reopen()?, NAMES_MAX)?;
    let is_known = names.contains(&args.variable);
    let what = match args.tick {
        Some(tick) if is_known => format!(
            "{} speaks of {:?} only after tick {tick}",
            args.path.display(),
            args.variable
        ),
        _ => format!(
            "{} does not speak of {:?}",
            args.path.display(),
            args.variable
        ),
    };
    let mut near: Vec<&String> = names.iter().collect();
    near.sort_by_key(|name| !name.contains(args.variable.as_str()));
    near.truncate(SUGGESTED);
    let near: Vec<_> = near.into_iter().map(|name| clean(name)).collect();
    Ok(if near.is_empty() {
        Failure::new(what)
    } else {
        Failure::new(what).with_hint(format!("it has {}", near.join(", ")))
    })
}

/// One line of the chain.
fn link(cause: &Cause, name: &str) -> String {
    let at = at(&cause.record.place);
    let kind = cause.record.kind;
    match cause.role {
        Role::Principal => {
            let who = cause.principal.as_deref().unwrap_or_default();
            format!("  {:<24}by {}", "", clean(who))
        }
        Role::Set => format!("  {at}{kind}  {}", change(&cause.record, name, cause)),
        Role::Related => format!("  {at}{kind}  {}", words(&cause.record)),
    }
}

/// When a record was written: tick, and time since the journal was created.
fn at(place: &Place) -> String {
    let tick = format!("tick {}", place.tick);
    format!("{tick:<12}{FAINT}{:<12}{FAINT:#}", duration(place.mono_ns))
}

fn change(record: &Evidence, name: &str, cause: &Cause) -> String {
    let value = |value: &Option<Value>| value.as_ref().map_or_else(|| "?".to_owned(), text);
    let mut line = match record.kind {
        FrameKind::Guardrail => format!(
            "{} asked for {}, limited to {}",
            clean(name),
            value(&cause.old),
            value(&cause.new)
        ),
        _ => format!(
            "{} {} → {}",
            clean(name),
            value(&cause.old),
            value(&cause.new)
        ),
    };
    for (member, before) in [
        ("source", "by "),
        ("cause", "since "),
        ("correlation_id", ""),
    ] {
        if let Some(text) = record.text(member) {
            // Writing to memory cannot fail.
            write!(line, ", {before}{}", shorten(text, VALUE_WIDTH)).ok();
        }
    }
    line
}

/// What a record says, in a few words.
fn words(record: &Evidence) -> String {
    let member = |name| record.payload.get(name);
    match record.kind {
        FrameKind::Input => {
            let channel = record.text("channel").unwrap_or_default();
            let value = member("value").map_or_else(String::new, text);
            format!("{}: {value}", clean(channel))
        }
        FrameKind::Control => record.text("command").map_or_else(
            || text(&record.payload),
            |command| shorten(command, VALUE_WIDTH),
        ),
        FrameKind::Mutation => {
            let side = |name| member(name).map_or_else(|| "?".to_owned(), text);
            let name = record.text("name").unwrap_or_default();
            format!("{} {} → {}", clean(name), side("old"), side("new"))
        }
        _ => text(&record.payload),
    }
}

fn text(value: &Value) -> String {
    shorten(&value.to_string(), VALUE_WIDTH)
}

/// Tells what a command or an input brought about: every record with its correlation id, when each change showed
/// in the telemetry, and which limits and watches it met.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook effects run.omni c-17
  daybook effects run.omni c-17 --json | jq '.effects[].seen.tick'

Exit codes: 0 told, 1 no record has this id, or the run is damaged, 2 it cannot be read.")]
pub(crate) struct EffectsArgs {
    /// The run, or the first file of a set.
    path: PathBuf,
    /// The correlation id that an input, a command or a change was recorded with.
    correlation_id: String,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn effects(args: &EffectsArgs) -> Outcome {
    let mut player = open(&args.path)?;
    let found = effects_of_with(&mut player, &args.correlation_id)?;
    let code = if found.records.is_empty() {
        BAD_CODE
    } else {
        DONE
    };
    let mut out = Out::for_json(args.json);
    if args.json {
        let mut document = serde_json::to_value(&found).map_err(std::io::Error::from)?;
        if let Some(members) = document.as_object_mut() {
            members.insert("path".to_owned(), json!(args.path));
        }
        out.json(&document)?;
        return Ok(code);
    }
    tell(&mut out, &found)?;
    out.flush()?;
    Ok(code)
}

fn tell(out: &mut Out, found: &Effects) -> std::io::Result<()> {
    let records = count(found.records.len() as u64, "record");
    out.line(format_args!(
        "{STRONG}{}{STRONG:#}: {records}",
        clean(&found.correlation_id)
    ))?;
    for record in &found.records {
        out.line(format_args!(
            "  {}{}  {}",
            at(&record.place),
            record.kind,
            words(record)
        ))?;
    }
    for effect in &found.effects {
        tell_effect(out, effect)?;
    }
    Ok(())
}

fn tell_effect(out: &mut Out, effect: &Effect) -> std::io::Result<()> {
    let name = clean(&effect.name);
    let seen = match &effect.seen {
        Some(place) => {
            let later = place.mono_ns.saturating_sub(effect.mutation.place.mono_ns);
            format!("shows at tick {}, {} later", place.tick, duration(later))
        }
        None => "never shows in the telemetry".to_owned(),
    };
    out.line(format_args!(
        "{STRONG}{name}{STRONG:#} = {} {seen}",
        text(&effect.new)
    ))?;
    for record in effect.guardrails.iter().chain(&effect.trips) {
        out.line(format_args!(
            "  {}{}  {}",
            at(&record.place),
            record.kind,
            text(&record.payload)
        ))?;
    }
    match &effect.ended {
        Some(place) => out.line(format_args!("  {}set again", at(place))),
        None => Ok(()),
    }
}
