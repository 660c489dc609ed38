//! Changes of directory entries that no directory sync has made durable yet.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use crate::disk::Inode;
use crate::random::{Pattern, Random};

/// The entries of every folder, by the folder's inode.
pub(crate) type Entries = BTreeMap<Inode, BTreeMap<OsString, Inode>>;

/// One entry after a change: what the name stands for, or nothing.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) dir: Inode,
    pub(crate) name: OsString,
    pub(crate) target: Option<Inode>,
}

/// The unsynced changes, oldest first. Each is applied whole or not at all, so a rename yields the
/// old target or the new one. Changes that share a name keep their order; others are independent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unsynced(Vec<Change>);

#[derive(Clone, Debug)]
struct Change {
    entries: Vec<Entry>,
    /// The folders that have to be synced first. Of a rename across folders it is the one with the new
    /// name: a file system that keeps the change whole cannot keep that name without the rest.
    waits_for: BTreeSet<Inode>,
    /// A sync failed meanwhile: no later sync makes this change durable for its own sake.
    lost: bool,
}

impl Change {
    fn touches(&self, names: &BTreeSet<(Inode, OsString)>) -> bool {
        self.names().any(|name| names.contains(&name))
    }

    fn names(&self) -> impl Iterator<Item = (Inode, OsString)> {
        self.entries.iter().map(|e| (e.dir, e.name.clone()))
    }
}

impl Unsynced {
    pub(crate) fn push(&mut self, entries: Vec<Entry>) {
        let is_new = |e: &&Entry| e.target.is_some();
        let mut waits_for: BTreeSet<_> = entries.iter().filter(is_new).map(|e| e.dir).collect();
        if waits_for.is_empty() {
            waits_for = entries.iter().map(|e| e.dir).collect();
        }
        self.0.push(Change {
            entries,
            waits_for,
            lost: false,
        });
    }

    /// Makes durable, in `synced`, what waited for `dir` alone, and whatever that builds on.
    pub(crate) fn sync(&mut self, dir: Inode, synced: &mut Entries) {
        for change in &mut self.0 {
            change.waits_for.remove(&dir);
        }
        let mut needed = BTreeSet::new();
        let mut durable = Vec::new();
        let mut left = Vec::new();
        for change in std::mem::take(&mut self.0).into_iter().rev() {
            if (change.waits_for.is_empty() && !change.lost) || change.touches(&needed) {
                needed.extend(change.names());
                durable.push(change);
            } else {
                left.push(change);
            }
        }
        left.reverse();
        self.0 = left;
        for change in durable.into_iter().rev() {
            apply(change.entries, synced);
        }
    }

    /// A sync of `dir` that failed: what waited for it may survive a crash by chance, and is made
    /// durable only by a later, synced change of the same names.
    pub(crate) fn sync_failed(&mut self, dir: Inode) {
        for change in &mut self.0 {
            change.lost |= change.waits_for.contains(&dir);
        }
    }

    /// What a power cut may leave of `synced` and the changes since.
    pub(crate) fn survivors(&self, mut synced: Entries, random: &mut Random) -> Entries {
        let mut pattern = Pattern::draw(random, self.0.len());
        let mut stale = BTreeSet::new();
        for (index, change) in self.0.iter().enumerate() {
            if pattern.keeps(index) && !change.touches(&stale) {
                apply(change.entries.clone(), &mut synced);
            } else {
                stale.extend(change.names());
            }
        }
        synced
    }
}

/// Makes the entries say what the change says.
pub(crate) fn apply(change: Vec<Entry>, entries: &mut Entries) {
    for Entry { dir, name, target } in change {
        let dir = entries.entry(dir).or_default();
        match target {
            Some(inode) => dir.insert(name, inode),
            None => dir.remove(&name),
        };
    }
}
