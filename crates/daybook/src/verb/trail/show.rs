//! A trail as a tree, and as JSON.

use std::io;

use durable::{Outcome, Severity};
use serde_json::{Value, json};

use super::walk::{Node, Trail};
use crate::output::Out;
use crate::styles::{BAD, FAINT, GOOD, STRONG, WARN};
use crate::text::shorten;

/// Longer names are cut.
const NAME_WIDTH: usize = 120;
const TEXT_WIDTH: usize = 400;

pub(super) fn print(out: &mut Out, subject: &str, trail: &Trail, as_json: bool) -> io::Result<()> {
    if as_json {
        return out.json(&as_document(subject, trail));
    }
    print_node(out, &trail.nodes, 0, "", "")?;
    for finding in &trail.unreadable {
        let (place, what) = (shorten(&finding.place, NAME_WIDTH), &finding.what);
        out.line(format_args!(
            "{WARN}among the paths:{WARN:#} {place}: {}",
            shorten(what, TEXT_WIDTH)
        ))?;
    }
    let (style, meaning) = match trail.outcome() {
        Outcome::Intact => (GOOD, "what is linked is here and holds"),
        Outcome::Damaged => (BAD, "something is damaged or contradicts"),
        Outcome::Unproven => (
            WARN,
            "nothing contradicts, but something is not here or not proved",
        ),
    };
    let word = trail.outcome().as_str();
    out.line(format_args!(
        "{STRONG}{}:{STRONG:#} {style}{word}{style:#} ({meaning})",
        shorten(subject, NAME_WIDTH)
    ))
}

fn as_document(subject: &str, trail: &Trail) -> Value {
    let node = |node: &Node| {
        let mut shown = json!(node);
        if let Some(members) = shown.as_object_mut() {
            members.insert("outcome".to_owned(), json!(node.outcome()));
        }
        shown
    };
    let nodes: Vec<Value> = trail.nodes.iter().map(node).collect();
    json!({
        "subject": subject,
        "outcome": trail.outcome(),
        "nodes": nodes,
        "unreadable": trail.unreadable,
    })
}

/// A node, what is known of it, and what was reached from it.
fn print_node(
    out: &mut Out,
    nodes: &[Node],
    at: usize,
    branch: &str,
    below: &str,
) -> io::Result<()> {
    let Some(node) = nodes.get(at) else {
        return Ok(());
    };
    let style = if node.here { STRONG } else { WARN };
    let name = shorten(&node.name, NAME_WIDTH);
    let via = match node.parent {
        None => String::new(),
        Some(_) => format!("  {FAINT}({}){FAINT:#}", node.via),
    };
    out.line(format_args!(
        "{FAINT}{branch}{FAINT:#}{} {style}{name}{style:#}: {}{via}",
        node.kind, node.summary
    ))?;
    let mut children = Vec::new();
    for (child, other) in nodes.iter().enumerate() {
        if other.parent == Some(at) {
            children.push(child);
        }
    }
    let bar = if children.is_empty() { "   " } else { "│  " };
    for line in &node.proved {
        out.line(format_args!(
            "{FAINT}{below}{bar}{FAINT:#}{GOOD}holds:{GOOD:#} {}",
            shorten(line, TEXT_WIDTH)
        ))?;
    }
    for finding in &node.findings {
        let (style, word) = match finding.severity {
            Severity::Damage => (BAD, "damage"),
            Severity::Unproven => (WARN, "not proved"),
            Severity::Note => (FAINT, "note"),
        };
        let (what, code) = (shorten(&finding.what, TEXT_WIDTH), finding.code);
        out.line(format_args!(
            "{FAINT}{below}{bar}{FAINT:#}{style}{word}:{style:#} {what} {FAINT}[{code}]{FAINT:#}"
        ))?;
    }
    let last = children.len().saturating_sub(1);
    for (place, child) in children.into_iter().enumerate() {
        let (branch, deeper) = if place == last {
            ("└─ ", "   ")
        } else {
            ("├─ ", "│  ")
        };
        let (branch, deeper) = (format!("{below}{branch}"), format!("{below}{deeper}"));
        print_node(out, nodes, child, &branch, &deeper)?;
    }
    Ok(())
}
