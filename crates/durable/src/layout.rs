//! Layout tables: one table per fixed structure is its code, its documentation, the name in its
//! errors and the list that its damage sweep walks.

use std::fmt::Write as _;

use crate::Short;

/// One row of a layout table: a named run of bytes at a fixed place of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The row's name, as errors and documents spell it.
    pub name: &'static str,
    /// First byte, counted from the start of the structure.
    pub offset: usize,
    /// Length in bytes.
    pub len: usize,
    /// What the bytes mean.
    pub meaning: &'static str,
}

impl Field {
    /// The field's bytes in a structure that starts at `bytes[0]`.
    #[inline]
    pub fn of<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8], Short> {
        bytes.get(self.offset..self.offset + self.len).ok_or(Short {
            position: self.offset,
            wanted: self.len,
            left: bytes.len().saturating_sub(self.offset),
        })
    }

    #[inline]
    fn array<const N: usize>(&self, bytes: &[u8]) -> Result<[u8; N], Short> {
        let field = self.of(bytes)?;
        field.first_chunk().copied().ok_or(Short {
            position: self.offset,
            wanted: N,
            left: field.len(),
        })
    }

    /// The field as one byte.
    #[inline]
    pub fn u8(&self, bytes: &[u8]) -> Result<u8, Short> {
        self.array::<1>(bytes).map(|[byte]| byte)
    }

    /// The field as a little-endian u16.
    #[inline]
    pub fn u16(&self, bytes: &[u8]) -> Result<u16, Short> {
        self.array(bytes).map(u16::from_le_bytes)
    }

    /// The field as a little-endian u32.
    #[inline]
    pub fn u32(&self, bytes: &[u8]) -> Result<u32, Short> {
        self.array(bytes).map(u32::from_le_bytes)
    }

    /// The field as a little-endian u64.
    #[inline]
    pub fn u64(&self, bytes: &[u8]) -> Result<u64, Short> {
        self.array(bytes).map(u64::from_le_bytes)
    }

    /// Writes `value` into the field. Both have the same length, or nothing is written and the
    /// answer says so: the tables are constants, so a test sees it at once.
    #[inline]
    pub fn put(&self, structure: &mut [u8], value: &[u8]) -> Result<(), Short> {
        let left = structure.len().saturating_sub(self.offset);
        match structure.get_mut(self.offset..self.offset + self.len) {
            Some(place) if place.len() == value.len() => {
                place.copy_from_slice(value);
                Ok(())
            }
            _ => Err(Short {
                position: self.offset,
                wanted: value.len(),
                left,
            }),
        }
    }
}

/// True when `fields`, in order, cover `0..len` with no gap and no overlap.
pub const fn tiles(fields: &[Field], len: usize) -> bool {
    let mut rest = fields;
    let mut at = 0;
    while let [field, later @ ..] = rest {
        if field.offset != at || field.len == 0 {
            return false;
        }
        at += field.len;
        rest = later;
    }
    at == len
}

/// The row that holds byte `offset` of a structure.
pub fn field_at(fields: &[Field], offset: usize) -> Option<&Field> {
    fields
        .iter()
        .find(|f| (f.offset..f.offset + f.len).contains(&offset))
}

/// The rows as a Markdown table, for the pages under `docs/formats`.
pub fn markdown(fields: &[Field]) -> String {
    let mut out = String::from("| bytes | field | meaning |\n|---|---|---|\n");
    for f in fields {
        let end = f.offset + f.len;
        writeln!(
            out,
            "| [{}..{end}) | `{}` | {} |",
            f.offset, f.name, f.meaning
        )
        .ok();
    }
    out
}

/// Declares the table of one fixed structure as a module: a constant [`Field`] per row, `LEN`,
/// and `FIELDS`. Compilation fails when the rows do not tile the structure.
///
/// ```
/// durable::layout! {
///     /// A point on a plane.
///     pub mod point [12] {
///         X: [0; 4] "Distance to the right, u32.",
///         Y: [4; 8] "Distance upwards, u64.",
///     }
/// }
/// assert_eq!(point::Y.u64(&[0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]), Ok(7));
/// assert_eq!(point::FIELDS.len(), 2);
/// ```
///
/// ```compile_fail
/// durable::layout! {
///     /// A gap at byte 4.
///     pub mod broken [12] { X: [0; 4] "x", Y: [5; 7] "y", }
/// }
/// ```
#[macro_export]
macro_rules! layout {
    ($(#[$doc:meta])* $vis:vis mod $module:ident [$len:literal] {
        $($name:ident : [$offset:literal ; $size:literal] $meaning:literal),+ $(,)?
    }) => {
        $(#[$doc])*
        $vis mod $module {
            /// Length of the structure in bytes.
            pub const LEN: usize = $len;
            $(
                #[doc = $meaning]
                pub const $name: $crate::Field = $crate::Field {
                    name: stringify!($name),
                    offset: $offset,
                    len: $size,
                    meaning: $meaning,
                };
            )+
            /// All rows, in the order of their bytes.
            pub const FIELDS: &[$crate::Field] = &[$($name),+];
            const _: () = assert!(
                $crate::layout::tiles(FIELDS, LEN),
                "the rows of the layout table do not tile the structure"
            );
        }
    };
}

#[cfg(test)]
#[expect(
    unreachable_pub,
    reason = "the macro makes public constants, a test module is private"
)]
mod tests {
    use super::*;

    layout! {
        /// A sample.
        mod sample [16] {
            MAGIC: [0; 8] "Identity.",
            COUNT: [8; 4] "How many, u32.",
            REST: [12; 4] "The rest, u32.",
        }
    }

    #[test]
    fn rows_with_a_gap_an_overlap_or_a_wrong_end_do_not_tile() {
        let row = |offset, len| Field {
            name: "X",
            offset,
            len,
            meaning: "",
        };
        assert!(tiles(&[row(0, 4), row(4, 4)], 8));
        assert!(!tiles(&[row(0, 4), row(5, 3)], 8), "gap");
        assert!(!tiles(&[row(0, 4), row(3, 5)], 8), "overlap");
        assert!(!tiles(&[row(0, 4)], 8), "short");
        assert!(!tiles(&[row(0, 4), row(4, 8)], 8), "long");
        assert!(!tiles(&[row(0, 0), row(0, 8)], 8), "empty row");
    }

    #[test]
    fn a_field_reads_what_was_put_and_names_its_place_when_bytes_are_missing() {
        let mut bytes = [0; sample::LEN];
        sample::COUNT.put(&mut bytes, &7u32.to_le_bytes()).unwrap();
        assert_eq!(sample::COUNT.u32(&bytes), Ok(7));
        let short = sample::REST.u32(&bytes[..13]).unwrap_err();
        assert_eq!((short.position, short.wanted, short.left), (12, 4, 1));
        assert!(sample::COUNT.put(&mut bytes, &[1]).is_err());
        assert_eq!(field_at(sample::FIELDS, 9).map(|f| f.name), Some("COUNT"));
        assert!(markdown(sample::FIELDS).contains("| [8..12) | `COUNT` | How many, u32. |"));
    }
}
