//! A bounded reader over bytes that nobody vouches for.

/// The bytes ended before the value did, or went on after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{wanted} bytes wanted at {position}, {left} left")]
pub struct Short {
    /// Where in the bytes the cursor stood.
    pub position: usize,
    /// How many bytes were asked for (0 when the complaint is about bytes left over).
    pub wanted: usize,
    /// How many there were.
    pub left: usize,
}

/// Takes values from the front of a slice; refuses to run past its end.
///
/// ```
/// let mut cursor = durable::Cursor::new(&[1, 2, 0, 0, 0, 9]);
/// assert_eq!(cursor.u8(), Ok(1));
/// assert_eq!(cursor.u32(), Ok(2));
/// assert!(cursor.u64().is_err());
/// assert!(cursor.finish().is_err(), "one byte is left over");
/// ```
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Cursor<'a> {
    /// Starts at the front of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    /// How many bytes were taken.
    #[inline]
    pub fn position(&self) -> usize {
        self.position
    }

    /// The bytes not yet taken.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.position..).unwrap_or_default()
    }

    /// Takes `len` bytes.
    #[inline]
    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8], Short> {
        let rest = self.rest();
        let Some(taken) = rest.get(..len) else {
            return Err(Short {
                position: self.position,
                wanted: len,
                left: rest.len(),
            });
        };
        self.position += len;
        Ok(taken)
    }

    /// Takes an array.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Short> {
        let (position, left) = (self.position, self.rest().len());
        self.bytes(N)?.first_chunk().copied().ok_or(Short {
            position,
            wanted: N,
            left,
        })
    }

    /// Takes one byte.
    pub fn u8(&mut self) -> Result<u8, Short> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Takes a little-endian u32.
    pub fn u32(&mut self) -> Result<u32, Short> {
        self.array().map(u32::from_le_bytes)
    }

    /// Takes a little-endian u64.
    pub fn u64(&mut self) -> Result<u64, Short> {
        self.array().map(u64::from_le_bytes)
    }

    /// Refuses bytes left over.
    pub fn finish(self) -> Result<(), Short> {
        match self.rest().len() {
            0 => Ok(()),
            left => Err(Short {
                position: self.position,
                wanted: 0,
                left,
            }),
        }
    }
}
