//! Running the commands and looking at what they leave behind.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use durable::{Access, Fs as _, ManualClock, RealFs, publish, read_all};
use omniloop_core::journal::{FrameKind, JournalOptions, RotationPolicy, StateJournal};
use serde_json::Value;

/// What a process did.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|e| panic!("one JSON document: {e}\n{}\n{}", self.out, self.err))
    }

    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        use std::os::unix::process::ExitStatusExt as _;
        let status = output.status;
        Self {
            code: status.code().unwrap_or_else(|| -status.signal().unwrap()),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// A folder that the commands run in.
pub(crate) struct Scratch {
    dir: tempfile::TempDir,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn command<A: AsRef<OsStr>>(&self, args: &[A]) -> Command {
        self.command_of(env!("CARGO_BIN_EXE_daybook"), args)
    }

    fn command_of<A: AsRef<OsStr>>(&self, program: &str, args: &[A]) -> Command {
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(self.dir.path())
            .env_remove("NO_COLOR")
            .env_remove("CLICOLOR_FORCE")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn daybook<A: AsRef<OsStr>>(&self, args: &[A]) -> Ran {
        self.command(args).output().unwrap().into()
    }

    pub(crate) fn omniloop<A: AsRef<OsStr>>(&self, args: &[A]) -> Ran {
        let program = env!("CARGO_BIN_EXE_omniloop");
        self.command_of(program, args).output().unwrap().into()
    }

    /// Records a shell script.
    pub(crate) fn record(&self, options: &[&str], script: &str) -> Ran {
        let mut args = vec!["record", "-o", "run.omni"];
        args.extend(options);
        args.extend(["--", "sh", "-c", script]);
        self.daybook(&args)
    }

    /// Writes a run with this telemetry, rotated after so many records if asked.
    pub(crate) fn run(&self, ticks: u64, records_per_segment: Option<u64>) -> StateJournal {
        self.run_of("run.omni", ticks, records_per_segment, "x")
    }

    pub(crate) fn run_of(
        &self,
        name: &str,
        ticks: u64,
        records_per_segment: Option<u64>,
        variable: &str,
    ) -> StateJournal {
        let rotation = records_per_segment.map(|n| RotationPolicy {
            max_records: Some(n),
            ..RotationPolicy::default()
        });
        let options = JournalOptions {
            clock: Arc::new(ManualClock::new(1_700_000_000_000_000_000, 1_000_000)),
            rotation,
            ..JournalOptions::default()
        };
        let mut journal = StateJournal::create_with(self.path(name), options).unwrap();
        for i in 0..ticks {
            let payload = format!("{{\"{variable}\":{i}}}");
            journal
                .append(FrameKind::Telemetry, payload.as_bytes())
                .unwrap();
        }
        journal
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        read_all(&RealFs, &self.path(name), 64 << 20).unwrap()
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        publish(&RealFs, &self.path(name), bytes).unwrap();
    }

    pub(crate) fn change(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.read(name);
        change(&mut bytes);
        self.write(name, &bytes);
    }

    pub(crate) fn remove(&self, name: &str) {
        RealFs.remove_file(&self.path(name)).unwrap();
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        RealFs.exists(&self.path(name)).unwrap()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let entries = RealFs.read_dir(self.dir.path()).unwrap();
        let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        entries.iter().map(name).collect()
    }

    /// Makes `k.pem` and `k.pub.pem`.
    pub(crate) fn key(&self) {
        self.daybook(&["key", "new", "-o", "k.pem"]).expect(0);
    }

    /// Every record, as the export gives it.
    pub(crate) fn records(&self, name: &str) -> Vec<Value> {
        let ran = self.daybook(&["export", name, "--to", "jsonl"]).expect(0);
        lines(&ran.out)
    }
}

pub(crate) fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

pub(crate) fn payloads<'a>(records: &'a [Value], kind: &str) -> Vec<&'a Value> {
    let of_kind = records.iter().filter(|record| record["kind"] == kind);
    of_kind.map(|record| &record["payload"]).collect()
}

/// Waits for something that another process does.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A file that nobody but its owner may read has these permissions.
pub(crate) fn mode(path: &Path) -> u32 {
    rustix::fs::stat(path).unwrap().st_mode & 0o777
}

pub(crate) fn create(path: &Path) {
    RealFs.create_new(path, Access::Shared).unwrap();
}
