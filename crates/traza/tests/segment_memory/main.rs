//! No number in a file reaches an allocator before the bytes that are there have bounded it.
//!
//! Every allocation of this program is counted. Hostile files are opened, read and converted, and what that
//! allocates in all, freed or not, is compared with their size.

#[cfg(test)]
mod bounds {
    use std::alloc::System;

    use durable::checksum::crc32;
    use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
    use traza::content::Query;
    use traza::migration;
    use traza::record::{Record, derive};
    use traza::segment::codec::{Codec, wrap};
    use traza::segment::layout::{header, wrapper};
    use traza::segment::{Segment, encode, encode_with_codec};
    use traza::span::Span;

    #[global_allocator]
    static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

    const V6: &[u8] = include_bytes!("../fixtures/v6/segment-0.seg");
    const V7: &[u8] = include_bytes!("../fixtures/v7/segment-2.seg");

    /// Whatever a reader does beside handling the bytes: errors, tables of a few entries.
    const SLACK: usize = 1 << 16;

    fn allocated(run: impl FnOnce()) -> usize {
        let region = Region::new(COUNTED);
        run();
        region.change().bytes_allocated
            + usize::try_from(region.change().bytes_reallocated.max(0)).unwrap()
    }

    fn open_and_ask(bytes: &[u8]) {
        if let Ok(segment) = Segment::from_bytes(bytes.to_vec()) {
            segment.trace("t1").ok();
            segment.query_attribute("model", "\"m\"").ok();
            segment.content_candidates(&Query::new("filler")).ok();
            segment.ordinal_range_for_window(Some(3), Some(5)).ok();
        }
        migration::walk(bytes, &mut |_| Ok(())).ok();
    }

    fn records() -> Vec<Record> {
        (0..40u64)
            .map(|index| {
                let json = format!(
                    r#"{{"trace_id":"t{}","span_id":"{index}","name":"n","service":"s","start_time_ns":{index},
                        "end_time_ns":{index},"attributes":{{"model":"m","n":{index},"text":"filler {index}"}}}}"#,
                    index % 5
                );
                derive(&Span::from_json(json.as_bytes()).unwrap())
            })
            .collect()
    }

    /// Makes the header's checksum true.
    fn seal(bytes: &mut [u8]) {
        let crc = crc32(&bytes[..header::CRC32.offset]);
        header::CRC32.put(bytes, &crc.to_le_bytes()).unwrap();
    }

    /// The five metadata sections of a sound segment: start and end.
    fn sections(bytes: &[u8]) -> Vec<(usize, usize)> {
        let segment = Segment::from_bytes(bytes.to_vec()).unwrap();
        let place = |at: u64| usize::try_from(at).unwrap();
        let all = segment.header().sections(bytes.len() as u64);
        all[2..]
            .iter()
            .map(|(_, range)| (place(range.start), place(range.end)))
            .collect()
    }

    /// Numbers that a file could claim.
    const HUGE: [u64; 6] = [1 << 24, 1 << 31, (1 << 32) - 1, 1 << 40, 1 << 62, u64::MAX];

    /// Segments whose numbers claim far more than their bytes hold, all with true checksums.
    fn liars() -> Vec<Vec<u8>> {
        let mut liars = Vec::new();
        for codec in [Codec::Lz4, Codec::Raw, Codec::Zstd] {
            let sound = encode_with_codec(&records(), codec).unwrap();
            for field in header::FIELDS.iter().filter(|field| field.len == 8) {
                for value in HUGE {
                    let mut liar = sound.clone();
                    field.put(&mut liar, &value.to_le_bytes()).unwrap();
                    seal(&mut liar);
                    liars.push(liar);
                }
            }
            for (start, end) in sections(&sound) {
                // The wrapper's length, and then each place of the body as if a long varint stood there.
                for value in HUGE {
                    let mut liar = sound.clone();
                    let section = &mut liar[start..end];
                    wrapper::BODY_LEN
                        .put(section, &value.to_le_bytes())
                        .unwrap();
                    let crc = crc32(&section[wrapper::FLAGS.offset..]);
                    wrapper::CRC32.put(section, &crc.to_le_bytes()).unwrap();
                    liars.push(liar);
                }
                for at in (start + wrapper::LEN..end).step_by(3) {
                    let mut liar = sound.clone();
                    let until = (at + 4).min(end);
                    liar[at..until].fill(0xff);
                    let section = &mut liar[start..end];
                    let crc = crc32(&section[wrapper::FLAGS.offset..]);
                    wrapper::CRC32.put(section, &crc.to_le_bytes()).unwrap();
                    liars.push(liar);
                }
            }
        }
        liars
    }

    /// Everything in one test: the count is of the whole program.
    #[test]
    fn what_a_hostile_file_makes_a_reader_allocate_is_bounded_by_its_own_size() {
        let sound = encode(&records()).unwrap();
        let honest = allocated(|| open_and_ask(&sound));
        assert!(honest > sound.len(), "allocations are counted");

        let liars = liars();
        assert!(liars.len() > 1000);
        for liar in &liars {
            let spent = allocated(|| open_and_ask(liar));
            let bound = 24 * liar.len() + SLACK;
            assert!(spent <= bound, "{spent} bytes for a file of {}", liar.len());
        }

        for (legacy, fields) in [
            (V6, traza::migration::v6::header_v6::FIELDS),
            (V7, traza::migration::v7::header_v7::FIELDS),
        ] {
            for field in fields.iter().filter(|field| field.len == 8) {
                for value in HUGE {
                    let mut liar = legacy.to_vec();
                    field.put(&mut liar, &value.to_le_bytes()).unwrap();
                    let spent = allocated(|| open_and_ask(&liar));
                    let bound = 24 * liar.len() + SLACK;
                    assert!(spent <= bound, "{} = {value}: {spent} bytes", field.name);
                }
            }
        }

        bombs();
    }

    /// Bytes that really decompress to as much as their codec allows, and to no more.
    fn bombs() {
        // A trace index of one id of four million zeros.
        let sound = encode(&records()).unwrap();
        let sections = sections(&sound);
        let (start, end) = sections[2];
        let mut body = vec![1];
        durable::varint::encode(4 << 20, &mut body);
        body.resize(body.len() + (4 << 20), 0);
        body.extend_from_slice(&[1, 0]);
        let section = wrap(&body, Codec::Lz4);
        assert!(section.len() < body.len() / 200);
        let grown = section.len().wrapping_sub(end - start);
        let mut bomb = [&sound[..start], &section, &sound[end..]].concat();
        let trace_len = header::TRACE_LEN.u64(&sound).unwrap();
        let mut shift = |field: durable::Field, from: u64| {
            let value = from.wrapping_add(grown as u64);
            field.put(&mut bomb, &value.to_le_bytes()).unwrap();
        };
        shift(header::TRACE_LEN, trace_len);
        for field in [header::ATTRIBUTE_OFFSET, header::CONTENT_OFFSET] {
            shift(field, field.u64(&sound).unwrap());
        }
        seal(&mut bomb);
        assert!(Segment::from_bytes(bomb.clone()).is_ok());
        let spent = allocated(|| open_and_ask(&bomb));
        let bound = 3 * 256 * bomb.len() + SLACK;
        assert!(spent <= bound, "{spent} bytes for a file of {}", bomb.len());

        // A Zstandard block of one record that claims an extent thousands of times its size, which the codec
        // could reach.
        let one = encode_with_codec(&records()[..1], Codec::Zstd).unwrap();
        let block = Segment::from_bytes(one.clone()).unwrap().blocks()[0];
        assert!(!block.is_raw);
        for times in [2, 100, 30_000] {
            let mut liar = one.clone();
            let claimed = u64::from(block.stored_len) * times;
            header::LOGICAL_LEN
                .put(&mut liar, &claimed.to_le_bytes())
                .unwrap();
            seal(&mut liar);
            assert!(Segment::from_bytes(liar.clone()).is_err());
            let spent = allocated(|| open_and_ask(&liar));
            assert!(spent <= 24 * liar.len() + SLACK, "{claimed}: {spent}");
        }
    }
}
