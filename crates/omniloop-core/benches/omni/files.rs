//! The files that reading, verifying and seeking are measured on: written once per payload length.

use std::path::{Path, PathBuf};

use durable::{Fs as _, Map, RealFs};

use crate::append::{append_all, create};
use crate::mcap_side::{Variant, write_file};
use crate::texts::Texts;
use crate::{Group, Plan, Result};

/// A sealed journal and the same records as MCAP files.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) records: u64,
    pub(crate) journal: PathBuf,
    pub(crate) mcaps: Vec<(Variant, Map)>,
}

impl Prepared {
    pub(crate) fn new(plan: &Plan, dir: &Path, texts: &Texts) -> Result<Self> {
        let journal = dir.join("prepared.omni");
        let mut mcaps = Vec::new();
        let reads = [Group::Verify, Group::Read, Group::Seek];
        if reads.into_iter().any(|group| plan.has(group)) {
            let mut writer = create(&journal)?;
            append_all(&mut writer, plan.records, texts)?;
            writer.seal()?;
        }
        if plan.has(Group::Mcap) {
            for variant in Variant::ALL {
                let file = write_file(variant, dir, plan.records, texts)?;
                let map = RealFs.open(file.path())?.map()?;
                // The map keeps the bytes when the file's name is gone.
                mcaps.push((variant, map.ok_or("the file system has no memory maps")?));
            }
        }
        Ok(Self {
            records: plan.records,
            journal,
            mcaps,
        })
    }
}
