//! Checks a store whole, without opening it: beside a running writer as well as where none can start.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use durable::{Finding, Fs, Outcome, Severity, Verdict, read_all};
use serde_json::{Map, Value, json};

use super::error::{During as _, Result, StoreError};
use super::generation::{self, Manifest, ManifestFile};
use super::{layout, pin};
use crate::llm::Pricing;
use crate::payload::{self, ContentAddress};
use crate::rollup::{self, Binding, RollupError};
use crate::segment::{self, Segment, SegmentError};
use crate::span::Span;
use crate::wal;

const BLOB_LEN_MAX: u64 = 1 << 31;
const SIDECAR_LEN_MAX: u64 = 1 << 30;
/// Says of each segment what one line can say of all.
const TOLD_ONCE: &str = "not_authenticated";

/// Checks everything that the store in `dir` can prove: every segment as [`segment::verify`] does, every frame of the log,
/// every blob, every reference to one, and the files of the live generation and of all pins against their manifests.
///
/// A file that is sound by itself and not the one of the manifest leaves the generation unproven: merging, expiry and
/// erasure replace files until the next checkpoint.
///
/// # Errors
/// [`StoreError::NoStore`]; [`StoreError::Io`] when the folder cannot be listed. Everything else is in the verdict.
pub fn verify(fs: &dyn Fs, dir: &Path) -> Result<Verdict> {
    let mut check = Check {
        fs,
        dir,
        findings: Vec::new(),
        facts: Map::new(),
        references: BTreeSet::new(),
        sound: BTreeSet::new(),
    };
    check.leftovers()?;
    check.segments()?;
    check.log();
    check.blobs()?;
    check.references();
    check.live_generation();
    check.pins()?;
    if !check.sound.is_empty() {
        let what = "checksums and digests tell accidents: whoever can write the files can change them and compute new ones";
        check.add(Severity::Note, TOLD_ONCE, dir, what.to_owned());
    }
    Ok(Verdict {
        path: dir.to_owned(),
        kind: "store",
        verdict: Verdict::outcome_of(&check.findings),
        findings: check.findings,
        facts: check.facts,
    })
}

struct Check<'c> {
    fs: &'c dyn Fs,
    dir: &'c Path,
    findings: Vec<Finding>,
    facts: Map<String, Value>,
    /// Blobs that spans refer to.
    references: BTreeSet<ContentAddress>,
    /// Paths, relative to the store, of the files that are sound by themselves.
    sound: BTreeSet<String>,
}

impl Check<'_> {
    fn add(&mut self, severity: Severity, code: &'static str, path: &Path, what: String) {
        self.findings.push(Finding {
            code,
            severity,
            place: path.display().to_string(),
            what,
        });
    }

    fn damage(&mut self, code: &'static str, path: &Path, what: String) {
        self.add(Severity::Damage, code, path, what);
    }

    fn is_sound(&mut self, path: &Path) {
        self.sound.insert(relative(self.dir, path));
    }

    /// What unfinished work has left.
    fn leftovers(&mut self) -> Result<()> {
        let paths = match self.fs.read_dir(self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(StoreError::NoStore {
                    path: self.dir.to_owned(),
                });
            }
            other => other.during("list", self.dir)?,
        };
        for path in paths {
            let name = layout::file_name(&path);
            if layout::is_merge_journal(name) {
                let what = "a merge is running, or was interrupted; opening the store decides it";
                self.add(Severity::Unproven, "merge_unfinished", &path, what.into());
            } else if name == ".restore.journal" {
                let what = "a restore was interrupted; opening the store brings it to its end";
                self.add(Severity::Unproven, "restore_unfinished", &path, what.into());
            }
        }
        Ok(())
    }

    fn segments(&mut self) -> Result<()> {
        let segments = layout::segments(self.fs, self.dir)?;
        let mut records = 0;
        for (_, path) in &segments {
            records += self.segment(path);
        }
        self.facts.insert("segments".into(), segments.len().into());
        self.facts.insert("records".into(), records.into());
        Ok(())
    }

    /// Answers the number of its records.
    fn segment(&mut self, path: &Path) -> u64 {
        let verdict = match segment::verify(self.fs, path) {
            Ok(verdict) => verdict,
            Err(SegmentError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                let what = "it was replaced while it was being checked";
                self.add(Severity::Note, "replaced", path, what.to_owned());
                return 0;
            }
            Err(error) => {
                self.damage("segment_unreadable", path, error.to_string());
                return 0;
            }
        };
        let told = verdict.findings.into_iter();
        self.findings
            .extend(told.filter(|finding| finding.code != TOLD_ONCE));
        if verdict.verdict == Outcome::Intact {
            self.is_sound(path);
            self.look_inside(path);
        }
        verdict
            .facts
            .get("records")
            .and_then(Value::as_u64)
            .unwrap_or(0)
    }

    fn look_inside(&mut self, path: &Path) {
        let Ok(segment) = Segment::open(self.fs, path) else {
            return;
        };
        self.sidecar(path, &segment);
        for record in segment.scan() {
            let span = record
                .ok()
                .and_then(|record| Span::from_json(record.payload()).ok());
            self.refers(span.iter());
        }
    }

    fn sidecar(&mut self, path: &Path, segment: &Segment) {
        let sidecar = layout::sidecar_path(path);
        let Ok(bytes) = read_all(self.fs, &sidecar, SIDECAR_LEN_MAX) else {
            return;
        };
        // With which prices it was made is not known here, and does not matter.
        let binding = Binding::of(segment.header(), segment.file_len(), &Pricing::default());
        match rollup::decode(&bytes, &binding) {
            Ok(_) | Err(RollupError::Binding { .. }) => {}
            Err(error) => {
                let what = format!("{error}; it is a cache, and is made again when it is needed");
                self.add(Severity::Note, "sidecar_unusable", &sidecar, what);
            }
        }
    }

    fn refers<'s>(&mut self, spans: impl Iterator<Item = &'s Span>) {
        let addresses = spans
            .flat_map(payload::live_references)
            .filter_map(|reference| reference.parse::<ContentAddress>().ok());
        self.references.extend(addresses);
    }

    fn log(&mut self) {
        let path = self.dir.join(wal::FILE_NAME);
        let file = match self.fs.open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => return self.damage("log_unreadable", &path, error.to_string()),
        };
        let mut logged = Vec::new();
        let scanned = wal::scan(file.as_ref(), &mut |frame| {
            let spans =
                Span::batch_from_json(frame.payload).map_err(|error| wal::FrameFault::Spans {
                    reason: error.to_string(),
                })?;
            logged.extend(spans);
            Ok(())
        });
        self.facts
            .insert("logged_spans".into(), logged.len().into());
        self.refers(logged.iter());
        match scanned {
            Ok(found) if found.torn_len > 0 => {
                let what = format!(
                    "{} bytes behind byte {} are of an append that was not finished, and was not acknowledged",
                    found.torn_len, found.len
                );
                self.add(Severity::Note, "log_torn", &path, what);
            }
            Ok(_) => {}
            Err(error) => self.damage("log_damaged", &path, error.to_string()),
        }
    }

    fn blobs(&mut self) -> Result<()> {
        let paths = generation::files(self.fs, self.dir)?;
        let mut count = 0u64;
        for path in paths {
            let name = relative(self.dir, &path);
            if !name.starts_with("payloads/") {
                continue;
            }
            count += 1;
            match blob_fault(self.fs, self.dir, &path) {
                None => self.is_sound(&path),
                Some(what) => self.damage("payload_damaged", &path, what),
            }
        }
        self.facts.insert("payloads".into(), count.into());
        Ok(())
    }

    /// Every blob that a span refers to is there.
    fn references(&mut self) {
        for address in std::mem::take(&mut self.references) {
            let path = self.dir.join(address.relative_path());
            if !self.fs.exists(&path).unwrap_or(false) {
                let what = "a span refers to it, and the store does not have it";
                self.add(Severity::Unproven, "payload_missing", &path, what.into());
            }
        }
    }

    fn live_generation(&mut self) {
        let current = match generation::current(self.fs, self.dir) {
            Ok(current) => current,
            Err(error) => {
                return self.damage(
                    "generation_damaged",
                    &layout::current_path(self.dir),
                    error.to_string(),
                );
            }
        };
        let Some(id) = current else {
            let what = "no generation was ever published; the first opening makes one";
            return self.add(Severity::Unproven, "no_generation", self.dir, what.into());
        };
        self.facts.insert("generation".into(), id.into());
        let path = layout::manifest_path(self.dir, id);
        let manifest = match Manifest::read(self.fs, self.dir, id) {
            Ok(manifest) => manifest,
            Err(error) => return self.damage("manifest_damaged", &path, chain(&error)),
        };
        self.facts
            .insert("manifest_files".into(), manifest.files.len().into());
        for file in &manifest.files {
            let path = self.dir.join(&file.path);
            let Some(what) = difference(self.fs, &path, file) else {
                self.is_sound(&path);
                continue;
            };
            if layout::is_log(&file.path) && self.fs.exists(&path).unwrap_or(false) {
                let what = format!("{what}; erasure and expiry rewrite it, nothing else does");
                self.add(Severity::Unproven, "changed_since_checkpoint", &path, what);
                continue;
            }
            // Damage of the file itself was told already.
            let is_gone = !self.fs.exists(&path).unwrap_or(false);
            if is_gone || self.sound.contains(&file.path) {
                let what = format!(
                    "{what}: it was merged, expired or erased after generation {id}, or it was lost; a checkpoint renews the manifest"
                );
                self.add(Severity::Unproven, "changed_since_checkpoint", &path, what);
            }
        }
    }

    fn pins(&mut self) -> Result<()> {
        let folders = pin::pin_folders(self.fs, self.dir)?;
        let mut pins = Vec::new();
        for folder in folders {
            let path = folder.join(pin::MANIFEST_NAME);
            let manifest = match Manifest::read_file(self.fs, &path) {
                Ok(manifest) => manifest,
                Err(error) => {
                    self.damage("pin_damaged", &path, chain(&error));
                    continue;
                }
            };
            pins.push(json!({
                "label": layout::file_name(&folder), "generation": manifest.generation,
            }));
            for file in &manifest.files {
                let path = folder.join(&file.path);
                if let Some(what) = difference(self.fs, &path, file) {
                    self.damage("pin_damaged", &path, what);
                }
            }
        }
        self.facts.insert("pins".into(), pins.into());
        Ok(())
    }
}

fn relative(dir: &Path, path: &Path) -> String {
    let relative = path.strip_prefix(dir).unwrap_or(path);
    relative.to_string_lossy().into_owned()
}

fn chain(error: &StoreError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// What is wrong with the blob at `path`.
fn blob_fault(fs: &dyn Fs, dir: &Path, path: &Path) -> Option<String> {
    let digits = layout::file_name(path)
        .strip_suffix(".bin")
        .unwrap_or_default();
    let Ok(address) = format!("sha256/{digits}").parse::<ContentAddress>() else {
        return Some("its name is no content address".to_owned());
    };
    if dir.join(address.relative_path()) != *path {
        return Some("it lies where nothing looks for it".to_owned());
    }
    match read_all(fs, path, BLOB_LEN_MAX) {
        Ok(blob) => payload::decode_as(&blob, address)
            .err()
            .map(|error| error.to_string()),
        Err(error) => Some(error.to_string()),
    }
}

/// In what the file differs from its entry.
fn difference(fs: &dyn Fs, path: &Path, entry: &ManifestFile) -> Option<String> {
    let found = match fs.metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Some("the manifest lists it, and it is missing".to_owned());
        }
        Err(error) => return Some(error.to_string()),
    };
    let is_long_enough = found.len == entry.bytes
        || layout::is_log(layout::file_name(path)) && found.len > entry.bytes;
    if !is_long_enough {
        return Some(format!(
            "its length is {}, the manifest says {}",
            found.len, entry.bytes
        ));
    }
    match generation::digest(fs, path, entry.bytes) {
        Ok(sha256) if sha256 == entry.sha256 => None,
        Ok(_) => Some("its content is not the one of the manifest".to_owned()),
        Err(error) => Some(chain(&error)),
    }
}
