//! The trials of workers that died: they are failed before a study counts as done.

use std::collections::BTreeMap;
use std::time::Duration;

use atune_core::replica::Replica;
use atune_core::study::{Study, StudyError};
use atune_core::trial::{TrialId, TrialState};

use super::interrupt::Interrupt;
use super::session::Session;
use super::show::Board;

/// How often others are looked after.
const TICK: Duration = Duration::from_millis(100);

/// What became of the trials of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// Those that are still running are at living workers.
    Done,
    /// Some wait to be run again.
    Retried,
}

/// Waits until every running trial of another worker has ended, was renewed, or was failed because nobody
/// renewed it.
pub(super) fn settle(
    session: &Session<'_>,
    interrupt: &Interrupt,
    board: &Board,
) -> Result<Settled, StudyError> {
    let study = &session.study;
    let first = running(study)?;
    let mut is_told = false;
    loop {
        let now = running(study)?;
        let is_silent = |(trial, seq): (&TrialId, &u64)| first.get(trial) == Some(seq);
        let silent = now.iter().filter(|pair| is_silent(*pair)).count();
        // Also when none is silent any more: the worker's own thread may have failed them a moment ago, and
        // what that left to do was not done yet.
        study.fail_stale(session.args.stale_after)?;
        if has_retries(study)? {
            return Ok(Settled::Retried);
        }
        if silent == 0 || interrupt.is_asked() {
            return Ok(Settled::Done);
        }
        if !is_told {
            is_told = true;
            let limit = session.args.stale_after;
            board.say(&format!(
                "waiting up to {limit:?} for {silent} running trials that nobody may be at any more"
            ));
        }
        std::thread::sleep(TICK);
    }
}

/// The running trials and how often each was renewed.
fn running(study: &Study) -> Result<BTreeMap<TrialId, u64>, StudyError> {
    let mut found = BTreeMap::new();
    study.storage().read(&mut |replica: &Replica| {
        let trials = replica.trials_of(study.id()).into_iter().flatten();
        let running = trials.filter(|trial| trial.state == TrialState::Running);
        found = running
            .map(|trial| (trial.id, trial.heartbeat_seq))
            .collect();
    })?;
    Ok(found)
}

/// Whether a trial waits that stands for a failed one.
fn has_retries(study: &Study) -> Result<bool, StudyError> {
    let mut found = false;
    study.storage().read(&mut |replica: &Replica| {
        let mut trials = replica.trials_of(study.id()).into_iter().flatten();
        // Others are part of the budget, and were there when it was found to be spent.
        found =
            trials.any(|trial| trial.state == TrialState::Waiting && trial.retry_of().is_some());
    })?;
    Ok(found)
}
