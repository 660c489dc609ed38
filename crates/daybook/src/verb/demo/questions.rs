//! What can be asked of the best trial: why, where it parted from another, what its trace shows, and whether all fits together.

use serde_json::Value;

use super::steps::{Steps, at};
use super::study::Tuned;
use crate::failure::Failure;

/// The best run, explained and compared with the worst.
pub(super) fn ask_the_run(steps: &Steps, tuned: &Tuned) -> Result<(), Failure> {
    let (best, worst) = (&tuned.best, &tuned.worst);
    let (run, other) = (steps.text(&best.run()), steps.text(&worst.run()));
    steps.say(
        &format!("3. The run of the best trial, {}.", best.number),
        "It was recorded while it trained: what it printed, with times, in a hash chain.",
    )?;
    steps.run(&["verify", &run], 0)?;
    let verdict = steps.ask(&["verify", &run], 0)?;
    steps.claim(
        "the run is intact: nothing in it was altered, removed or re-ordered since it was written",
        at(&verdict, "/verdict") == "intact",
    )?;
    steps.run(&["inspect", &run, "--plot"], 0)?;
    steps.say(
        "4. Why does the learning rate end where it does?",
        "The program said so when it changed it, and the record keeps it.",
    )?;
    steps.run(&["why", &run, "lr"], 0)?;
    let told = steps.ask(&["why", &run, "lr"], 0)?;
    let (set, brought) = (at(&told, "/causes/0"), at(&told, "/causes/1"));
    let halved = at(set, "/old").as_f64().zip(at(set, "/new").as_f64());
    steps.claim(
        &format!(
            "the program halved it after epoch {}: {}",
            at(set, "/tick"),
            text(at(set, "/payload/cause"))
        ),
        at(set, "/kind") == "mutation"
            && halved.is_some_and(|(old, new)| new < old)
            && at(set, "/new") == at(&told, "/telemetry/value")
            && at(brought, "/kind") == "telemetry"
            && at(brought, "/payload/step") == at(set, "/tick"),
    )?;
    steps.say(
        &format!(
            "Where does it part from the worst one, trial {}?",
            worst.number
        ),
        "Runs are compared tick by tick; times never count.",
    )?;
    steps.run(&["diff", &run, &other], 1)?;
    let told = steps.ask(&["diff", &run, &other], 1)?;
    let parting = at(&told, "/divergence");
    let field = text(at(parting, "/field"));
    steps.claim(
        &format!("the runs part at tick {}, in {field}", at(parting, "/tick")),
        at(parting, "/a/value") != at(parting, "/b/value"),
    )
}

/// The trace of the best run, and the way from the trial to it.
pub(super) fn walk(steps: &Steps, tuned: &Tuned, url: &str) -> Result<(), Failure> {
    let best = &tuned.best;
    let trace = best.trace();
    steps.say(
        "5. Its trace, from the server.",
        "The tuner told the program which trace its spans belong to; that is all that links them.",
    )?;
    let get = ["trace", "get", "--url", url, trace];
    steps.run(&get, 0)?;
    let told = steps.ask(&get, 0)?;
    let none = Vec::new();
    let spans = at(&told, "/spans").as_array().unwrap_or(&none);
    let is_its_own = |span: &Value| {
        at(span, "/attributes/run.id") == best.attribute("run.id")
            && number(at(span, "/attributes/trial.number")) == Some(best.number)
    };
    steps.claim(
        &format!(
            "all {} spans are of trial {} and of its run",
            spans.len(),
            best.number
        ),
        !spans.is_empty() && spans.iter().all(is_its_own),
    )?;
    steps.say(
        "6. The trail: study, run and trace, every hop verified.",
        "Each names the others, and what they say of each other has to fit.",
    )?;
    let subject = format!("{}#{}", steps.text("study.atj"), best.number);
    let runs = steps.text("runs");
    let trail = ["trail", &subject, &runs, url];
    steps.run(&trail, 0)?;
    let told = steps.ask(&trail, 0)?;
    let here = |kind: &str| is_here(&told, kind) == Some(true);
    steps.claim(
        "trial, run and trace are here, and fit together",
        at(&told, "/outcome") == "intact" && here("trial") && here("run") && here("trace"),
    )
}

/// Whether a trail has reached the node of a kind, and found it.
pub(super) fn is_here(trail: &Value, kind: &str) -> Option<bool> {
    let nodes = at(trail, "/nodes").as_array()?;
    let node = nodes.iter().find(|node| at(node, "/kind") == kind)?;
    at(node, "/here").as_bool()
}

/// A number, however it is spelled.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
