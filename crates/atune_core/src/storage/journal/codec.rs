//! The lines of a journal, to and from bytes. No files.

use durable::checksum::fnv1a_64;

use super::error::Fault;
use super::record::{
    EXTENT_MAGIC, ExtentHeader, ExtentPointer, Head, Header, METADATA_LEN_MAX, OpLine,
};

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

/// Reads an operation line.
pub(super) fn decode_op(line: &[u8]) -> Result<OpLine, Fault> {
    // The member `record` is the first of every writer's lines: reading it so saves a pass.
    const PREFIX: &[u8] = br#"{"record":"op","#;
    if let Some(rest) = line.strip_prefix(PREFIX) {
        let mut object = Vec::with_capacity(rest.len() + 1);
        object.push(b'{');
        object.extend_from_slice(rest);
        return serde_json::from_slice(&object).map_err(|e| Fault::BadRecord(e.to_string()));
    }
    match serde_json::from_slice(line) {
        Ok(Line::Op(op)) => Ok(op),
        Ok(Line::Header(_)) => Err(Fault::BadRecord("a header among the operations".to_owned())),
        Err(error) => Err(Fault::BadRecord(error.to_string())),
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
    let line = first_line(bytes, METADATA_LEN_MAX)?;
    let header: ExtentHeader =
        serde_json::from_slice(line).map_err(|e| Fault::BadRecord(e.to_string()))?;
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
    Ok((header, line.len() + 1))
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
    use super::*;

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
