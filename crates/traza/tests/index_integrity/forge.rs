//! Taking a segment apart and putting it together again, with every checksum made true.

use durable::Field;
use durable::checksum::crc32;
use traza::segment::codec::{Codec, unwrap, wrap};
use traza::segment::layout::{header, wrapper};
use traza::segment::{Section, Segment};

/// The five metadata sections, in file order.
pub(crate) const METADATA: [Section; 5] = [
    Section::BlockDirectory,
    Section::RecordOffsets,
    Section::TraceIndex,
    Section::AttributeIndex,
    Section::ContentIndex,
];

/// The parts of a segment.
#[derive(Clone, Debug)]
pub(crate) struct Forge {
    pub(crate) header: Vec<u8>,
    pub(crate) records: Vec<u8>,
    /// The metadata sections as stored, each with its wrapper.
    pub(crate) sections: [Vec<u8>; 5],
}

impl Forge {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let segment = Segment::from_bytes(bytes.to_vec()).unwrap();
        let len = bytes.len() as u64;
        let parts = segment.header().sections(len).map(|(_, range)| {
            let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
            bytes[range].to_vec()
        });
        let [header, records, sections @ ..] = parts;
        Self {
            header,
            records,
            sections,
        }
    }

    pub(crate) fn section(&mut self, section: Section) -> &mut Vec<u8> {
        let at = METADATA.iter().position(|other| *other == section).unwrap();
        &mut self.sections[at]
    }

    pub(crate) fn body(&self, section: Section) -> Vec<u8> {
        let at = METADATA.iter().position(|other| *other == section).unwrap();
        unwrap(section, 0, &self.sections[at]).unwrap().into_owned()
    }

    /// Replaces the body of a section, stored raw in a sound wrapper.
    pub(crate) fn set_body(&mut self, section: Section, body: &[u8]) {
        *self.section(section) = wrap(body, Codec::Raw);
    }

    pub(crate) fn change_body(&mut self, section: Section, change: impl FnOnce(&mut Vec<u8>)) {
        let mut body = self.body(section);
        change(&mut body);
        self.set_body(section, &body);
    }

    /// Writes a field of a section's wrapper, and makes its checksum true.
    pub(crate) fn set_wrapper(&mut self, section: Section, field: Field, value: &[u8]) {
        let stored = self.section(section);
        field.put(stored, value).unwrap();
        let crc = crc32(&stored[wrapper::FLAGS.offset..]);
        wrapper::CRC32.put(stored, &crc.to_le_bytes()).unwrap();
    }

    pub(crate) fn word(&self, field: Field) -> u64 {
        field.u64(&self.header).unwrap()
    }

    pub(crate) fn set_word(&mut self, field: Field, value: u64) {
        field.put(&mut self.header, &value.to_le_bytes()).unwrap();
    }

    /// Writes where the parts lie into the header.
    fn place(&mut self) {
        let [directory, offsets, traces, attributes, _] = self.sections.clone();
        let records_at = header::LEN as u64;
        let directory_at = records_at + self.records.len() as u64;
        let offsets_at = directory_at + directory.len() as u64;
        let traces_at = offsets_at + offsets.len() as u64;
        let attributes_at = traces_at + traces.len() as u64;
        for (field, value) in [
            (header::RECORDS_OFFSET, records_at),
            (header::RECORDS_LEN, self.records.len() as u64),
            (header::DIRECTORY_OFFSET, directory_at),
            (header::DIRECTORY_LEN, directory.len() as u64),
            (header::OFFSETS_OFFSET, offsets_at),
            (header::OFFSETS_LEN, offsets.len() as u64),
            (header::TRACE_OFFSET, traces_at),
            (header::TRACE_LEN, traces.len() as u64),
            (header::ATTRIBUTE_OFFSET, attributes_at),
            (
                header::CONTENT_OFFSET,
                attributes_at + attributes.len() as u64,
            ),
        ] {
            self.set_word(field, value);
        }
    }

    /// The file, with places that fit the parts.
    pub(crate) fn build(mut self) -> Vec<u8> {
        self.place();
        self.build_as_placed()
    }

    /// The file, with the places that the header has.
    pub(crate) fn build_as_placed(mut self) -> Vec<u8> {
        let crc = crc32(&self.header[..header::CRC32.offset]);
        header::CRC32
            .put(&mut self.header, &crc.to_le_bytes())
            .unwrap();
        [self.header, self.records, self.sections.concat()].concat()
    }
}

/// Appends a varint.
pub(crate) fn put(value: u64, out: &mut Vec<u8>) {
    durable::varint::encode(value, out);
}
