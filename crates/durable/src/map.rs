//! Memory-mapped reads, and the project's only unsafe call.
//! The page of reasons is `docs/decisions/0001-memory-maps.md`.

use std::fs::File;
use std::io;
use std::ops::Deref;

/// A read-only memory map of a file's bytes at the moment of mapping.
///
/// Only for files that their format never shortens or rewrites once published. Whoever truncates a
/// mapped file from outside ends the mapping process with `SIGBUS`; therefore verification,
/// recovery and followers of growing files use positional reads and never a map.
#[derive(Debug)]
pub struct Map(memmap2::Mmap);

impl Map {
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        #[expect(unsafe_code, reason = "docs/decisions/0001-memory-maps.md")]
        // SAFETY: the map is private to this value and read-only. Rust asks that the bytes not
        // change while a slice of them lives; the formats that map files publish them complete and
        // never write them again. A foreign process that does so anyway can change bytes under a
        // reader, and every reader re-checks what it takes from a file; it cannot break memory.
        let map = unsafe { memmap2::Mmap::map(file)? };
        Ok(Self(map))
    }
}

impl Deref for Map {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}
