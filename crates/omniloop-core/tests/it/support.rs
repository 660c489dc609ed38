//! Journals to attack, and the verdicts on them.

use std::path::Path;
use std::sync::Arc;

use durable::{Clock, Fs, ManualClock, Outcome, Verdict};
use durable_sim::SimFs;
use omniloop_core::fuzzing::{OneFile, PATH, read_all_records};
use omniloop_core::journal::{
    FrameKind, FrameRecord, JournalOptions, PlayerOptions, Result, SignatureVerification,
    StateJournal, VerifyOptions, verify_signed_with,
};

/// When the clock of every test starts, Unix nanoseconds.
pub(crate) const START_WALL_NS: u64 = 1_700_000_000_000_000_000;
/// How far each reading moves it.
pub(crate) const STEP_NS: u64 = 1_000_000;

/// The kinds that callers write.
pub(crate) const DATA_KINDS: [FrameKind; 7] = [
    FrameKind::Lifecycle,
    FrameKind::Input,
    FrameKind::Telemetry,
    FrameKind::Mutation,
    FrameKind::Control,
    FrameKind::Hash,
    FrameKind::Guardrail,
];

pub(crate) fn clock() -> Arc<dyn Clock> {
    Arc::new(ManualClock::new(START_WALL_NS, STEP_NS))
}

/// Options with a disk and a clock of the test's own.
pub(crate) fn options(fs: &SimFs) -> JournalOptions {
    JournalOptions {
        fs: Arc::new(fs.clone()),
        clock: clock(),
        ..JournalOptions::default()
    }
}

pub(crate) fn path() -> &'static Path {
    Path::new(PATH)
}

/// A payload such as a program would write, the `n`th of its kind.
pub(crate) fn payload(kind: FrameKind, n: u64) -> Vec<u8> {
    let text = match kind {
        FrameKind::Telemetry => format!(r#"{{"loss":{}.5,"gain":0.25}}"#, 100 - n % 100),
        FrameKind::Mutation => format!(
            r#"{{"name":"gain","old":0.25,"new":0.5,"source":"ipc","correlation_id":"c-{n}"}}"#
        ),
        FrameKind::Control => r#"{"command":"halt","reason":"operator"}"#.to_owned(),
        FrameKind::Lifecycle => {
            r#"{"event":"start","argv":["train.py"],"script":"train.py"}"#.to_owned()
        }
        FrameKind::Hash => format!(r#"{{"algorithm":"sha256","hash":"{n:064x}"}}"#),
        FrameKind::Input => format!(r#"{{"channel":"seed:numpy","value":{n}}}"#),
        FrameKind::Guardrail => r#"{"name":"gain","requested":9.0,"applied":0.5,"min":0.0,"max":0.5,"cause":"limit","principal":"ops"}"#.to_owned(),
        FrameKind::Chain | FrameKind::Signature => unreachable!("the journal's own"),
    };
    text.into_bytes()
}

/// Appends `count` records, the data kinds in turn.
pub(crate) fn append_in_turn(journal: &mut StateJournal, count: u64) {
    for (n, kind) in (0..count).zip(DATA_KINDS.into_iter().cycle()) {
        journal.append(kind, &payload(kind, n)).unwrap();
    }
}

/// The bytes of a sealed journal of `count` records of all data kinds.
pub(crate) fn sealed(count: u64) -> Vec<u8> {
    sealed_as(count, |options| options)
}

/// As [`sealed`], with options that `adjust` made of the test's.
pub(crate) fn sealed_as(count: u64, adjust: impl Fn(JournalOptions) -> JournalOptions) -> Vec<u8> {
    let fs = SimFs::new();
    let mut journal = StateJournal::create_with(path(), adjust(options(&fs))).unwrap();
    append_in_turn(&mut journal, count);
    journal.seal().unwrap();
    bytes_of(&fs, path())
}

pub(crate) fn bytes_of(fs: &dyn Fs, path: &Path) -> Vec<u8> {
    durable::read_all(fs, path, u64::MAX).unwrap()
}

/// Reads a file in memory strictly: the records before the end or the error, and which it was.
pub(crate) fn read(bytes: &[u8]) -> (Vec<FrameRecord>, Result<()>) {
    read_all_records(&OneFile::new(bytes), path(), PlayerOptions::default())
}

/// As [`read`], leniently.
pub(crate) fn read_leniently(bytes: &[u8]) -> (Vec<FrameRecord>, Result<()>) {
    let options = PlayerOptions {
        lenient: true,
        ..PlayerOptions::default()
    };
    read_all_records(&OneFile::new(bytes), path(), options)
}

/// Verifies a file in memory, chain and signatures.
pub(crate) fn verify(bytes: &[u8]) -> Result<SignatureVerification> {
    verify_as(bytes, false)
}

pub(crate) fn verify_as(bytes: &[u8], strict: bool) -> Result<SignatureVerification> {
    let options = VerifyOptions { strict, threads: 1 };
    verify_signed_with(&OneFile::new(bytes), path(), &[], options, &mut ())
}

/// The word that a person would get; `None` when the file could not be judged at all.
pub(crate) fn outcome(result: &Result<SignatureVerification>) -> Option<Outcome> {
    let result = result.as_ref().ok()?;
    Some(Verdict::outcome_of(&result.chain.findings))
}

/// The codes of everything that was found.
pub(crate) fn codes(result: &SignatureVerification) -> Vec<&'static str> {
    result.chain.findings.iter().map(|f| f.code).collect()
}

#[cfg(feature = "signing")]
pub(crate) fn signer() -> omniloop_core::journal::JournalSigner {
    omniloop_core::journal::JournalSigner::from_seed(&[7; 32])
}
