//! Runs to attest, on a simulated disk, and ways to change them.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use durable::{Access, Fs, ManualClock, Outcome, Verdict};
use durable_sim::SimFs;
use omniloop_core::attest::{
    AttestOptions, Attestation, AttestationReport, LeafCollector, LeavesState, SignatureState,
    attest, check_attestation, derive_leaves,
};
use omniloop_core::journal::{
    FrameKind, JournalOptions, JournalSigner, PublicKey, Result, RotationPolicy, StateJournal,
    VerifyOptions,
};

pub(crate) const BASE: &str = "/run.omni";
pub(crate) const LEAVES: &str = "/run.omni.leaves";
pub(crate) const NOTE: &str = "/run.omni.checkpoint";

/// How a run is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) records: u32,
    pub(crate) records_per_segment: Option<u64>,
    pub(crate) seal: bool,
    pub(crate) start_ns: u64,
    pub(crate) word: &'static str,
    pub(crate) signed: bool,
}

impl Run {
    pub(crate) fn of(records: u32) -> Self {
        Self {
            records,
            records_per_segment: None,
            seal: true,
            start_ns: 1_000,
            word: "loss",
            signed: false,
        }
    }

    /// A sealed set of segments of so many records.
    pub(crate) fn rotated(records: u32, per_segment: u64) -> Self {
        Self {
            records_per_segment: Some(per_segment),
            ..Self::of(records)
        }
    }

    pub(crate) fn open_end(self) -> Self {
        Self {
            seal: false,
            ..self
        }
    }

    pub(crate) fn start(self, fs: Arc<dyn Fs>, base: &Path) -> StateJournal {
        self.try_start(fs, base).unwrap()
    }

    /// As `start`, for a disk that may fail.
    pub(crate) fn try_start(self, fs: Arc<dyn Fs>, base: &Path) -> Result<StateJournal> {
        let options = JournalOptions {
            fs,
            clock: Arc::new(ManualClock::new(self.start_ns, 1_000_000)),
            rotation: self.records_per_segment.map(|records| RotationPolicy {
                max_records: Some(records),
                ..RotationPolicy::default()
            }),
            signer: self.signed.then(|| key(9)),
            ..JournalOptions::default()
        };
        StateJournal::create_with(base, options)
    }

    pub(crate) fn append(self, journal: &mut StateJournal, numbers: Range<u32>) {
        self.try_append(journal, numbers).unwrap();
    }

    /// As `append`, for a disk that may fail.
    pub(crate) fn try_append(self, journal: &mut StateJournal, numbers: Range<u32>) -> Result<()> {
        for number in numbers {
            let payload = format!("{{\"{}\":{number}}}", self.word);
            journal.append(FrameKind::Telemetry, payload.as_bytes())?;
        }
        Ok(())
    }

    pub(crate) fn write(self) -> SimFs {
        let fs = SimFs::new();
        let mut journal = self.start(Arc::new(fs.clone()), Path::new(BASE));
        self.append(&mut journal, 0..self.records);
        if self.seal {
            journal.seal().unwrap();
        } else {
            journal.sync().unwrap();
        }
        fs
    }
}

pub(crate) fn key(number: u8) -> JournalSigner {
    JournalSigner::from_seed(&[number; 32])
}

pub(crate) fn public(number: u8) -> PublicKey {
    key(number).public_key()
}

pub(crate) fn sign(fs: &SimFs) -> Attestation {
    attest(fs, Path::new(BASE), &key(1), &AttestOptions::default()).unwrap()
}

pub(crate) fn check_with(
    fs: &dyn Fs,
    trusted: &[PublicKey],
    older: Option<&str>,
) -> Option<AttestationReport> {
    check_attestation(fs, Path::new(BASE), &derive(fs), trusted, older).unwrap()
}

pub(crate) fn derive(fs: &dyn Fs) -> LeafCollector {
    derive_leaves(fs, Path::new(BASE), VerifyOptions::default()).unwrap()
}

/// The check by someone who trusts key 1, of side files that changed since the journal was walked.
pub(crate) fn check_again(fs: &dyn Fs, derived: &LeafCollector) -> AttestationReport {
    let report = check_attestation(fs, Path::new(BASE), derived, &[public(1)], None);
    report.unwrap().unwrap()
}

/// The check by someone who trusts key 1.
pub(crate) fn check(fs: &dyn Fs) -> AttestationReport {
    check_with(fs, &[public(1)], None).unwrap()
}

pub(crate) fn codes(report: &AttestationReport) -> Vec<&'static str> {
    report.findings.iter().map(|finding| finding.code).collect()
}

/// True when nothing about the attestation is amiss.
pub(crate) fn is_clean(report: &AttestationReport) -> bool {
    report.signature == SignatureState::Trusted
        && report.root_matches
        && report.leaves_file == LeavesState::Consistent
        && Verdict::outcome_of(&report.findings) == Outcome::Intact
}

pub(crate) fn read(fs: &dyn Fs, path: impl AsRef<Path>) -> Vec<u8> {
    durable::read_all(fs, path.as_ref(), u64::MAX).unwrap()
}

pub(crate) fn put(fs: &dyn Fs, path: impl AsRef<Path>, bytes: &[u8]) {
    fs.remove_file(path.as_ref()).ok();
    let mut file = fs.create_new(path.as_ref(), Access::Shared).unwrap();
    file.append(bytes).unwrap();
}

pub(crate) fn segment(ordinal: u64) -> PathBuf {
    omniloop_core::journal::segment_path(Path::new(BASE), ordinal)
}

/// Where records start and end in a file: every offset at which it can be cut without a torn record.
pub(crate) fn record_boundaries(file: &[u8]) -> Vec<usize> {
    let mut boundaries = vec![32];
    let mut at = 32;
    while file.len() > at + 36 && !file[at..].starts_with(b"OMNIIDX1") {
        let len = u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
        at += 36 + usize::try_from(len).unwrap();
        boundaries.push(at);
    }
    boundaries
}
