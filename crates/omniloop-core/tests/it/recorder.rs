//! Promised: a recorder never loses a record silently: what it takes is in the journal, in order, with
//! the time of the call; what it drops is telemetry, is counted, and the loss is on record.
//!
//! Attacked by holding the writer thread until the queue is full, by many callers at once, by a disk
//! that fails, and by dropping the recorder.
//!
//! The oracle is the list of what was handed over, and the journal that is left.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};

use durable::{Clock, Outcome};
use durable_sim::SimFs;
use omniloop_core::journal::layout::PAYLOAD_LEN_MAX;
use omniloop_core::journal::{
    Durability, ErrorKind, FrameKind, FrameRecord, JournalOptions, Result,
};
use omniloop_core::recorder::Recorded::{Dropped, Queued};
use omniloop_core::recorder::{Policy, Recorded, Recorder, RecorderOptions};

use crate::support::{START_WALL_NS, bytes_of, options, outcome, path, read, verify};

/// A clock at which the writer thread, and no other, can be held up.
#[derive(Debug, Default)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    now_ns: u64,
    is_shut: bool,
    is_held: bool,
}

impl Gate {
    fn set(&self, now_ns: u64) {
        self.state.lock().unwrap().now_ns = now_ns;
    }

    /// Holds up the writer from its next look at the clock on, and waits until it is there.
    fn shut(&self) {
        let mut state = self.state.lock().unwrap();
        state.is_shut = true;
        while !state.is_held {
            state = self.changed.wait(state).unwrap();
        }
    }

    fn open(&self) {
        self.state.lock().unwrap().is_shut = false;
        self.changed.notify_all();
    }
}

impl Clock for Gate {
    fn mono_ns(&self) -> u64 {
        let mut state = self.state.lock().unwrap();
        if std::thread::current().name() == Some("omni-writer") {
            while state.is_shut {
                state.is_held = true;
                self.changed.notify_all();
                state = self.changed.wait(state).unwrap();
            }
            state.is_held = false;
        }
        state.now_ns
    }

    fn wall_ns(&self) -> u64 {
        START_WALL_NS + self.state.lock().unwrap().now_ns
    }
}

fn start(fs: &SimFs, clock: Arc<dyn Clock>, policy: Policy, queue_records: usize) -> Recorder {
    let options = RecorderOptions {
        journal: JournalOptions {
            clock,
            durability: Durability::EachRecord,
            ..options(fs)
        },
        queue_records,
        policy,
        ..RecorderOptions::default()
    };
    Recorder::create(path(), options).unwrap()
}

fn records(fs: &SimFs) -> Vec<FrameRecord> {
    let (records, end) = read(&bytes_of(fs, path()));
    end.unwrap();
    records.into_iter().filter(|r| r.kind.is_data()).collect()
}

/// The counts of the records that report a loss.
fn losses(records: &[FrameRecord]) -> Vec<u64> {
    records
        .iter()
        .filter(|r| r.kind == FrameKind::Control)
        .filter_map(|r| r.json().unwrap()["count"].as_u64())
        .collect()
}

#[test]
fn what_is_taken_is_in_the_journal_in_order_with_the_time_of_the_call() {
    let fs = SimFs::new();
    let gate = Arc::new(Gate::default());
    let recorder = start(&fs, gate.clone(), Policy::Block, 100);
    gate.shut();
    for n in 1..=50u64 {
        gate.set(n * 1000);
        let taken = recorder.record(FrameKind::Telemetry, format!("{{\"n\":{n}}}"));
        assert_eq!(taken.unwrap(), Queued);
    }
    gate.set(5_000_000_000);
    gate.open();
    let closed = recorder.close().unwrap();
    assert_eq!(closed.dropped, 0);
    for (n, record) in (1u64..).zip(records(&fs)) {
        assert_eq!(record.payload, format!("{{\"n\":{n}}}").into_bytes());
        assert_eq!((record.tick, record.mono_ns), (n, n * 1000));
    }
    assert_eq!(
        outcome(&verify(&bytes_of(&fs, path()))),
        Some(Outcome::Intact)
    );
}

#[test]
fn a_full_queue_drops_telemetry_alone_and_the_loss_is_counted_and_recorded() {
    let fs = SimFs::new();
    let gate = Arc::new(Gate::default());
    let recorder = start(&fs, gate.clone(), Policy::DropTelemetry, 4);
    gate.shut();
    let mut taken = Vec::new();
    for n in 1..=7u64 {
        gate.set(n * 1000);
        taken.push(recorder.record(FrameKind::Telemetry, "{}").unwrap());
    }
    assert_eq!(
        taken,
        [Queued, Queued, Queued, Queued, Dropped, Dropped, Dropped]
    );
    assert_eq!(recorder.dropped(), 3);
    gate.set(5_000_000_000);
    std::thread::scope(|scope| {
        // It has to wait for a place, and gets it.
        let mutation = scope.spawn(|| recorder.record(FrameKind::Mutation, "{}"));
        gate.open();
        assert_eq!(mutation.join().unwrap().unwrap(), Queued);
    });
    assert_eq!(recorder.close().unwrap().dropped, 3);
    let records = records(&fs);
    let of = |kind| {
        records
            .iter()
            .filter(|r| r.kind == kind)
            .collect::<Vec<_>>()
    };
    assert_eq!(losses(&records), [3]);
    assert_eq!(of(FrameKind::Mutation).len(), 1);
    let times: Vec<u64> = of(FrameKind::Telemetry).iter().map(|r| r.mono_ns).collect();
    assert_eq!(
        times,
        [1000, 2000, 3000, 4000],
        "the loss does not move the others"
    );
}

#[test]
fn a_loss_at_the_very_end_is_recorded_too() {
    let fs = SimFs::new();
    let gate = Arc::new(Gate::default());
    let recorder = start(&fs, gate.clone(), Policy::DropTelemetry, 1);
    gate.shut();
    let mut dropped = 0;
    for _ in 0..3 {
        dropped += u64::from(recorder.record(FrameKind::Telemetry, "{}").unwrap() == Dropped);
    }
    gate.open();
    recorder.close().unwrap();
    assert_eq!(losses(&records(&fs)).iter().sum::<u64>(), dropped);
    assert_eq!(dropped, 2);
}

#[test]
fn many_callers_lose_nothing_and_each_keeps_its_order() {
    const CALLERS: u64 = 4;
    const EACH: u64 = 500;
    let fs = SimFs::new();
    let recorder = start(&fs, Arc::new(Gate::default()), Policy::Block, 8);
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            let recorder = &recorder;
            scope.spawn(move || {
                for n in 0..EACH {
                    let payload = format!("{{\"caller\":{caller},\"n\":{n}}}");
                    assert_eq!(recorder.record(FrameKind::Input, payload).unwrap(), Queued);
                }
            });
        }
    });
    assert_eq!(recorder.close().unwrap().dropped, 0);
    let mut next: BTreeMap<u64, u64> = BTreeMap::new();
    for record in records(&fs) {
        let json = record.json().unwrap();
        let expected = next.entry(json["caller"].as_u64().unwrap()).or_default();
        assert_eq!(json["n"].as_u64(), Some(*expected));
        *expected += 1;
    }
    assert!(
        next.len() as u64 == CALLERS && next.values().all(|n| *n == EACH),
        "{next:?}"
    );
}

#[test]
fn a_failing_disk_is_the_answer_of_a_later_call_and_of_close() {
    let fs = SimFs::new();
    let recorder = start(&fs, Arc::new(Gate::default()), Policy::Block, 2);
    let next = fs.calls().len() as u64 + 1;
    fs.fail_nth(next, durable_sim::ENOSPC, durable_sim::ShortWrite::Nothing);
    // Each call finds a place or the error: more than the queue holds cannot all find a place.
    let answers: Result<Vec<Recorded>> = (0..4)
        .map(|_| recorder.record(FrameKind::Control, "{}"))
        .collect();
    assert_eq!(answers.unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(recorder.check().unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(recorder.close().unwrap_err().kind(), ErrorKind::Io);
}

#[test]
fn a_recorder_that_is_dropped_writes_what_was_taken_and_leaves_the_journal_unsealed() {
    let fs = SimFs::new();
    let gate = Arc::new(Gate::default());
    let recorder = start(&fs, gate.clone(), Policy::Block, 100);
    gate.shut();
    for _ in 0..20 {
        assert_eq!(recorder.record(FrameKind::Telemetry, "{}").unwrap(), Queued);
    }
    gate.open();
    drop(recorder);
    assert_eq!(records(&fs).len(), 20);
    assert!(!verify(&bytes_of(&fs, path())).unwrap().chain.finalized);
}

#[test]
fn a_record_that_cannot_be_written_is_refused_and_stops_nothing() {
    let fs = SimFs::new();
    let recorder = start(&fs, Arc::new(Gate::default()), Policy::Block, 10);
    for kind in [FrameKind::Chain, FrameKind::Signature] {
        assert_eq!(
            recorder.record(kind, [0; 32]).unwrap_err().kind(),
            ErrorKind::Misuse
        );
    }
    let too_long = vec![0; PAYLOAD_LEN_MAX + 1];
    let refused = recorder.record(FrameKind::Input, too_long).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Misuse);
    assert_eq!(recorder.record(FrameKind::Input, "{}").unwrap(), Queued);
    recorder.close().unwrap();
    assert_eq!(records(&fs).len(), 1);
}
