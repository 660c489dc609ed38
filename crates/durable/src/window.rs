//! Reading a file front to back (or anywhere) through one bounded buffer or a memory map.

use std::io;

use crate::{FsFile, Map};

/// Bytes fetched first after a jump; each further fetch in sequence is four times as long.
const READ_LEN_FIRST: usize = 8 * 1024;

/// A view of a file that lends slices of it: from a memory map, or from a buffer that slides.
#[derive(Debug)]
pub struct Window {
    source: Source,
    file_len: u64,
}

#[derive(Debug)]
enum Source {
    Mapped(Map),
    Buffered(Buffered),
}

/// A file and the bytes of it that were fetched last.
#[derive(Debug)]
struct Buffered {
    file: Box<dyn FsFile>,
    start: u64,
    buffer: Vec<u8>,
    read_len_max: usize,
    next_len: usize,
}

impl Window {
    /// Positional reads of up to `read_len_max` bytes at a time (more where one slice needs it):
    /// little after a jump, more and more while reading goes on in sequence.
    pub fn buffered(file: Box<dyn FsFile>, read_len_max: usize) -> io::Result<Self> {
        let file_len = file.len()?;
        let source = Source::Buffered(Buffered {
            file,
            start: 0,
            buffer: Vec::new(),
            read_len_max,
            next_len: READ_LEN_FIRST,
        });
        Ok(Self { source, file_len })
    }

    /// A memory map where the file system has one, else as [`Window::buffered`].
    /// Only for files that are never shortened: see [`Map`].
    pub fn mapped(file: Box<dyn FsFile>, read_len_max: usize) -> io::Result<Self> {
        match file.map()? {
            Some(map) => Ok(Self {
                file_len: map.len() as u64,
                source: Source::Mapped(map),
            }),
            None => Self::buffered(file, read_len_max),
        }
    }

    /// The file's length when it was opened or last [refreshed](Self::refresh).
    pub fn file_len(&self) -> u64 {
        self.file_len
    }

    /// Asks again how long the file is. Bytes already seen are forgotten, since a writer may have
    /// completed what was torn. A map keeps the length it was made with.
    pub fn refresh(&mut self) -> io::Result<u64> {
        if let Source::Buffered(held) = &mut self.source {
            held.buffer.clear();
            self.file_len = held.file.len()?;
        }
        Ok(self.file_len)
    }

    /// The bytes at `offset`, as many as `len` and the file allow: fewer than `len` only at the end
    /// of the file. The caller bounds `len`; the buffer grows to it.
    #[inline]
    pub fn bytes(&mut self, offset: u64, len: usize) -> io::Result<&[u8]> {
        let left = self.file_len.saturating_sub(offset);
        let len = usize::try_from(left).map_or(len, |left| len.min(left));
        match &mut self.source {
            Source::Mapped(map) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                Ok(map
                    .get(start..start.saturating_add(len))
                    .unwrap_or_default())
            }
            Source::Buffered(held) => held.bytes(offset, len, left),
        }
    }
}

impl Buffered {
    /// `len` bytes at `offset`; `left` bytes of the file are there.
    #[inline]
    fn bytes(&mut self, offset: u64, len: usize, left: u64) -> io::Result<&[u8]> {
        let inside = self.place(offset);
        let is_held = inside
            .and_then(|at| at.checked_add(len))
            .is_some_and(|end| end <= self.buffer.len());
        if !is_held {
            let goes_on = inside.is_some_and(|at| at <= self.buffer.len());
            self.next_len = if goes_on {
                self.next_len.saturating_mul(4).min(self.read_len_max)
            } else {
                READ_LEN_FIRST.min(self.read_len_max)
            };
            let want = len.max(self.next_len);
            let want = usize::try_from(left).map_or(want, |left| want.min(left));
            fill(self.file.as_ref(), offset, want, &mut self.buffer)?;
            self.start = offset;
        }
        let at = self.place(offset).unwrap_or(usize::MAX);
        let end = at.saturating_add(len).min(self.buffer.len());
        Ok(self.buffer.get(at..end).unwrap_or_default())
    }

    /// Where `offset` is in the buffer, if it is not before it.
    fn place(&self, offset: u64) -> Option<usize> {
        let at = offset.checked_sub(self.start)?;
        usize::try_from(at).ok()
    }
}

/// Fills `buffer` with up to `want` bytes from `offset`; fewer when the file was shortened meanwhile.
fn fill(file: &dyn FsFile, offset: u64, want: usize, buffer: &mut Vec<u8>) -> io::Result<()> {
    buffer.resize(want, 0);
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(offset.saturating_add(done as u64), rest) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => {
                buffer.clear();
                return Err(e);
            }
        }
    }
    buffer.truncate(done);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, Fs as _, RealFs};

    #[test]
    fn a_window_lends_the_same_bytes_buffered_and_mapped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let content: Vec<u8> = (0..1000u32)
            .map(|i| u8::try_from(i % 256).unwrap())
            .collect();
        RealFs
            .create_new(&path, Access::Shared)
            .unwrap()
            .append(&content)
            .unwrap();
        let mut buffered = Window::buffered(RealFs.open(&path).unwrap(), 64).unwrap();
        let mut mapped = Window::mapped(RealFs.open(&path).unwrap(), 64).unwrap();
        for (offset, len) in [
            (0, 10),
            (60, 10),
            (5, 3),
            (0, 1000),
            (990, 100),
            (1000, 1),
            (5000, 1),
        ] {
            let end = (offset + len).min(1000);
            let expected = content.get(offset..end).unwrap_or_default();
            assert_eq!(
                buffered.bytes(offset as u64, len).unwrap(),
                expected,
                "{offset} {len}"
            );
            assert_eq!(
                mapped.bytes(offset as u64, len).unwrap(),
                expected,
                "{offset} {len}"
            );
        }
        assert!(buffered.bytes(u64::MAX, usize::MAX).unwrap().is_empty());
        assert!(mapped.bytes(u64::MAX, usize::MAX).unwrap().is_empty());
    }

    #[test]
    fn a_refreshed_window_sees_what_was_appended() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let mut file = RealFs.create_new(&path, Access::Shared).unwrap();
        file.append(b"one").unwrap();
        let mut window = Window::buffered(RealFs.open(&path).unwrap(), 64).unwrap();
        assert_eq!(window.bytes(0, 10).unwrap(), b"one");
        file.append(b"two").unwrap();
        assert_eq!(window.refresh().unwrap(), 6);
        assert_eq!(window.bytes(0, 10).unwrap(), b"onetwo");
    }
}
