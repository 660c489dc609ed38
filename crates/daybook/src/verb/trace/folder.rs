//! The folder of a store: opened, or not touched when it is something else.

use std::path::Path;

use durable::{Fs as _, RealFs, read_all};
use traza::store::{Store, StoreError, StoreOptions, Upkeep};

use crate::failure::Failure;
use crate::kind::{Kind, has_segment, kind_of};

/// Opens a store that is there, for verbs that ask.
pub(super) fn open_to_read(dir: &Path) -> Result<Store, Failure> {
    match kind_of(dir) {
        Ok(Kind::Store) => {}
        Ok(other) => {
            let hint = format!("daybook inspect {}", dir.display());
            return Err(other.instead_of("a store of traces", dir).with_hint(hint));
        }
        Err(no) if no.code == "folder" => {
            let dir = dir.display();
            let hint = format!("`daybook trace ingest {dir} spans.jsonl` makes one");
            return Err(Failure::new(format!("{dir} is no store of traces")).with_hint(hint));
        }
        Err(no) => return Err(no.failure),
    }
    let mut options = StoreOptions::default();
    // Nothing is sealed by those who only ask.
    options.upkeep = Upkeep::Inline;
    open(dir, options)
}

/// Opens a store, or creates it in a folder that is new, empty, or was left by a creation that did not end.
pub(super) fn open_to_write(dir: &Path, options: StoreOptions) -> Result<Store, Failure> {
    let could_not = |error| Failure::io(&format!("cannot look at {}", dir.display()), &error);
    if RealFs.exists(dir).map_err(could_not)? {
        match kind_of(dir) {
            Ok(Kind::Store) => {}
            Ok(other) => return Err(other.instead_of("the folder of a store", dir)),
            Err(no) if no.code == "folder" => {
                if !can_become_a_store(dir).map_err(could_not)? {
                    let what = format!("{} holds other files, and is no store", dir.display());
                    return Err(Failure::new(what).with_hint("name a new or an empty folder"));
                }
            }
            Err(no) => return Err(no.failure),
        }
    }
    open(dir, options)
}

fn can_become_a_store(dir: &Path) -> std::io::Result<bool> {
    let has = |name: &str| RealFs.exists(&dir.join(name));
    Ok(RealFs.read_dir(dir)?.is_empty()
        || has("LOCK")?
        || has("generations")?
        || has("wal.log")?
        || has_segment(dir)?)
}

fn open(dir: &Path, options: StoreOptions) -> Result<Store, Failure> {
    Store::open(dir, options).map_err(|error| match error {
        StoreError::Busy { path, owner: None } => StoreError::Busy {
            owner: owner(&path),
            path,
        }
        .into(),
        error => error.into(),
    })
}

/// The process in the lock file, to help the person; the store decides by the lock itself.
fn owner(dir: &Path) -> Option<u32> {
    let bytes = read_all(&RealFs, &dir.join("LOCK"), 64).ok()?;
    std::str::from_utf8(&bytes).ok()?.trim_end().parse().ok()
}
