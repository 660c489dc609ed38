//! Every byte of a small log changed to every other one, and every cut.
//!
//! JSON text has no checksum: a changed letter of a comment is another comment, and nobody can tell. What is promised is that
//! no damage panics, that what cannot be read is refused by its line, and that nothing but the end is ever cut off.

use std::path::Path;

use traza::logs::file::{Healed, LineFormat, LogError, scan};
use traza::logs::{annotation, eval, tombstone};

use crate::disk::{LOG, fixture};

fn first_lines(name: &str, count: usize) -> Vec<u8> {
    let bytes = fixture(name);
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').take(count);
    lines.flatten().copied().collect()
}

/// Line number and start of the line that holds `place`, and the number of lines.
fn line_of(bytes: &[u8], place: usize) -> (u64, usize, u64) {
    let newlines = |bytes: &[u8]| bytes.split(|byte| *byte == b'\n').count() as u64 - 1;
    let before = &bytes[..place];
    let start = before
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1);
    (newlines(before) + 1, start, newlines(bytes))
}

fn check<R: PartialEq + std::fmt::Debug>(bytes: &[u8], format: &LineFormat<R>) {
    let path = Path::new(LOG);
    let whole = scan(path, bytes, format).unwrap();
    assert_eq!(whole.healed, None);
    let (mut refused, mut healed, mut other) = (0, 0, 0);
    for place in 0..bytes.len() {
        let (line, start, lines) = line_of(bytes, place);
        for byte in 0..=255 {
            let mut damaged = bytes.to_vec();
            damaged[place] = byte;
            match scan(path, &damaged, format) {
                // A newline that is gone joins two lines; one that is new may leave a good first half.
                Err(LogError::Malformed {
                    line: found,
                    offset,
                    ..
                }) => {
                    let split = byte == b'\n' && found == line + 1 && offset == place as u64 + 1;
                    assert!(
                        split || (found, offset) == (line, start as u64),
                        "{place} {byte}"
                    );
                    refused += 1;
                }
                Err(e) => panic!("{place} {byte}: {e}"),
                Ok(scan) => {
                    let kept = usize::try_from(line - 1).unwrap();
                    assert_eq!(scan.records.get(..kept), whole.records.get(..kept));
                    if scan.healed.is_some() {
                        assert_eq!(line, lines, "{place} {byte}: only the end is healed");
                        healed += 1;
                    } else {
                        assert!(scan.records.len() + 1 >= whole.records.len());
                        other += 1;
                    }
                }
            }
        }
    }
    assert!(
        refused > healed && healed > 0 && other > 0,
        "{refused} {healed} {other}"
    );
    for len in 0..bytes.len() {
        let cut = scan(path, &bytes[..len], format).unwrap();
        assert!(whole.records.starts_with(&cut.records));
        let (_, start, _) = line_of(bytes, len);
        match cut.healed {
            None => assert_eq!(start, len),
            Some(Healed::Newline { .. }) => assert_eq!(bytes[len], b'\n'),
            Some(Healed::TornTail {
                offset, len: lost, ..
            }) => {
                assert_eq!((offset, lost), (start as u64, (len - start) as u64));
            }
        }
    }
}

#[test]
fn any_damage_of_a_byte_of_annotations_is_refused_healed_at_the_end_or_another_value() {
    check(&first_lines("annotations.jsonl", 3), &annotation::FORMAT);
}

#[test]
fn any_damage_of_a_byte_of_tombstones_is_refused_healed_at_the_end_or_another_value() {
    let bytes = first_lines("tombstones.jsonl", 4);
    let erased_span = bytes.split_inclusive(|byte| *byte == b'\n').skip(2);
    check(
        &erased_span.flatten().copied().collect::<Vec<_>>(),
        &tombstone::FORMAT,
    );
}

#[test]
fn any_damage_of_a_byte_of_evals_is_refused_healed_at_the_end_or_another_value() {
    let bytes = first_lines("evals.jsonl", 6);
    let mut lines: Vec<_> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    // The version is the longest, and like the others.
    lines.remove(3);
    check(&lines.concat(), &eval::FORMAT);
}
