//! The folder of a store: opened, or not touched when it is something else.

use std::path::Path;

use durable::{Fs as _, RealFs};
use traza::store::{Store, StoreError, StoreOptions, Upkeep};

use crate::failure::Failure;
use crate::kind::{Kind, has_segment, kind_of};

/// Opens a store that is there, for verbs that ask; somebody else may be writing it.
pub(super) fn open_to_read(dir: &Path) -> Result<Store, Failure> {
    must_be_a_store(dir)?;
    Ok(Store::open_read_only(dir, StoreOptions::default())?)
}

/// Opens a store that is there, for verbs that change it as a whole.
pub(super) fn open_to_change(dir: &Path) -> Result<Store, Failure> {
    open_to_change_with(dir, StoreOptions::default())
}

/// [`open_to_change`] of a store that works otherwise.
pub(super) fn open_to_change_with(dir: &Path, mut options: StoreOptions) -> Result<Store, Failure> {
    must_be_a_store(dir)?;
    // What a verb does not ask for is not begun.
    options.upkeep = Upkeep::Inline;
    let store = Store::open(dir, options)?;
    // But for what was promised: an erasure that an earlier process did not end.
    store.resume_erasures()?;
    Ok(store)
}

/// Opens a store that is there and that nobody writes, and changes nothing that was not left unfinished.
pub(super) fn open_alone(dir: &Path) -> Result<Store, StoreError> {
    if !RealFs.exists(dir).unwrap_or(false) {
        return Err(StoreError::NoStore {
            path: dir.to_owned(),
        });
    }
    let mut options = StoreOptions::default();
    options.upkeep = Upkeep::Inline;
    Store::open(dir, options)
}

fn must_be_a_store(dir: &Path) -> Result<(), Failure> {
    match kind_of(dir) {
        Ok(Kind::Store) => Ok(()),
        Ok(other) => {
            let hint = format!("daybook inspect {}", dir.display());
            Err(other.instead_of("a store of traces", dir).with_hint(hint))
        }
        Err(no) if no.code == "folder" => {
            let dir = dir.display();
            let hint = format!("`daybook trace ingest {dir} spans.jsonl` makes one");
            Err(Failure::new(format!("{dir} is no store of traces")).with_hint(hint))
        }
        Err(no) => Err(no.failure),
    }
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
    Ok(Store::open(dir, options)?)
}

fn can_become_a_store(dir: &Path) -> std::io::Result<bool> {
    let has = |name: &str| RealFs.exists(&dir.join(name));
    Ok(RealFs.read_dir(dir)?.is_empty()
        || has("LOCK")?
        || has("generations")?
        || has("wal.log")?
        || has_segment(dir)?)
}
