//! A trace that is forgotten, with a receipt.

use super::questions::is_here;
use super::steps::{Steps, at};
use super::study::Tuned;
use crate::failure::Failure;

/// Has the trace of the worst trial erased, and looks for it.
pub(super) fn erase(steps: &Steps, tuned: &Tuned, url: &str) -> Result<(), Failure> {
    let worst = &tuned.worst;
    let trace = worst.trace();
    steps.say(
        &format!("9. Forget a trace: that of the worst trial, {}.", worst.number),
        "Log, segments and everything derived from them are rewritten without it; the receipt says where it was looked for.",
    )?;
    let subject = format!("{}#{}", steps.text("study.atj"), worst.number);
    let runs = steps.text("runs");
    let trail = ["trail", &subject, &runs, url];
    let told = steps.ask(&trail, 0)?;
    steps.claim(
        "before, its trail leads to a trace",
        is_here(&told, "trace") == Some(true),
    )?;
    steps.run(&["trace", "erase", "--url", url, "--trace", trace], 0)?;
    let receipt = steps.ask(&["trace", "receipt", "--url", url, "latest"], 0)?;
    steps.claim(
        "it is erased: the receipt found nothing of it anywhere",
        at(&receipt, "/result") == "erased" && at(&receipt, "/conclusive").as_bool() == Some(true),
    )?;
    steps.run(&["trace", "get", "--url", url, trace], 2)?;
    steps.run(&trail, 2)?;
    let told = steps.ask(&trail, 2)?;
    steps.claim(
        "trial and run are here as before; of the trace the trail says that it is not here",
        is_here(&told, "run") == Some(true) && is_here(&told, "trace") == Some(false),
    )
}
