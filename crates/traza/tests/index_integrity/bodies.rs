//! The bodies of the record-offset, trace and attribute index, forged inside sound wrappers.

use durable::varint::VarintFault;
use traza::digest::pair_digest;
use traza::segment::layout::header;
use traza::segment::{Codec, Fault, Section, Segment, SegmentError};

use super::answers::Oracle;
use super::corpus::{records, segment};
use super::forge::{Forge, put};
use super::memory_file::MemoryFile;

/// Both opens refuse the file and name `section`; answers the fault.
#[track_caller]
fn fault(bytes: &[u8], section: Section) -> Fault {
    let lazy = MemoryFile::new(bytes).open().unwrap_err();
    let eager = Segment::from_bytes(bytes.to_vec()).unwrap_err();
    assert_eq!(lazy.to_string(), eager.to_string());
    match lazy {
        SegmentError::Corrupt {
            section: named,
            fault,
            ..
        } => {
            assert_eq!(named, section, "{fault}");
            fault
        }
        other => panic!("{other}"),
    }
}

#[track_caller]
fn fault_of_body(section: Section, body: &[u8]) -> Fault {
    let mut forged = forge();
    forged.set_body(section, body);
    fault(&forged.build(), section)
}

fn forge() -> Forge {
    Forge::of(&segment(Codec::Lz4))
}

/// Where the records begin.
fn starts() -> Vec<u64> {
    let segment = Segment::from_bytes(segment(Codec::Lz4)).unwrap();
    segment
        .scan()
        .map(|record| record.unwrap().logical_offset())
        .collect()
}

/// A trace index: ids with posting lists as they are given, right or wrong.
fn traces(entries: &[(&[u8], Vec<u8>)]) -> Vec<u8> {
    let mut body = Vec::new();
    put(entries.len() as u64, &mut body);
    for (id, postings) in entries {
        put(id.len() as u64, &mut body);
        body.extend_from_slice(id);
        body.extend_from_slice(postings);
    }
    body
}

fn postings(numbers: &[u64]) -> Vec<u8> {
    let mut list = Vec::new();
    for number in numbers {
        put(*number, &mut list);
    }
    list
}

#[test]
fn record_offsets_that_are_too_few_too_many_or_out_of_order_are_refused() {
    let starts = starts();
    let gaps: Vec<u64> = std::iter::once(starts[0])
        .chain(starts.windows(2).map(|pair| pair[1] - pair[0]))
        .collect();
    let body = |gaps: &[u64]| postings(gaps);
    assert_eq!(
        forge().body(Section::RecordOffsets),
        body(&gaps),
        "this is the encoding"
    );
    let section = Section::RecordOffsets;
    assert!(matches!(fault_of_body(section, &[]), Fault::Bound { .. }));
    let short = fault_of_body(section, &body(&gaps[1..]));
    assert!(
        matches!(
            short,
            Fault::Varint {
                fault: VarintFault::CutOff,
                ..
            } | Fault::Bound { .. }
        ),
        "{short}"
    );
    let mut longer = gaps.clone();
    longer.push(1);
    assert!(matches!(
        fault_of_body(section, &body(&longer)),
        Fault::Trailing { left: 1.., .. }
    ));
    for at in 1..gaps.len() {
        let mut wrong = gaps.clone();
        wrong[at] = 0;
        assert!(matches!(
            fault_of_body(section, &body(&wrong)),
            Fault::ZeroGap { .. }
        ));
        wrong[at] = u64::MAX;
        assert!(matches!(
            fault_of_body(section, &body(&wrong)),
            Fault::OffsetBound { .. }
        ));
    }
}

#[test]
fn an_offset_index_without_one_of_its_records_is_refused_even_if_the_count_agrees() {
    let starts = starts();
    for omitted in 0..starts.len() {
        let mut forged = forge();
        let mut left = starts.clone();
        left.remove(omitted);
        let gaps: Vec<u64> = std::iter::once(left[0])
            .chain(left.windows(2).map(|pair| pair[1] - pair[0]))
            .collect();
        forged.set_body(Section::RecordOffsets, &postings(&gaps));
        forged.set_word(header::RECORD_COUNT, left.len() as u64);
        let bytes = forged.build();
        let lazy = MemoryFile::new(&bytes).open();
        let eager = Segment::from_bytes(bytes);
        // A record that begins a block is missed by the directory, the last one by the declared range, any
        // other by whoever follows a posting to it. Nothing is served as if it had never been there.
        for segment in [lazy, eager].into_iter().flatten() {
            let followed = segment.trace(&records()[omitted].trace_id);
            assert!(followed.is_err(), "record {omitted}");
        }
    }
}

#[test]
fn varints_that_are_longer_than_needed_cut_off_or_too_large_are_refused_in_every_body() {
    let mut overlong = vec![0x82, 0];
    let cut_off = vec![0x80];
    let too_large = vec![0xff; 11];
    let eleven = [vec![0x80; 10], vec![1]].concat();
    for section in [
        Section::RecordOffsets,
        Section::TraceIndex,
        Section::AttributeIndex,
    ] {
        for (front, expected) in [
            (&overlong, VarintFault::NotCanonical),
            (&cut_off, VarintFault::CutOff),
            (&too_large, VarintFault::TooLarge),
            (&eleven, VarintFault::TooLarge),
        ] {
            // The offset index needs as many bytes as there are records before it is read.
            let padded = [front.as_slice(), &[0x80; 13]].concat();
            let front = match (section, expected) {
                (Section::RecordOffsets, VarintFault::CutOff) => continue,
                (Section::RecordOffsets, _) => &padded,
                _ => front,
            };
            let fault = fault_of_body(section, front);
            assert!(
                matches!(fault, Fault::Varint { at: 0, fault } if fault == expected),
                "{section} {front:?}: {fault}"
            );
        }
    }
    // Behind a count, an id and a length that are right.
    overlong = vec![0x81, 0];
    let list = [vec![2, 0], overlong].concat();
    let fault = fault_of_body(Section::TraceIndex, &traces(&[(b"t", list)]));
    assert!(
        matches!(
            fault,
            Fault::Varint {
                fault: VarintFault::NotCanonical,
                ..
            }
        ),
        "{fault}"
    );
}

#[test]
fn posting_lists_with_forged_counts_zero_gaps_or_places_outside_the_records_are_refused() {
    let logical = forge().word(header::LOGICAL_LEN);
    // More postings than there are records, and than there are bytes.
    let many: Vec<u64> = [15].into_iter().chain([1; 15]).collect();
    for (list, what) in [
        (postings(&many), "count"),
        (postings(&[u64::MAX, 0]), "count"),
        (postings(&[14, 0, 1]), "count"),
        (postings(&[2, 0, 0]), "zero gap"),
        (postings(&[3, 5, 1, 0]), "zero gap"),
        (postings(&[1, logical]), "outside"),
        (postings(&[2, 0, logical]), "outside"),
        (postings(&[2, 1, u64::MAX]), "outside"),
    ] {
        let digest = pair_digest("k", "v").0;
        let mut attributes = vec![1, 1, b'k', 1, 0];
        attributes.extend_from_slice(&digest);
        attributes.extend_from_slice(&list);
        for (section, body) in [
            (Section::TraceIndex, traces(&[(b"t", list.clone())])),
            (Section::AttributeIndex, attributes),
        ] {
            let fault = fault_of_body(section, &body);
            let is_right = match fault {
                Fault::Bound { .. } => what == "count",
                Fault::ZeroGap { .. } => what == "zero gap",
                Fault::OffsetBound { .. } => what == "outside",
                _ => false,
            };
            assert!(is_right, "{what}: {fault}");
        }
    }
}

#[test]
fn entry_counts_beyond_the_bytes_that_are_there_are_refused() {
    for count in [5u64, 1 << 20, u64::MAX] {
        let mut body = Vec::new();
        put(count, &mut body);
        body.extend_from_slice(&[1, b't', 0]);
        assert!(matches!(
            fault_of_body(Section::TraceIndex, &body),
            Fault::Bound { .. }
        ));
        assert!(matches!(
            fault_of_body(Section::AttributeIndex, &body),
            Fault::Bound { .. }
        ));
        let mut behind_keys = vec![1, 1, b'k'];
        put(count, &mut behind_keys);
        assert!(matches!(
            fault_of_body(Section::AttributeIndex, &behind_keys),
            Fault::Bound { .. }
        ));
    }
}

#[test]
fn duplicate_traces_pairs_and_keys_are_refused_and_their_order_does_not_matter() {
    let one = || postings(&[1, 0]);
    let twice = traces(&[(b"b", one()), (b"a", one()), (b"b", one())]);
    assert!(matches!(
        fault_of_body(Section::TraceIndex, &twice),
        Fault::Duplicate { .. }
    ));
    let neighbours = traces(&[(b"a", one()), (b"a", one())]);
    assert!(matches!(
        fault_of_body(Section::TraceIndex, &neighbours),
        Fault::Duplicate { .. }
    ));

    let keys_twice = [2, 1, b'k', 1, b'k', 0];
    assert!(matches!(
        fault_of_body(Section::AttributeIndex, &keys_twice),
        Fault::Duplicate { .. }
    ));
    let pair = |value: &str| [&[0u8][..], &pair_digest("k", value).0, &[1, 0]].concat();
    let pairs = |pairs: &[Vec<u8>]| {
        let count = u8::try_from(pairs.len()).unwrap();
        [&[1, 1, b'k', count][..], &pairs.concat()].concat()
    };
    let body = pairs(&[pair("x"), pair("y"), pair("x")]);
    assert!(matches!(
        fault_of_body(Section::AttributeIndex, &body),
        Fault::Duplicate { .. }
    ));
    let body = pairs(&[pair("x"), pair("x")]);
    assert!(matches!(
        fault_of_body(Section::AttributeIndex, &body),
        Fault::Duplicate { .. }
    ));
}

#[test]
fn indexes_in_another_order_answer_alike() {
    let sound = Segment::from_bytes(segment(Codec::Lz4)).unwrap();
    let mut forged = forge();
    let mut entries: Vec<(Vec<u8>, Vec<u8>)> = sound
        .traces()
        .map(|(id, list)| {
            let offsets: Vec<u64> = list.collect();
            (id.as_bytes().to_vec(), encoded(&offsets))
        })
        .collect();
    entries.reverse();
    let entries: Vec<(&[u8], Vec<u8>)> = entries
        .iter()
        .map(|(id, list)| (id.as_slice(), list.clone()))
        .collect();
    forged.set_body(Section::TraceIndex, &traces(&entries));

    // The dictionary stays as it is, since the records hold its ids; the entries go backwards.
    let keys: Vec<&str> = sound.keys().collect();
    let mut body = Vec::new();
    put(keys.len() as u64, &mut body);
    for key in &keys {
        put(key.len() as u64, &mut body);
        body.extend_from_slice(key.as_bytes());
    }
    put(sound.pair_count() as u64, &mut body);
    for id in (0..u32::try_from(keys.len()).unwrap()).rev() {
        let mut values: Vec<_> = sound.values(id).collect();
        values.reverse();
        for (digest, list) in values {
            put(u64::from(id), &mut body);
            body.extend_from_slice(&digest.0);
            body.extend_from_slice(&encoded(&list.collect::<Vec<u64>>()));
        }
    }
    forged.set_body(Section::AttributeIndex, &body);
    let bytes = forged.build();
    let oracle = Oracle::of(&records());
    oracle.is_answered_by(&MemoryFile::new(&bytes).open().unwrap());
    oracle.is_answered_by(&Segment::from_bytes(bytes).unwrap());
}

/// An honest posting list.
fn encoded(offsets: &[u64]) -> Vec<u8> {
    let mut list = Vec::new();
    put(offsets.len() as u64, &mut list);
    let mut before = 0;
    for offset in offsets {
        put(offset - before, &mut list);
        before = *offset;
    }
    list
}

#[test]
fn bytes_behind_the_last_entry_and_text_that_is_no_text_are_refused() {
    for section in [
        Section::RecordOffsets,
        Section::TraceIndex,
        Section::AttributeIndex,
    ] {
        let mut forged = forge();
        forged.change_body(section, |body| body.push(0));
        let fault = fault(&forged.build(), section);
        assert!(
            matches!(fault, Fault::Trailing { left: 1, .. }),
            "{section}: {fault}"
        );
    }
    let body = traces(&[(&[0xff], postings(&[1, 0]))]);
    assert!(matches!(
        fault_of_body(Section::TraceIndex, &body),
        Fault::Utf8 { .. }
    ));
    assert!(matches!(
        fault_of_body(Section::AttributeIndex, &[1, 1, 0xff, 0]),
        Fault::Utf8 { .. }
    ));
}

#[test]
fn a_pair_of_a_key_outside_the_dictionary_is_refused() {
    let mut body = vec![1, 1, b'k', 1, 1];
    body.extend_from_slice(&pair_digest("k", "v").0);
    body.extend_from_slice(&[1, 0]);
    let fault = fault_of_body(Section::AttributeIndex, &body);
    assert_eq!(fault, Fault::KeyId { key_id: 1, keys: 1 });
}

#[test]
fn an_empty_posting_list_is_taken_and_answers_with_nothing() {
    let mut forged = forge();
    forged.set_body(Section::TraceIndex, &traces(&[(b"t", vec![0])]));
    let segment = Segment::from_bytes(forged.build()).unwrap();
    assert!(segment.trace("t").unwrap().is_empty());
}

#[test]
fn a_posting_that_leads_into_a_record_is_corrupt_when_it_is_followed() {
    let mut forged = forge();
    forged.set_body(
        Section::TraceIndex,
        &traces(&[(b"trace-0", postings(&[1, 1]))]),
    );
    let bytes = forged.build();
    for segment in [
        MemoryFile::new(&bytes).open().unwrap(),
        Segment::from_bytes(bytes).unwrap(),
    ] {
        let error = segment.trace("trace-0").unwrap_err();
        let is_right = matches!(
            error,
            SegmentError::Corrupt {
                section: Section::Records,
                fault: Fault::NoRecord { logical: 1 },
                ..
            }
        );
        assert!(is_right, "{error}");
        assert!(segment.record_at(1).is_err() && segment.record_at(u64::MAX).is_err());
    }
}

#[test]
fn a_posting_to_a_record_of_another_trace_or_value_is_a_candidate_and_never_an_answer() {
    let records = records();
    let starts = starts();
    let all = encoded(&starts);
    let mut forged = forge();
    forged.set_body(
        Section::TraceIndex,
        &traces(&[(b"trace-0", all.clone()), (b"other", all.clone())]),
    );
    let text = records[0].attributes.text("model").unwrap();
    let sound = Segment::from_bytes(segment(Codec::Lz4)).unwrap();
    let keys: Vec<&str> = sound.keys().collect();
    let mut body = Vec::new();
    put(keys.len() as u64, &mut body);
    for key in &keys {
        put(key.len() as u64, &mut body);
        body.extend_from_slice(key.as_bytes());
    }
    put(1, &mut body);
    put(u64::from(sound.key_id("model").unwrap()), &mut body);
    body.extend_from_slice(&pair_digest("model", text).0);
    body.extend_from_slice(&all);
    forged.set_body(Section::AttributeIndex, &body);
    let segment = Segment::from_bytes(forged.build()).unwrap();
    let honest = sound.trace("trace-0").unwrap();
    assert_eq!(segment.trace("trace-0").unwrap(), honest);
    assert!(segment.trace("other").unwrap().is_empty());
    assert_eq!(
        segment.attribute_candidate_offsets("model", text).len(),
        records.len()
    );
    let found = segment.query_attribute("model", text).unwrap();
    assert_eq!(found, sound.query_attribute("model", text).unwrap());
    assert!(found.len() < records.len());
}
