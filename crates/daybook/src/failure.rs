//! What the command line says when something cannot be done.

use std::io;

use anstream::eprintln;
use atune_core::storage::journal::JournalError;
use omniloop_core::attest::AttestError;
use omniloop_core::export::ExportError;
use omniloop_core::journal;
use traza::segment::SegmentError;
use traza::store::StoreError;

use crate::styles::{BAD, HINT};
use crate::text::clean;

/// Done, or checked and good.
pub(crate) const DONE: u8 = 0;
/// Checked, and bad.
pub(crate) const BAD_CODE: u8 = 1;
/// Could not be checked or done.
pub(crate) const COULD_NOT: u8 = 2;

/// What a verb comes to: an exit code, or why not.
pub(crate) type Outcome = Result<u8, Failure>;

/// Why a verb failed, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Failure {
    /// Something could not be done.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            code: COULD_NOT,
            message: message.into(),
            hint: None,
        }
    }

    /// `error` and its causes, behind what was tried.
    pub(crate) fn io(tried: &str, error: &io::Error) -> Self {
        Self::new(format!("{tried}: {}", io_text(error)))
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn with_code(mut self, code: u8) -> Self {
        self.code = code;
        self
    }

    /// On standard error, in two lines at most.
    pub(crate) fn print(&self, program: &str) {
        eprintln!("{BAD}{program}:{BAD:#} {}", clean(&self.message));
        if let Some(hint) = &self.hint {
            eprintln!("{HINT}hint:{HINT:#} {}", clean(hint));
        }
    }
}

/// An error and its causes, the outermost first.
pub(crate) fn chain_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&match inner.downcast_ref::<io::Error>() {
            Some(error) => io_text(error),
            None => inner.to_string(),
        });
        cause = inner.source();
    }
    text
}

/// What the system said, without its number.
fn io_text(error: &io::Error) -> String {
    let text = error.to_string();
    match (error.raw_os_error(), text.rfind(" (os error ")) {
        (Some(_), Some(at)) => text.get(..at).unwrap_or(&text).to_owned(),
        _ => text,
    }
}

/// True when the error is the system's, of this kind.
pub(crate) fn is_io(error: &journal::Error, kind: io::ErrorKind) -> bool {
    matches!(error, journal::Error::Io { source, .. } if source.kind() == kind)
}

impl From<JournalError> for Failure {
    fn from(error: JournalError) -> Self {
        let failure = Self::new(chain_text(&error));
        match &error {
            JournalError::Corrupt { .. } => failure
                .with_code(BAD_CODE)
                .with_hint("`daybook verify` checks it whole; restore the files from a copy"),
            JournalError::Unsupported { .. } => {
                failure.with_hint("a newer daybook wrote it; upgrade to read it")
            }
            _ => failure,
        }
    }
}

impl From<journal::Error> for Failure {
    fn from(error: journal::Error) -> Self {
        let failure = Self::new(chain_text(&error));
        match &error {
            journal::Error::Corrupt { path, .. } => {
                let path = path.display();
                failure.with_code(BAD_CODE).with_hint(format!(
                    "`daybook verify {path}` tells what still holds, `daybook recover {path}` saves \
                     what can be read"
                ))
            }
            journal::Error::Incomplete { .. } => failure
                .with_hint("nothing was recorded yet, or only the start of the file was copied"),
            journal::Error::Unsupported { .. } => {
                failure.with_hint("a newer daybook wrote it; upgrade to read it")
            }
            journal::Error::Io { path, source, .. }
                if source.kind() == io::ErrorKind::IsADirectory =>
            {
                let path = path.display();
                failure.with_hint(format!("name a file in it, such as {path}/run.omni"))
            }
            _ => failure,
        }
    }
}

impl From<AttestError> for Failure {
    fn from(error: AttestError) -> Self {
        let text = chain_text(&error);
        match error {
            AttestError::Journal(error) => error.into(),
            AttestError::Broken { .. } | AttestError::Disagrees { .. } => {
                Self::new(text).with_code(BAD_CODE)
            }
            _ => Self::new(text),
        }
    }
}

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        let failure = Self::new(chain_text(&error));
        match error {
            ExportError::TooManyColumns { .. } => {
                failure.with_hint("`--to jsonl` has no such limit")
            }
            _ => failure,
        }
    }
}

impl From<SegmentError> for Failure {
    fn from(error: SegmentError) -> Self {
        let failure = Self::new(chain_text(&error));
        match &error {
            SegmentError::Corrupt { .. } => failure
                .with_code(BAD_CODE)
                .with_hint("`daybook verify` checks it whole; restore the file from a copy"),
            SegmentError::Version { found, newest } if found > newest => {
                failure.with_hint("a newer version wrote it; upgrade to read it")
            }
            SegmentError::Unsupported { .. } => {
                failure.with_hint("it needs a decoder that this build does not have")
            }
            _ => failure,
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let failure = Self::new(chain_text(&error));
        match &error {
            StoreError::Busy { .. } => {
                failure.with_hint("one process has a store at a time: wait for it, or end it")
            }
            StoreError::Damaged { .. }
            | StoreError::Blob { .. }
            | StoreError::Segment {
                source: SegmentError::Corrupt { .. },
                ..
            } => failure
                .with_code(BAD_CODE)
                .with_hint("`daybook verify` checks it whole; restore the file from a copy"),
            _ => failure,
        }
    }
}

/// Standard output failed, and not because its reader went away.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::io("cannot write to standard output", &error)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn the_text_of_an_error_names_the_file_and_the_cause_without_its_number() {
        let failure = Failure::from(journal::Error::Io {
            op: "open",
            path: PathBuf::from("run.omni"),
            source: io::Error::from_raw_os_error(2),
        });
        assert_eq!(
            failure.message,
            "cannot open run.omni: No such file or directory"
        );
        assert_eq!(failure.code, COULD_NOT);
    }
}
