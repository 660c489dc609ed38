//! A progress bar for work that takes longer than a second.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Shorter work is over before a bar could be read.
const PATIENCE: Duration = Duration::from_secs(1);

/// Bytes done of bytes in all, over several files. Drawn on standard error, if that is a terminal.
pub(crate) struct Progress {
    total: u64,
    begun: Instant,
    visible: bool,
    bar: Option<ProgressBar>,
    file: PathBuf,
    files_before: u64,
    file_len: u64,
}

impl Progress {
    pub(crate) fn of_bytes(total: u64) -> Self {
        Self {
            total,
            begun: Instant::now(),
            visible: io::stderr().is_terminal(),
            bar: None,
            file: PathBuf::new(),
            files_before: 0,
            file_len: 0,
        }
    }

    /// The work is at `offset` of `file`.
    pub(crate) fn at(&mut self, file: &Path, offset: u64, file_len: u64) {
        if !self.visible {
            return;
        }
        if file != self.file {
            self.files_before += self.file_len;
            file.clone_into(&mut self.file);
        }
        self.file_len = file_len;
        if self.bar.is_none() && self.begun.elapsed() < PATIENCE {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::new(self.total);
            let template = "{wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
            ProgressStyle::with_template(template)
                .map_or(bar.clone(), |style| bar.with_style(style))
        });
        bar.set_position(self.files_before + offset);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
