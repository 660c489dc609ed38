//! Which payloads are in use, and the removal of those that are not.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use super::error::{During as _, Result};
use super::{Shared, layout};
use crate::payload::{self, ContentAddress};

/// The payloads that something refers to.
#[derive(Debug, Default)]
pub(super) struct Live {
    by_spans: BTreeSet<ContentAddress>,
    by_examples: BTreeSet<ContentAddress>,
}

impl Live {
    /// What refers to the payload, for people; `None` when nothing does.
    pub(super) fn holder(&self, address: ContentAddress) -> Option<&'static str> {
        if self.by_spans.contains(&address) {
            Some("a span refers to it")
        } else if self.by_examples.contains(&address) {
            Some("an example of a dataset refers to it")
        } else {
            None
        }
    }
}

/// The addresses among references; clients may send others, which name nothing here.
pub(super) fn addresses<'r>(
    references: impl IntoIterator<Item = &'r str>,
) -> impl Iterator<Item = ContentAddress> {
    references
        .into_iter()
        .filter_map(|reference| reference.parse().ok())
}

impl Shared {
    /// What the buffer, the segments and the examples refer to. Older versions count: they are read when a newer one
    /// is erased from another place.
    pub(super) fn live_payloads(&self) -> Result<Live> {
        let view = self.view();
        let mut live = Live::default();
        for span in view.buffer.in_order() {
            live.by_spans
                .extend(addresses(payload::live_references(span)));
        }
        for sealed in view.segments.iter() {
            let rollup = sealed.rollup()?;
            let references = rollup.payload_references.iter().map(String::as_str);
            live.by_spans.extend(addresses(references));
        }
        let evals = self.logs.evals();
        live.by_examples
            .extend(addresses(evals.state().payload_references()));
        Ok(live)
    }

    /// Removes what was last written before `cutoff_ns` and is not in use; what an unfinished write left as well.
    /// Answers how many files.
    pub(super) fn sweep_payloads(&self, cutoff_ns: u64) -> Result<usize> {
        let old = self.old_payload_files(cutoff_ns)?;
        if old.is_empty() {
            return Ok(0);
        }
        let _gate = self.gate_alone();
        let live = self.live_payloads()?;
        let mut shards = BTreeSet::new();
        let mut count = 0;
        for path in old {
            let digits = layout::file_name(&path).strip_suffix(".bin");
            let address = digits.and_then(|digits| format!("sha256/{digits}").parse().ok());
            if address.is_some_and(|address| live.holder(address).is_some()) {
                continue;
            }
            self.remove_if_there(&path)?;
            shards.insert(durable::parent_of(&path).to_owned());
            count += 1;
        }
        for shard in shards {
            self.fs().sync_dir(&shard).during("sync", &shard)?;
        }
        Ok(count)
    }

    /// The files in the shards that were last written before `cutoff_ns`, as far as that is known.
    fn old_payload_files(&self, cutoff_ns: u64) -> Result<Vec<PathBuf>> {
        let fs = self.fs();
        let payloads = layout::payloads_path(&self.home.dir);
        let mut old = Vec::new();
        let shards = match fs.read_dir(&payloads) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(old),
            other => other.during("list", &payloads)?,
        };
        for shard in shards {
            if fs.metadata(&shard).during("look at", &shard)?.kind != durable::FileKind::Directory {
                continue;
            }
            for path in fs.read_dir(&shard).during("list", &shard)? {
                let found = fs.metadata(&path).during("look at", &path)?;
                let is_old = found.modified_ns != 0 && found.modified_ns < cutoff_ns;
                if found.kind == durable::FileKind::File && is_old {
                    old.push(path);
                }
            }
        }
        Ok(old)
    }

    pub(super) fn remove_if_there(&self, path: &Path) -> Result<()> {
        match self.fs().remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other.during("remove", path),
        }
    }
}
