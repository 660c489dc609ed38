//! The tables of the format: place, length and meaning of every field.

use durable::Field;
use traza::content;
use traza::payload::blob_header;
use traza::segment::layout;

/// Offset, length, and what stands there.
pub(crate) type Row = (usize, usize, &'static str);

pub(crate) const HEADER: [Row; 18] = [
    (0, 8, "MAGIC"),
    (8, 2, "VERSION"),
    (10, 2, "HEADER_LEN"),
    (12, 4, "CODEC"),
    (16, 8, "RECORD_COUNT"),
    (24, 8, "RECORDS_OFFSET"),
    (32, 8, "RECORDS_LEN"),
    (40, 8, "OFFSETS_OFFSET"),
    (48, 8, "OFFSETS_LEN"),
    (56, 8, "TRACE_OFFSET"),
    (64, 8, "TRACE_LEN"),
    (72, 8, "ATTRIBUTE_OFFSET"),
    (80, 8, "MIN_TIMESTAMP"),
    (88, 8, "MAX_TIMESTAMP"),
    (96, 8, "CONTENT_OFFSET"),
    (104, 8, "DIRECTORY_OFFSET"),
    (112, 8, "DIRECTORY_LEN"),
    (120, 8, "LOGICAL_LEN"),
];
const HEADER_CRC: Row = (128, 4, "CRC32");
pub(crate) const HEADER_LEN: usize = 132;

const WRAPPER: [Row; 3] = [(0, 4, "CRC32"), (4, 4, "FLAGS"), (8, 8, "BODY_LEN")];
pub(crate) const WRAPPER_LEN: usize = 16;

const DIRECTORY_ENTRY: [Row; 5] = [
    (0, 8, "LOGICAL_START"),
    (8, 8, "STORED_OFFSET"),
    (16, 4, "STORED_LEN"),
    (20, 4, "CRC32"),
    (24, 8, "MIN_TIMESTAMP"),
];
pub(crate) const DIRECTORY_ENTRY_LEN: usize = 32;

const RECORD: [Row; 5] = [
    (0, 8, "TIMESTAMP"),
    (8, 4, "TRACE_ID_LEN"),
    (12, 4, "ATTRIBUTE_COUNT"),
    (16, 4, "PAYLOAD_LEN"),
    (20, 4, "RESERVED"),
];
pub(crate) const RECORD_HEADER_LEN: usize = 24;

const PAIR: [Row; 2] = [(0, 4, "KEY_ID"), (4, 16, "DIGEST")];
pub(crate) const PAIR_LEN: usize = 20;

const CONTENT_PROLOGUE: [Row; 6] = [
    (0, 4, "RESERVED"),
    (4, 4, "RECORDS_PER_BLOCK"),
    (8, 4, "BLOCK_COUNT"),
    (12, 4, "HASHES"),
    (16, 8, "SUMMARY_BITS"),
    (24, 8, "BLOCK_BITS"),
];
pub(crate) const CONTENT_PROLOGUE_LEN: usize = 32;

const BLOB: [Row; 4] = [
    (0, 8, "MAGIC"),
    (8, 4, "CODEC"),
    (12, 8, "CONTENT_LEN"),
    (20, 4, "CRC32"),
];

/// Compression blocks are filled up to this many bytes.
pub(crate) const BLOCK_TARGET: u64 = 131_072;
/// Bytes of content rows that one page checksum covers.
pub(crate) const PAGE_LEN: usize = 4096;
/// Records that share a content filter.
pub(crate) const CONTENT_BLOCK: usize = 128;

fn is_table(fields: &[Field], len: usize, rows: &[Row], wanted_len: usize) {
    let found: Vec<Row> = fields.iter().map(|f| (f.offset, f.len, f.name)).collect();
    assert_eq!(found, rows);
    assert_eq!(len, wanted_len);
}

#[test]
fn the_layout_is_that_of_the_tables() {
    use layout::{
        attribute_pair, content_prologue, directory_entry, header, record_header, wrapper,
    };
    let header_rows = [&HEADER[..], &[HEADER_CRC]].concat();
    is_table(header::FIELDS, header::LEN, &header_rows, HEADER_LEN);
    is_table(wrapper::FIELDS, wrapper::LEN, &WRAPPER, WRAPPER_LEN);
    is_table(
        directory_entry::FIELDS,
        directory_entry::LEN,
        &DIRECTORY_ENTRY,
        DIRECTORY_ENTRY_LEN,
    );
    is_table(
        record_header::FIELDS,
        record_header::LEN,
        &RECORD,
        RECORD_HEADER_LEN,
    );
    is_table(attribute_pair::FIELDS, attribute_pair::LEN, &PAIR, PAIR_LEN);
    is_table(
        content_prologue::FIELDS,
        content_prologue::LEN,
        &CONTENT_PROLOGUE,
        CONTENT_PROLOGUE_LEN,
    );
    is_table(blob_header::FIELDS, blob_header::LEN, &BLOB, 24);
}

#[test]
fn the_constants_are_those_of_the_format() {
    assert_eq!(layout::MAGIC, *b"TRAZASEG");
    assert_eq!(layout::FORMAT_VERSION, 8);
    assert_eq!(layout::BLOCK_LEN_TARGET, BLOCK_TARGET);
    assert_eq!(layout::RECORD_LEN_LIMIT, 1 << 31);
    assert_eq!(layout::BLOCK_RAW_FLAG, 1 << 31);
    assert_eq!(layout::WRAPPER_FLAG_LZ4, 1);
    assert_eq!(usize::try_from(layout::CONTENT_PAGE_LEN), Ok(PAGE_LEN));
    assert_eq!(
        usize::try_from(layout::CONTENT_BLOCK_RECORDS),
        Ok(CONTENT_BLOCK)
    );
    assert_eq!(content::HASHES_PER_TOKEN, 4);
    assert_eq!(content::FILTER_KEY_LEN_MAX, 40);
    assert_eq!(
        (content::BLOCK_FILTER_LEN_MIN, content::BLOCK_FILTER_LEN_MAX),
        (64, 8192)
    );
    assert_eq!(
        (
            content::SUMMARY_FILTER_LEN_MIN,
            content::SUMMARY_FILTER_LEN_MAX
        ),
        (256, 32_768)
    );
    assert_eq!(traza::payload::MAGIC, *b"TRZBLOB1");
}
