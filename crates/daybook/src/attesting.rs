//! Keeping the attestation of a run up while it is recorded.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use durable::RealFs;
use omniloop_core::attest::{AttestError, Attestor};
use omniloop_core::journal::{Error, JournalSigner};

/// What is not signed for yet is at most about this old.
const INTERVAL: Duration = Duration::from_secs(1);

/// A thread that signs how far the recording has come. It reads the files, so that it can neither
/// hold up the recording nor vouch for what is not in them.
pub(crate) struct Attesting {
    ended: Sender<bool>,
    thread: JoinHandle<Result<Signed, AttestError>>,
}

/// What the last note covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signed {
    pub(crate) origin: String,
    pub(crate) records: u64,
}

impl Attesting {
    /// Begins with the journal at `base`, which has just been created.
    pub(crate) fn start(
        base: &Path,
        signer: JournalSigner,
        origin: Option<String>,
        host: String,
    ) -> io::Result<Self> {
        let base = base.to_owned();
        let (ended, end) = channel();
        let thread = std::thread::Builder::new()
            .name("attesting".to_owned())
            .spawn(move || {
                let mut attestor = Attestor::create(Arc::new(RealFs), base, signer, origin, &host)?;
                loop {
                    let closed = match end.recv_timeout(INTERVAL) {
                        Err(RecvTimeoutError::Timeout) => {
                            attestor.advance(false)?;
                            continue;
                        }
                        Ok(closed) => closed,
                        Err(RecvTimeoutError::Disconnected) => false,
                    };
                    attestor.advance(closed)?;
                    return Ok(Signed {
                        origin: attestor.origin().to_owned(),
                        records: attestor.covers_records(),
                    });
                }
            })?;
        Ok(Self { ended, thread })
    }

    /// Signs what there is; `closed` says that the journal is sealed and complete.
    pub(crate) fn finish(self, closed: bool) -> Result<Signed, AttestError> {
        // A thread that failed no longer listens; joining it tells why.
        self.ended.send(closed).ok();
        self.thread.join().unwrap_or_else(|_| {
            let what = "the thread that signs has panicked";
            Err(Error::Misuse { what }.into())
        })
    }
}
