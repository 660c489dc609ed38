//! The wire format: fields of a message, borrowed from the request, each with its place in it.

use super::super::error::Result;
use super::Fault;

/// The rest of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message<'a> {
    rest: &'a [u8],
    /// Where `rest` starts in the request.
    offset: usize,
}

/// The value of a field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32,
    Bytes(Part<'a>),
}

/// A text, bytes, or a message in the message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'a> {
    pub(super) bytes: &'a [u8],
    /// Where it starts in the request.
    pub(super) offset: usize,
}

impl<'a> Message<'a> {
    pub(super) fn new(request: &'a [u8]) -> Self {
        Self {
            rest: request,
            offset: 0,
        }
    }

    /// Hands every field to `visit`, with its number, in the order in which they came. One of another type than its number
    /// should have is as good as an unknown one.
    #[inline]
    pub(super) fn each(mut self, mut visit: impl FnMut(u32, Wire<'a>) -> Result<()>) -> Result<()> {
        while !self.rest.is_empty() {
            let (number, value) = self.field()?;
            visit(number, value)?;
        }
        Ok(())
    }

    #[inline]
    fn field(&mut self) -> Result<(u32, Wire<'a>)> {
        let start = self.offset;
        let tag = self.varint()?;
        let Ok(number @ 1..=0x1fff_ffff) = u32::try_from(tag >> 3) else {
            return Err(Fault::FieldNumber.at(start));
        };
        let value = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let len = self.varint()?;
                let offset = self.offset;
                let len = usize::try_from(len).map_err(|_| Fault::End.at(offset))?;
                let bytes = self.take(len)?;
                Wire::Bytes(Part { bytes, offset })
            }
            5 => {
                self.array::<4>()?;
                Wire::Fixed32
            }
            _ => return Err(Fault::WireType.at(start)),
        };
        Ok((number, value))
    }

    #[inline]
    fn varint(&mut self) -> Result<u64> {
        // Nearly all tags and lengths are one byte.
        if let [first @ 0..=0x7f, rest @ ..] = self.rest {
            self.rest = rest;
            self.offset += 1;
            return Ok(u64::from(*first));
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Result<u64> {
        let mut value = 0;
        for (index, byte) in (0_u32..10).zip(self.rest) {
            // The tenth byte has room for the highest bit alone.
            if index == 9 && *byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << (7 * index);
            if *byte < 0x80 {
                self.take(index as usize + 1)?;
                return Ok(value);
            }
        }
        let fault = if self.rest.len() < 10 {
            Fault::End
        } else {
            Fault::Varint
        };
        Err(fault.at(self.offset))
    }

    #[inline]
    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let Some((taken, rest)) = self.rest.split_at_checked(len) else {
            return Err(Fault::End.at(self.offset));
        };
        self.rest = rest;
        self.offset += len;
        Ok(taken)
    }

    #[inline]
    fn array<const LEN: usize>(&mut self) -> Result<[u8; LEN]> {
        let Some((taken, rest)) = self.rest.split_first_chunk() else {
            return Err(Fault::End.at(self.offset));
        };
        self.rest = rest;
        self.offset += LEN;
        Ok(*taken)
    }
}

impl<'a> Part<'a> {
    pub(super) fn message(self) -> Message<'a> {
        Message {
            rest: self.bytes,
            offset: self.offset,
        }
    }

    pub(super) fn text(self) -> Result<&'a str> {
        std::str::from_utf8(self.bytes)
            .map_err(|error| Fault::Utf8.at(self.offset + error.valid_up_to()))
    }
}
