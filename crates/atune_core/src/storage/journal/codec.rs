//! The lines of a journal, to and from bytes. No files.

use std::borrow::Cow;

use durable::checksum::fnv1a_64;

use super::canonical::{Canonical, Text, read_first};
use super::error::Fault;
use super::record::{
    EXTENT_MAGIC, ExtentHeader, ExtentPointer, Head, Header, METADATA_LEN_MAX, Op, OpLine,
};

/// What an operation line starts with.
const OP_PREFIX: &str = r#"{"record":"op","#;

/// A record line whose first member says which record it is.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
enum Line {
    Header(Header),
    Op(OpLine),
}

/// The header line, with its newline.
pub(super) fn header_line(header: &Header) -> Vec<u8> {
    line(&Line::Header(header.clone()))
}

/// An operation line, with its newline.
pub(super) fn op_line(op: &OpLine) -> Vec<u8> {
    line(&Line::Op(op.clone()))
}

/// The head line, with its newline.
pub(super) fn head_line(head: &Head) -> Vec<u8> {
    line(head)
}

fn line(record: &impl serde::Serialize) -> Vec<u8> {
    // String keys and plain values: writing them to memory cannot fail.
    let mut bytes = serde_json::to_vec(record).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// An extent: its metadata line, and behind it the payload.
pub(super) fn extent(
    previous: Option<ExtentPointer>,
    first: u64,
    last: u64,
    start: u64,
    payload: &[u8],
) -> Vec<u8> {
    let mut bytes = line(&ExtentHeader {
        magic: EXTENT_MAGIC.to_owned(),
        previous,
        first,
        last,
        start,
        payload_len: payload.len() as u64,
        checksum: fnv1a_64(payload),
    });
    bytes.extend_from_slice(payload);
    bytes
}

/// The line at the front of `bytes`, without its newline, if it is at most `len_max` bytes long with it.
pub(super) fn first_line(bytes: &[u8], len_max: usize) -> Result<&[u8], Fault> {
    let within = bytes.get(..len_max.min(bytes.len())).unwrap_or_default();
    let end = within.iter().position(|&b| b == b'\n');
    let end = end.ok_or(if bytes.len() < len_max {
        Fault::LineWithoutEnd { len: bytes.len() }
    } else {
        Fault::LineTooLong { max: len_max }
    })?;
    Ok(within.get(..end).unwrap_or_default())
}

/// Reads a header line.
pub(super) fn decode_header(line: &[u8]) -> Result<Header, Fault> {
    match serde_json::from_slice(line) {
        Ok(Line::Header(header)) => Ok(header),
        Ok(Line::Op(_)) => Err(Fault::BadRecord(
            "an operation where the header belongs".to_owned(),
        )),
        Err(error) => Err(Fault::BadRecord(error.to_string())),
    }
}

/// Reads the operation line at the front of `bytes`; answers it and its length with newline.
pub(super) fn first_op(bytes: &[u8]) -> Result<(OpLine, usize), Fault> {
    if let Some((CanonicalOp(op), len)) = read_first(bytes)
        && bytes.get(len) == Some(&b'\n')
    {
        return Ok((op, len + 1));
    }
    let end = bytes.iter().position(|&b| b == b'\n');
    let line = end.and_then(|end| bytes.get(..end));
    let line = line.ok_or_else(|| Fault::BadRecord("the last line has no end".to_owned()))?;
    Ok((decode_op_as_json(line)?, line.len() + 1))
}

/// Reads an operation line.
pub(super) fn decode_op(line: &[u8]) -> Result<OpLine, Fault> {
    match read_first(line) {
        Some((CanonicalOp(op), len)) if len == line.len() => Ok(op),
        _ => decode_op_as_json(line),
    }
}

/// An operation line without its newline.
struct CanonicalOp(OpLine);

impl Canonical for CanonicalOp {
    fn read(text: &mut Text<'_>) -> Option<Self> {
        text.skip(OP_PREFIX)?;
        OpLine::read_members(text).map(Self)
    }
}

/// Reads an operation line in any spelling, or says what is wrong with it.
fn decode_op_as_json(line: &[u8]) -> Result<OpLine, Fault> {
    // The member `record` is the first of every writer's lines: reading it so saves a pass.
    if let Some(rest) = line.strip_prefix(OP_PREFIX.as_bytes()) {
        let object = [b"{", rest].concat();
        return serde_json::from_slice(&object).map_err(|e| bad_op(&object, &e));
    }
    match serde_json::from_slice(line) {
        Ok(Line::Op(op)) => Ok(op),
        Ok(Line::Header(_)) => Err(Fault::BadRecord("a header among the operations".to_owned())),
        Err(error) => Err(bad_op(line, &error)),
    }
}

/// What is wrong with an operation line that cannot be read: that its kind is unknown, or else what the
/// JSON library says.
fn bad_op(line: &[u8], error: &serde_json::Error) -> Fault {
    #[derive(serde::Deserialize)]
    struct Kind<'a> {
        #[serde(borrow)]
        kind: Cow<'a, str>,
    }
    #[derive(serde::Deserialize)]
    struct AnyOp<'a> {
        #[serde(borrow)]
        op: Kind<'a>,
    }
    match serde_json::from_slice::<AnyOp<'_>>(line) {
        Ok(AnyOp { op: Kind { kind } }) if !Op::TABLES.iter().any(|table| table.name == kind) => {
            Fault::UnknownOperation {
                kind: kind.chars().take(64).collect(),
            }
        }
        _ => Fault::BadRecord(error.to_string()),
    }
}

/// Reads header and head from the whole file at a study's path.
pub(super) fn decode_head_file(bytes: &[u8]) -> Result<(Header, Head), Fault> {
    let header = first_line(bytes, METADATA_LEN_MAX)?;
    let rest = bytes.get(header.len() + 1..).unwrap_or_default();
    if rest.is_empty() {
        return Err(Fault::NotTwoLines);
    }
    let head = first_line(rest, METADATA_LEN_MAX)?;
    if rest.len() != head.len() + 1 {
        return Err(Fault::NotTwoLines);
    }
    let header = decode_header(header)?;
    let head: Head = serde_json::from_slice(head).map_err(|e| Fault::BadRecord(e.to_string()))?;
    if let Some(tip) = &head.tip {
        check_pointer(tip)?;
    }
    Ok((header, head))
}

/// Reads the metadata line of an extent at the front of `bytes`; answers it and its length with newline.
pub(super) fn decode_extent(bytes: &[u8]) -> Result<(ExtentHeader, usize), Fault> {
    let (header, len): (ExtentHeader, _) = match read_first(bytes) {
        Some((header, len)) if len < METADATA_LEN_MAX && bytes.get(len) == Some(&b'\n') => {
            (header, len)
        }
        _ => {
            let line = first_line(bytes, METADATA_LEN_MAX)?;
            let header = serde_json::from_slice(line);
            (
                header.map_err(|e| Fault::BadRecord(e.to_string()))?,
                line.len(),
            )
        }
    };
    if header.magic != EXTENT_MAGIC {
        return Err(Fault::BadMagic(header.magic));
    }
    if let Some(previous) = &header.previous {
        check_pointer(previous)?;
    }
    if header.first == 0 || header.last < header.first {
        let (expected, found) = (header.first.max(1), header.last);
        return Err(Fault::NotContiguous {
            what: "last sequence number",
            expected,
            found,
        });
    }
    Ok((header, len + 1))
}

fn check_pointer(pointer: &ExtentPointer) -> Result<(), Fault> {
    check_name(&pointer.file)
}

/// A pointer must name a file in the folder of data files, and nothing else.
pub(super) fn check_name(name: &str) -> Result<(), Fault> {
    let is_safe = name.starts_with("data-")
        && name.len() <= 255
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    if is_safe {
        Ok(())
    } else {
        Err(Fault::UnsafeName(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;

    /// The file of the golden study, with its metadata lines and operations.
    const GOLDEN: &str = include_str!("../../../tests/goldens/journal_full_study_v6.jsonl");

    /// Lines of operations that the golden study has not, or not with such values. In the last three,
    /// members are null that writers leave out, and the other way round.
    const MORE: &str = r#"{"record":"op","seq":1,"worker":0,"at_millis":1,"op":{"kind":"lifecycle-reserve","study":0,"trial":1,"number":1,"managed":true}}
{"record":"op","seq":2,"worker":1,"at_millis":1,"op":{"kind":"lifecycle-claim","trial":1,"from":"Waiting","worker":1,"heartbeat_millis":7,"epoch":1,"heartbeat_seq":1,"params":[{"name":"größe","dist":{"Float":{"low":-1.0,"high":0.12345600000000001,"log":false,"step":0.25}},"value":{"F64":-0.0}},{"name":"","dist":"Bool","value":{"Bool":true}},{"name":"n","dist":{"Int":{"low":-9223372036854775808,"high":9223372036854775807,"log":false,"step":1}},"value":{"I64":-5}}]}}
{"record":"op","seq":3,"worker":1,"at_millis":18446744073709551615,"op":{"kind":"lifecycle-renew","trial":1,"worker":1,"epoch":1,"heartbeat_millis":8,"heartbeat_seq":2}}
{"record":"op","seq":4,"worker":1,"at_millis":1,"op":{"kind":"lifecycle-fenced","trial":1,"worker":1,"epoch":1,"mutation":{"kind":"report","step":1,"values":[5e-324,1.7976931348623157e+308,1e-7,123456789012345.0,0.1234567890123456]}}}
{"record":"op","seq":5,"worker":1,"at_millis":1,"op":{"kind":"lifecycle-fenced","trial":1,"worker":1,"epoch":1,"mutation":{"kind":"params-batch","params":[{"name":"c","dist":{"Cat":{"choices":{"version":1,"choices":[{"label":"a","value":{"type":"int","value":-3}},{"label":"b","value":{"type":"int","value":64}},{"label":"c","value":{"type":"float","value":0.5}},{"label":"d","value":{"type":"bool","value":false}},{"label":"e","value":{"type":"null","value":null}}]}}},"value":{"Cat":4}}]}}}
{"record":"op","seq":6,"worker":1,"at_millis":1,"op":{"kind":"lifecycle-terminal","trial":1,"worker":1,"epoch":1,"outcome":{"state":"Failed","error":"e"},"intent":{"sampler":true,"scheduler":false,"callbacks":["c","d"]}}}
{"record":"op","seq":7,"worker":1,"at_millis":1,"op":{"kind":"lifecycle-terminal","trial":1,"worker":1,"epoch":1,"outcome":{"state":"Complete","values":[0.5]}}}
{"record":"op","seq":8,"worker":1,"at_millis":1,"op":{"kind":"lifecycle-fail-stale","trial":1,"observed_state":"Running","owner":1,"epoch":1,"heartbeat_millis":7,"heartbeat_seq":1,"now_millis":9,"grace_millis":1,"reason":"late"}}
{"record":"op","seq":9,"worker":1,"at_millis":1,"op":{"kind":"lifecycle-abandon","trial":1,"reason":"no"}}
{"record":"op","seq":10,"worker":1,"at_millis":1,"op":{"kind":"outbox-advance","key":{"trial":1,"epoch":1},"phase":"Effects","effects":[]}}
{"record":"op","seq":11,"worker":1,"at_millis":1,"op":{"kind":"outbox-effect-complete","key":{"trial":1,"epoch":1,"index":0}}}
{"record":"op","seq":12,"worker":1,"at_millis":1,"op":{"kind":"outbox-replacement","effect":{"trial":1,"epoch":1,"index":0},"study":0,"trial":2,"number":2,"attempt":{"number":1,"max":2},"retry_of":1}}
{"record":"op","seq":13,"worker":1,"at_millis":1,"op":{"kind":"params-batch","trial":0,"params":[{"name":"x","dist":{"Float":{"low":0.0,"high":1.0,"log":false}},"value":{"F64":0.5}}]}}
{"record":"op","seq":14,"worker":1,"at_millis":1,"op":{"kind":"lifecycle-terminal","trial":1,"worker":1,"epoch":1,"outcome":{"state":"Pruned","values":null,"blob":null},"intent":null}}
{"magic":"atune.extent/6","first":1,"last":1,"start":90,"payload_len":239,"checksum":1}"#;

    fn lines() -> impl Iterator<Item = &'static str> {
        GOLDEN.lines().chain(MORE.lines())
    }

    fn read_whole<T: Canonical>(line: &str) -> Option<T> {
        let (value, len) = read_first(line.as_bytes())?;
        (len == line.len()).then_some(value)
    }

    /// Asserts that a line that is read as one that a writer spelled means to the JSON library what it
    /// was read as. Answers whether it was.
    fn means_the_same(line: &str) -> bool {
        if let Some(CanonicalOp(op)) = read_whole(line) {
            let expected = decode_op_as_json(line.as_bytes());
            assert_eq!(expected.as_ref(), Ok(&op), "{line}");
            // The signs of zeros too.
            assert_eq!(expected.map(|op| op_line(&op)), Ok(op_line(&op)), "{line}");
            return true;
        }
        if let Some(header) = read_whole::<ExtentHeader>(line) {
            assert_eq!(serde_json::from_str::<ExtentHeader>(line).unwrap(), header);
            return true;
        }
        false
    }

    #[test]
    fn what_journals_are_full_of_is_read_without_the_json_library() {
        let rare = [
            r#""record":"header""#,
            r#"{"tip":"#,
            r#""previous":null"#,
            r#""create-study""#,
            r#""put-state""#,
            r#""template":"#,
            r#""value":{"fold""#,
            r#""NaN","#,
        ];
        for line in lines() {
            let is_rare = rare.iter().any(|part| line.contains(part));
            // Null is what a writer puts there: only the first extent has it, which is read as well.
            let is_first_extent = line.contains(rare[2]);
            assert_eq!(means_the_same(line), !is_rare || is_first_extent, "{line}");
        }
    }

    /// What a line consists of: what stands between the signs of JSON, and these.
    fn pieces(line: &str) -> Vec<String> {
        let mut pieces = vec![String::new()];
        for sign in line.chars() {
            if r#"{}[]:,""#.contains(sign) {
                pieces.extend([sign.to_string(), String::new()]);
            } else if let Some(piece) = pieces.last_mut() {
                piece.push(sign);
            }
        }
        pieces.retain(|piece| !piece.is_empty());
        pieces
    }

    fn foreign_piece() -> impl Strategy<Value = String> {
        let odd = [
            "",
            " ",
            "\t",
            "\r",
            "\0",
            "\\",
            "\\u0061",
            "\\\"",
            "\u{7f}",
            "é",
            "null",
            "true",
            "-",
            "-0",
            "00",
            "01",
            "1.",
            ".5",
            "0.0",
            "-0.0",
            "1E5",
            "1e5",
            "1e+5",
            "1e-5",
            "1e400",
            "-1e-400",
            "1.5e",
            "1e05",
            "18446744073709551616",
            "9223372036854775808",
            "-9223372036854775808",
            "4294967296",
            "0.1000000000000000055511151231257827",
            "9007199254740993.0",
            "\"NaN\"",
        ];
        let pool: Vec<String> = lines().flat_map(pieces).collect();
        prop_oneof![
            proptest::sample::select(odd.map(str::to_owned).to_vec()),
            proptest::sample::select(pool),
            any::<f64>().prop_map(|v| serde_json::to_string(&v).unwrap()),
            any::<u64>().prop_map(|v| v.to_string()),
            "-?[0-9]{1,18}\\.[0-9]{1,18}(e[+-]?[0-9]{1,3})?",
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn a_line_that_is_read_without_the_json_library_means_to_it_the_same(
            line in any::<Index>(),
            changes in proptest::collection::vec((any::<Index>(), foreign_piece()), 1..4),
        ) {
            let mut pieces = pieces(lines().nth(line.index(lines().count())).unwrap());
            for (place, piece) in changes {
                let place = place.index(pieces.len());
                pieces[place] = piece;
            }
            means_the_same(&pieces.concat());
        }
    }

    #[test]
    fn a_name_that_leads_out_of_the_folder_is_refused() {
        let pointer = |file: &str| ExtentPointer {
            file: file.to_owned(),
            offset: 0,
            len: 1,
        };
        assert!(check_pointer(&pointer("data-0000000000000000-00000000-0000000000000000")).is_ok());
        for name in [
            "",
            "..",
            "data-/x",
            "data-..",
            "../data-1",
            "data-\0",
            "gen-1",
            "data-é",
        ] {
            let found = check_pointer(&pointer(name));
            assert!(matches!(found, Err(Fault::UnsafeName(_))), "{name:?}");
        }
    }

    #[test]
    fn the_shortest_managed_trial_has_1342_bytes_of_records() {
        let param = r#"{"name":"a","dist":{"Float":{"low":0.0,"high":1.0,"log":false,"step":null}},"value":{"F64":0.5}}"#;
        let claim = format!(
            r#"{{"kind":"lifecycle-claim","trial":1,"from":"Waiting","worker":0,"heartbeat_millis":1700000000000,"epoch":1,"heartbeat_seq":1,"params":[{param},{param},{param}]}}"#
        );
        let report = r#"{"kind":"lifecycle-fenced","trial":1,"worker":0,"epoch":1,"mutation":{"kind":"report","step":0,"values":[0.5]}}"#;
        let ops = [
            r#"{"kind":"lifecycle-reserve","study":0,"trial":1,"number":1,"managed":true}"#,
            &claim,
            report,
            report,
            report,
            r#"{"kind":"lifecycle-terminal","trial":1,"worker":0,"epoch":1,"outcome":{"state":"Complete","values":[0.5]}}"#,
        ];
        let lens = ops.map(|op| {
            let line = OpLine {
                seq: 1,
                worker: crate::trial::WorkerId(0),
                at_millis: 1_700_000_000_000,
                op: serde_json::from_str(op).unwrap(),
            };
            op_line(&line).len()
        });
        assert_eq!(lens, [141, 494, 178, 178, 178, 173]);
    }

    #[test]
    fn an_operation_of_a_later_release_is_named_as_such() {
        for record in [r#""record":"op","#, r#""at":0,"record":"op","#] {
            let line = format!(
                r#"{{{record}"seq":1,"worker":0,"at_millis":1,"op":{{"kind":"trial-note","x":[{{}}]}}}}"#
            );
            assert_eq!(
                decode_op(line.as_bytes()),
                Err(Fault::UnknownOperation {
                    kind: "trial-note".to_owned()
                }),
                "{line}"
            );
        }
        let known = r#"{"record":"op","seq":1,"worker":0,"at_millis":1,"op":{"kind":"report"}}"#;
        let found = decode_op(known.as_bytes());
        assert!(matches!(found, Err(Fault::BadRecord(_))), "{found:?}");
    }

    #[test]
    fn a_line_without_an_end_within_its_cap_is_refused() {
        assert_eq!(first_line(b"ab\ncd", 3), Ok(&b"ab"[..]));
        assert_eq!(first_line(b"ab\n", 2), Err(Fault::LineTooLong { max: 2 }));
        assert_eq!(first_line(b"ab", 2), Err(Fault::LineTooLong { max: 2 }));
        assert_eq!(
            first_line(b"ab", 100),
            Err(Fault::LineWithoutEnd { len: 2 })
        );
        assert_eq!(first_line(b"", 100), Err(Fault::LineWithoutEnd { len: 0 }));
    }
}
