//! The thread that seals.

use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::Shared;

/// How often it looks at the age of the buffer.
const TICK: Duration = Duration::from_secs(1);
/// How long it rests after a failure, so that a full disk is not asked over and over.
const REST: Duration = Duration::from_millis(200);

/// Starts it. It ends when the store is closed.
pub(super) fn start(shared: &Arc<Shared>) -> std::io::Result<JoinHandle<()>> {
    let shared = Arc::clone(shared);
    std::thread::Builder::new()
        .name("traza-upkeep".to_owned())
        .spawn(move || run(&shared))
}

fn run(shared: &Shared) {
    loop {
        let mut writer = shared.writer();
        if writer.is_closing {
            return;
        }
        let is_due = shared.is_due(&writer, shared.view().buffer.len());
        if !is_due {
            (writer, _) = shared
                .work
                .wait_timeout(writer, TICK)
                .unwrap_or_else(PoisonError::into_inner);
            if writer.is_closing {
                return;
            }
            continue;
        }
        drop(writer);
        // The store keeps the reason, for those who wait for room and for `stats`.
        if shared.seal().is_err() {
            let writer = shared.writer();
            drop(
                shared
                    .work
                    .wait_timeout(writer, REST)
                    .unwrap_or_else(PoisonError::into_inner),
            );
        }
    }
}
