//! Cases: files, or changes of those of another case, and what a reader must say of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use durable::digest::hex;
use durable::{Fs as _, RealFs, publish, read_all};
use serde_json::{Value, json};

/// Files by their names, `/` between folder and file.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// A change of one file of another case.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// These bytes stand there instead.
    Put(usize, Vec<u8>),
    /// It ends there.
    Cut(usize),
    /// These bytes follow it.
    Append(Vec<u8>),
}

/// A case, and the files that it comes to.
pub(crate) struct Case {
    name: &'static str,
    of: Option<(&'static str, String, Vec<Change>)>,
    pub(crate) files: Files,
    pub(crate) expect: Value,
}

impl Case {
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    fn document(&self) -> Value {
        let Some((of, file, changes)) = &self.of else {
            let files: BTreeMap<&String, String> = self
                .files
                .iter()
                .map(|(name, bytes)| (name, hex(bytes)))
                .collect();
            return json!({ "name": self.name, "files": files, "expect": self.expect });
        };
        let changes: Vec<Value> = changes
            .iter()
            .map(|change| match change {
                Change::Put(at, bytes) => json!({ "at": at, "put": hex(bytes) }),
                Change::Cut(len) => json!({ "cut": len }),
                Change::Append(bytes) => json!({ "append": hex(bytes) }),
            })
            .collect();
        json!({ "name": self.name, "of": of, "file": file, "changes": changes, "expect": self.expect })
    }

    /// Puts the files into a folder.
    pub(crate) fn place(&self, folder: &Path) {
        for (name, bytes) in &self.files {
            let path = folder.join(name);
            RealFs.create_dir_all(path.parent().unwrap()).unwrap();
            publish(&RealFs, &path, bytes).unwrap();
        }
    }
}

/// All cases of one format.
pub(crate) struct Cases {
    format: &'static str,
    version: u32,
    pub(crate) all: Vec<Case>,
}

impl Cases {
    pub(crate) fn new(format: &'static str, version: u32) -> Self {
        Self {
            format,
            version,
            all: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, name: &'static str, files: Files, expect: Value) {
        self.all.push(Case {
            name,
            of: None,
            files,
            expect,
        });
    }

    /// The bytes of a file of a case.
    pub(crate) fn bytes(&self, of: &str, file: &str) -> Vec<u8> {
        let case = self.all.iter().find(|case| case.name == of).unwrap();
        case.files[file].clone()
    }

    pub(crate) fn change(
        &mut self,
        name: &'static str,
        (of, file): (&'static str, &str),
        changes: Vec<Change>,
        expect: Value,
    ) {
        let case = self.all.iter().find(|case| case.name == of).unwrap();
        let mut files = case.files.clone();
        let bytes = files.get_mut(file).unwrap();
        let before = bytes.clone();
        for change in &changes {
            match change {
                Change::Put(at, put) => bytes[*at..*at + put.len()].copy_from_slice(put),
                Change::Cut(len) => bytes.truncate(*len),
                Change::Append(more) => bytes.extend(more),
            }
        }
        assert_ne!(*bytes, before, "{name} changes nothing");
        self.all.push(Case {
            name,
            of: Some((of, file.to_owned(), changes)),
            files,
            expect,
        });
    }

    /// Compares with the committed file, or writes it when that is asked for.
    pub(crate) fn check(&self) {
        let lines: Vec<String> = self
            .all
            .iter()
            .map(|case| case.document().to_string())
            .collect();
        let (format, version) = (self.format, self.version);
        let text = format!(
            "{{\"format\":\"{format}\",\"version\":{version},\"cases\":[\n{}\n]}}\n",
            lines.join(",\n")
        );
        let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../docs/formats/vectors")
            .join(format!("{format}.json"));
        if std::env::var_os("DAYBOOK_BLESS").is_some() {
            publish(&RealFs, &path, text.as_bytes()).unwrap();
            return;
        }
        let committed = read_all(&RealFs, &path, 64 << 20).unwrap();
        let is_same = committed == text.as_bytes();
        assert!(
            is_same,
            "{} is not what the code writes today",
            path.display()
        );
    }
}

/// One bit of a byte.
pub(crate) fn flip(bytes: &[u8], at: usize) -> Change {
    Change::Put(at, vec![bytes[at] ^ 1])
}
