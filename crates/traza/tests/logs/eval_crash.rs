//! What is promised: a change of datasets and experiments is there whole after a crash once it was acknowledged, or not at
//! all. The version is the hard one, since it is several lines.

use durable_sim::{BoxError, Image, Ledger, SimFs, Survival};
use traza::logs::eval::{EvalError, Evals, FORMAT, NewExample};
use traza::logs::file::{Healed, scan};

use crate::disk::{LOG, sweep};
use crate::evals::{anything, example, open, version};

/// Longer than sectors, so that a crash can keep a later line of an append and lose an earlier one.
fn examples(round: u64) -> Vec<NewExample> {
    let input = format!("[{round},\"{}\"]", "long ".repeat(180));
    vec![
        example("a", &input),
        example("b", &round.to_string()),
        example("c", "7"),
    ]
}

/// The changes in order, each with a name that [`found`] sees again.
const CHANGES: [&str; 6] = [
    "dataset 1",
    "version 2",
    "experiment 3",
    "run 4",
    "version 5",
    "dataset 6",
];

fn change(evals: &mut Evals, what: &str) -> Result<(), EvalError> {
    let (kind, number) = what.split_once(' ').unwrap();
    let at = number.parse().unwrap();
    match kind {
        "dataset" => evals.create_dataset("", what, at).map(drop),
        "version" => {
            let new = version(1, None, &examples(at));
            evals.create_version(new, anything, at).map(drop)
        }
        "experiment" => {
            let id = evals.state().versions(1)[0].version_id.clone();
            evals.create_experiment(1, &id, what, None, at).map(drop)
        }
        _ => evals.add_run(1, "a", what, "", at),
    }
}

fn found(evals: &Evals) -> Vec<String> {
    let state = evals.state();
    let mut found: Vec<(u64, String)> = Vec::new();
    found.extend(
        state
            .datasets()
            .map(|each| (each.created_unix_ns, each.name.clone())),
    );
    for version in state.versions(1) {
        for (_, digest) in &version.examples {
            assert!(
                state.example(digest).is_some(),
                "a version has all its bodies"
            );
        }
        let at = version.created_unix_ns;
        found.push((at, format!("version {at}")));
    }
    found.extend(
        state
            .experiments()
            .map(|each| (each.created_unix_ns, each.name.clone())),
    );
    found.extend(
        state
            .runs(1)
            .iter()
            .map(|run| (run.created_unix_ns, run.trace_id.clone())),
    );
    found.sort();
    assert_eq!(state.misnamed().count(), 0);
    found.into_iter().map(|(_, name)| name).collect()
}

fn check(image: &Image, ledger: &Ledger<String>) -> Result<(), BoxError> {
    let mut evals = open(&image.fs)?;
    ledger.check_in_order(&found(&evals))?;
    evals.create_dataset("", "dataset 9", 9)?;
    let after = image.fs.after_crash(Survival::Nothing);
    assert_eq!(open(&after)?.state(), evals.state());
    Ok(())
}

#[test]
fn a_crash_at_any_call_leaves_each_change_whole_or_not_at_all() {
    let swept = sweep()
        .seeded_images(40)
        .for_each_crash(
            |fs, ledger| {
                let mut evals = open(fs)?;
                for what in CHANGES {
                    ledger.submit(what.to_owned());
                    change(&mut evals, what)?;
                    ledger.acknowledge(what.to_owned());
                }
                Ok(())
            },
            check,
        )
        .unwrap();
    assert!(swept.calls > 12, "{swept:?}");
}

#[test]
fn a_failure_of_any_call_changes_nothing_and_a_second_try_works_also_after_a_crash() {
    sweep()
        .for_each_failure(
            |fs, ledger| {
                let mut evals = open(fs).or_else(|_| open(fs))?;
                for what in CHANGES {
                    let before = evals.state().clone();
                    ledger.submit(what.to_owned());
                    if change(&mut evals, what).is_err() {
                        assert_eq!(evals.state(), &before);
                        change(&mut evals, what)?;
                    }
                    ledger.acknowledge(what.to_owned());
                }
                assert_eq!(found(&evals), CHANGES);
                Ok(())
            },
            check,
        )
        .unwrap();
}

#[test]
fn a_crash_or_a_failure_at_any_call_of_an_erasure_leaves_the_tenant_or_nothing_of_it() {
    let begin = SimFs::new();
    let mut evals = open(&begin).unwrap();
    evals.create_dataset("acme", "d", 1).unwrap();
    evals
        .create_version(version(1, None, &examples(1)), anything, 2)
        .unwrap();
    evals.create_dataset("", "kept", 3).unwrap();
    let whole = evals.state().clone();
    let mut elsewhere = open(&begin.fork()).unwrap();
    elsewhere.erase_tenant("acme").unwrap();
    let left = elsewhere.state().clone();

    let workload = |fs: &SimFs, ledger: &mut Ledger<()>| {
        let mut evals = open(fs).or_else(|_| open(fs))?;
        if evals.erase_tenant("acme").is_ok() {
            ledger.acknowledge(());
        } else {
            assert_eq!(evals.state(), &whole);
        }
        Ok(())
    };
    let check = |image: &Image, ledger: &Ledger<()>| {
        let mut evals = open(&image.fs)?;
        let erased = evals.state() == &left;
        assert!(erased || (evals.state() == &whole && ledger.acknowledged().is_empty()));
        assert_eq!(evals.create_dataset("", "next", 9)?, 3);
        Ok(())
    };
    let sweep = sweep().starting_from(&begin);
    sweep.for_each_crash(workload, check).unwrap();
    sweep.for_each_failure(workload, check).unwrap();
}

#[test]
fn a_version_whose_first_body_was_never_written_is_torn_and_one_whose_bodies_are_all_there_is_not()
{
    let fs = SimFs::new();
    let mut evals = open(&fs).unwrap();
    evals.create_dataset("", "d", 1).unwrap();
    let before = crate::disk::bytes(&fs).len();
    evals
        .create_version(version(1, None, &examples(1)), anything, 2)
        .unwrap();
    let mut bytes = crate::disk::bytes(&fs);
    bytes[512..1024].fill(0);
    let path = std::path::Path::new(LOG);
    let torn = scan(path, &bytes, &FORMAT).unwrap();
    assert!(
        matches!(torn.healed, Some(Healed::TornTail { offset, .. }) if offset == before as u64)
    );
    assert_eq!(torn.records.len(), 1);

    // A later change was acknowledged after the version: zeros before it are damage.
    evals.create_dataset("", "e", 3).unwrap();
    let mut bytes = crate::disk::bytes(&fs);
    bytes[512..1024].fill(0);
    scan(path, &bytes, &FORMAT).unwrap_err();

    // A version that repeats no body stands alone: zeros before it are damage too.
    let id = evals.state().versions(1)[0].version_id.clone();
    let fs = SimFs::new();
    let mut evals = open(&fs).unwrap();
    evals.create_dataset("", "d", 1).unwrap();
    evals
        .create_version(version(1, None, &examples(1)), anything, 2)
        .unwrap();
    evals.create_dataset("", &"long ".repeat(300), 3).unwrap();
    let long = crate::disk::bytes(&fs).len();
    evals
        .create_version(version(1, Some(&id), &examples(1)), anything, 4)
        .unwrap();
    let mut bytes = crate::disk::bytes(&fs);
    let end = (long - 40) / 512 * 512;
    bytes[end - 512..end].fill(0);
    scan(path, &bytes, &FORMAT).unwrap_err();
}
