//! Journals written by hand: an encoder of its own, so that the reader is held to the format page and
//! not to the product's writer, and so that any number can be forged with a right checksum.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use atune_core::replica::Replica;
use atune_core::storage::journal::record::OpLine;
use atune_core::storage::journal::{Fault, JournalError, JournalReader};
use durable::checksum::fnv1a_64;
use durable::{Access, Fs};
use durable_sim::SimFs;

pub(crate) const PATH: &str = "/study.atj";
pub(crate) const A: &str = "data-000000000000000a-0000000a-000000000000000a";
pub(crate) const B: &str = "data-000000000000000b-0000000b-000000000000000b";
pub(crate) const HEADER: &str =
    r#"{"record":"header","format":6,"atune":"0.0.0","created_at_millis":1000000,"created_by":0}"#;

/// Eight operations: one study, one trial that completes and one that waits.
pub(crate) const OPS: [&str; 8] = [
    r#"{"kind":"create-study","study":0,"config":{"name":"small","directions":["Minimize"],"seed":1,"space":null,"resource_unit":"Steps","metric_names":[]}}"#,
    r#"{"kind":"create-trial","study":0,"trial":0,"number":0}"#,
    r#"{"kind":"transition","trial":0,"from":"Waiting","to":"Running"}"#,
    r#"{"kind":"report","trial":0,"step":1,"values":[0.5]}"#,
    r#"{"kind":"set-values","trial":0,"values":["NaN"]}"#,
    r#"{"kind":"transition","trial":0,"from":"Running","to":"Complete"}"#,
    r#"{"kind":"create-trial","study":0,"trial":1,"number":1}"#,
    r#"{"kind":"set-trial-user-attr","trial":1,"key":"note","value":"größer"}"#,
];

pub(crate) fn op_line(seq: u64, op: &str) -> String {
    let at_millis = 1_000_000 + seq;
    format!(
        r#"{{"record":"op","seq":{seq},"worker":0,"at_millis":{at_millis},"op":{op}}}{}"#,
        '\n'
    )
}

/// The lines of operations `first..=last` of [`OPS`].
pub(crate) fn lines(first: u64, last: u64) -> String {
    (first..=last)
        .map(|seq| op_line(seq, OPS[usize::try_from(seq).unwrap() - 1]))
        .collect()
}

/// The state after the first `count` operations of [`OPS`].
pub(crate) fn state_after(count: usize) -> Replica {
    let mut replica = Replica::new();
    for (seq, op) in (1..).zip(&OPS[..count]) {
        let op = serde_json::from_str(op).unwrap();
        let (worker, at_millis) = (atune_core::trial::WorkerId(0), 1_000_000 + seq);
        let line = OpLine {
            seq,
            worker,
            at_millis,
            op,
        };
        replica.apply_line(&line).unwrap();
    }
    replica
}

#[derive(Clone, Debug)]
pub(crate) struct Pointer {
    pub(crate) file: String,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

impl Pointer {
    fn text(pointer: Option<&Self>) -> String {
        pointer.map_or("null".to_owned(), |at| {
            let file = serde_json::Value::from(at.file.as_str());
            format!(
                r#"{{"file":{file},"offset":{},"len":{}}}"#,
                at.offset, at.len
            )
        })
    }
}

/// The metadata line of an extent.
#[derive(Clone, Debug)]
pub(crate) struct Meta {
    pub(crate) magic: String,
    pub(crate) previous: Option<Pointer>,
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) start: u64,
    pub(crate) payload_len: u64,
    pub(crate) checksum: u64,
    /// Spaces before the end of the line.
    pub(crate) padding: usize,
}

impl Meta {
    fn text(&self) -> String {
        format!(
            r#"{{"magic":"{}","previous":{},"first":{},"last":{},"start":{},"payload_len":{},"checksum":{}}}{}{}"#,
            self.magic,
            Pointer::text(self.previous.as_ref()),
            self.first,
            self.last,
            self.start,
            self.payload_len,
            self.checksum,
            " ".repeat(self.padding),
            '\n'
        )
    }
}

/// A journal being written: data files, and what the next head says.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    pub(crate) header: String,
    pub(crate) tip: Option<Pointer>,
    pub(crate) ops: u64,
    pub(crate) bytes: u64,
    pub(crate) data: BTreeMap<String, Vec<u8>>,
}

impl Journal {
    pub(crate) fn new() -> Self {
        let bytes = HEADER.len() as u64 + 1;
        Self {
            header: HEADER.to_owned(),
            tip: None,
            ops: 0,
            bytes,
            data: BTreeMap::new(),
        }
    }

    /// The eight operations in four extents over two data files.
    pub(crate) fn small() -> Self {
        let mut journal = Self::new();
        journal.extent(A, 2, &lines(1, 2));
        journal.extent(B, 3, &lines(3, 3));
        journal.extent(A, 6, &lines(4, 6));
        journal.extent(B, 8, &lines(7, 8));
        journal
    }

    /// Appends an extent that takes the history up to `last`.
    pub(crate) fn extent(&mut self, file: &str, last: u64, payload: &str) {
        self.forged(file, last, payload, |_| {});
    }

    /// As [`extent`](Self::extent), with a metadata line that `forge` may change.
    pub(crate) fn forged(
        &mut self,
        file: &str,
        last: u64,
        payload: &str,
        forge: impl FnOnce(&mut Meta),
    ) {
        let payload_len = payload.len() as u64;
        let mut meta = Meta {
            magic: "atune.extent/6".to_owned(),
            previous: self.tip.take(),
            first: self.ops + 1,
            last,
            start: self.bytes,
            payload_len,
            checksum: fnv1a_64(payload.as_bytes()),
            padding: 0,
        };
        forge(&mut meta);
        let extent = meta.text() + payload;
        let data = self.data.entry(file.to_owned()).or_default();
        let (file, offset, len) = (file.to_owned(), data.len() as u64, extent.len() as u64);
        self.tip = Some(Pointer { file, offset, len });
        data.extend_from_slice(extent.as_bytes());
        self.ops = last;
        self.bytes += payload_len;
    }

    pub(crate) fn head_file(&self) -> Vec<u8> {
        let tip = Pointer::text(self.tip.as_ref());
        let head = format!(
            r#"{{"tip":{tip},"ops":{},"bytes":{}}}"#,
            self.ops, self.bytes
        );
        format!("{}\n{head}\n", self.header).into_bytes()
    }

    pub(crate) fn files(&self) -> Files {
        Files {
            head: self.head_file(),
            data: self.data.clone(),
        }
    }

    pub(crate) fn open(&self) -> Result<JournalReader, JournalError> {
        self.files().open()
    }

    /// The fault for which the journal is refused, with the file and offset that are named.
    pub(crate) fn fault(&self) -> (String, u64, Fault) {
        match self.open() {
            Err(JournalError::Corrupt {
                path,
                offset,
                fault,
                ..
            }) => {
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                (name, offset, fault)
            }
            other => panic!("not corrupt: {other:?}"),
        }
    }
}

/// The bytes of a study's files.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    pub(crate) head: Vec<u8>,
    pub(crate) data: BTreeMap<String, Vec<u8>>,
}

impl Files {
    pub(crate) fn disk(&self) -> SimFs {
        let fs = SimFs::new();
        put(&fs, Path::new(PATH), &self.head);
        let folder = Path::new("/study.atj.d");
        fs.create_dir(folder).unwrap();
        for (name, bytes) in &self.data {
            put(&fs, &folder.join(name), bytes);
        }
        fs
    }

    pub(crate) fn open(&self) -> Result<JournalReader, JournalError> {
        JournalReader::open_on(Arc::new(self.disk()), PATH)
    }
}

pub(crate) fn put(fs: &dyn Fs, path: &Path, bytes: &[u8]) {
    let mut file = fs.create_new(path, Access::Shared).unwrap();
    file.append(bytes).unwrap();
}
