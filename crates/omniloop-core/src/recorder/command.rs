//! Flight-recording any command: its output, its input, its signals and its end.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use durable::digest::Sha256;
use durable::{FileKind, Fs};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Map, Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Sent};

use super::group::CommandGroup;
use super::lines::{Line, LineCutter, input_payload, log_payload, stdout_record};
use super::payload::Payload;
use super::queue::{Closed, Recorder, RecorderOptions};
use super::schema::SchemaDeriver;
use crate::journal::{Error, FrameKind, Result};

/// Names of environment variables that are recorded when they are set. Everything else may hold
/// secrets and is left out unless asked for.
const ENVIRONMENT_ALLOWED: &[&str] = &[
    "CONDA_DEFAULT_ENV",
    "CUDA_VISIBLE_DEVICES",
    "LANG",
    "LC_ALL",
    "LOCAL_RANK",
    "OMP_NUM_THREADS",
    "PYTHONHASHSEED",
    "RANK",
    "ROS_DISTRO",
    "ROS_DOMAIN_ID",
    "SLURM_JOB_ID",
    "SLURM_PROCID",
    "TRACEPARENT",
    "TZ",
    "VIRTUAL_ENV",
    "WORLD_SIZE",
];

/// How long output is still read after the command has ended, for children of its own that hold on
/// to it.
const OUTPUT_GRACE: Duration = Duration::from_secs(2);
const READ_LEN: usize = 64 * 1024;

/// How a command is recorded.
#[derive(Debug)]
pub struct CommandOptions {
    /// The program and its arguments; at least one element.
    pub argv: Vec<OsString>,
    /// Further environment variables to record, by name.
    pub env: Vec<String>,
    /// Environment variables that the command gets besides this process's own. They are recorded.
    pub environment: Vec<(OsString, OsString)>,
    /// Takes this process's standard input line by line, records it, and passes it on.
    pub record_stdin: bool,
    /// Is told every telemetry object as well.
    pub listener: Option<TelemetryListener>,
    /// Runs the command in a process group of its own, without an input, for the caller to end; or, if it
    /// is [attended](CommandGroup::attended), to halt and to address. Without, the command shares this
    /// process's group, and this process's signals are recorded and passed on.
    pub group: Option<Arc<CommandGroup>>,
    /// Only objects with this member are telemetry.
    pub tick_on: Option<String>,
    /// Further members of the start record: what this run belongs to.
    pub context: Map<String, Value>,
    /// The journal and the queue before it.
    pub recorder: RecorderOptions,
}

/// Whoever is told the telemetry of a command while it runs: in the order in which it was printed, by the
/// thread that reads the command's output, which waits for it.
#[derive(Clone)]
pub struct TelemetryListener(pub Arc<Tell>);

/// Takes a telemetry object.
type Tell = dyn Fn(&Map<String, Value>) + Send + Sync;

impl std::fmt::Debug for TelemetryListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TelemetryListener")
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// It returned this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

impl ExitStatus {
    /// The code to exit with in its place: its own, or 128 and the signal as shells do.
    pub fn code(self) -> u8 {
        match self {
            Self::Code(code) => u8::try_from(code & 0xff).unwrap_or(u8::MAX),
            Self::Signal(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
        }
    }
}

/// What became of a recorded command.
#[derive(Debug)]
pub struct CommandOutcome {
    /// How the command ended.
    pub exit: ExitStatus,
    /// What became of the recording: a full disk must not end the command, and must not be hidden.
    pub recording: Result<Closed>,
}

/// Runs a command and records it to `path`. What it prints goes to `stdout` and `stderr` at once.
///
/// The journal exists before the command starts. While the command runs, a failing recording does not
/// stop it.
///
/// # Errors
/// `Io` when the journal cannot be created or the command cannot be started (the journal then says so).
pub fn record_command(
    path: &Path,
    options: &CommandOptions,
    stdout: Box<dyn Write + Send>,
    stderr: Box<dyn Write + Send>,
) -> Result<CommandOutcome> {
    record_command_with(path, options, stdout, stderr, || {})
}

/// [`record_command`], which calls `created` when the journal exists and before the command starts:
/// whatever is to follow the file can begin with it.
pub fn record_command_with(
    path: &Path,
    options: &CommandOptions,
    stdout: Box<dyn Write + Send>,
    stderr: Box<dyn Write + Send>,
    created: impl FnOnce(),
) -> Result<CommandOutcome> {
    let stdin = options
        .record_stdin
        .then_some(Box::new(io::stdin()) as Box<dyn Read + Send>);
    run(path, options, stdin, stdout, stderr, created)
}

/// [`record_command`] of a command whose standard input is `stdin`. Its lines are recorded like those of
/// [`CommandOptions::record_stdin`].
///
/// # Errors
/// As [`record_command`].
pub fn record_command_fed(
    path: &Path,
    options: &CommandOptions,
    stdin: Box<dyn Read + Send>,
    stdout: Box<dyn Write + Send>,
    stderr: Box<dyn Write + Send>,
) -> Result<CommandOutcome> {
    run(path, options, Some(stdin), stdout, stderr, || {})
}

fn run(
    path: &Path,
    options: &CommandOptions,
    stdin: Option<Box<dyn Read + Send>>,
    stdout: Box<dyn Write + Send>,
    stderr: Box<dyn Write + Send>,
    created: impl FnOnce(),
) -> Result<CommandOutcome> {
    let program = options.argv.first().ok_or(Error::Misuse {
        what: "no command was given",
    })?;
    let takes_lines = options.group.as_ref().is_some_and(|g| g.takes_lines());
    if takes_lines && stdin.is_some() {
        return Err(Error::Misuse {
            what: "a command that takes lines of its own has no standard input to pass on",
        });
    }
    let is_fed = takes_lines || stdin.is_some();
    let fs = Arc::clone(&options.recorder.journal.fs);
    let recorder = Arc::new(Recorder::create(path, options.recorder.clone())?);
    created();
    // Before the command starts, so that no signal falls between.
    let listen =
        || SignalsInfo::<WithOrigin>::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2]);
    let listens = options.group.as_ref().is_none_or(|g| g.is_attended());
    let signals = listens.then(listen).transpose();
    let signals = signals.map_err(|source| Error::Io {
        op: "listen for signals of",
        path: path.to_owned(),
        source,
    })?;
    let mut child = match command(program, options, is_fed).spawn() {
        Ok(child) => child,
        Err(source) => {
            let exit = json!({ "error": source.to_string() });
            let payload = Payload::new("event", "stop").with("exit", exit);
            put(&recorder, FrameKind::Lifecycle, payload.bytes());
            let path = PathBuf::from(program);
            close(recorder)?;
            return Err(Error::Io {
                op: "start",
                path,
                source,
            });
        }
    };
    put(
        &recorder,
        FrameKind::Lifecycle,
        start_payload(options, &child, fs.as_ref()),
    );
    if let Some(group) = &options.group {
        group.start(&mut child, Arc::downgrade(&recorder));
    }
    let schema = Arc::new(Mutex::new(SchemaDeriver::default()));
    let streams = (stdin, stdout, stderr);
    let readers = start_readers(&mut child, &recorder, &schema, options, streams)?;
    let exit = match (signals, &options.group) {
        (Some(signals), group) => attend(child, signals, &recorder, group.as_ref())?,
        (None, Some(group)) => exit_of(group.wait(&mut child))?,
        (None, None) => exit_of(child.wait())?,
    };
    let all_read = wait_for(readers, OUTPUT_GRACE);
    let payload = stop_payload(exit, all_read, &schema);
    put(&recorder, FrameKind::Lifecycle, payload);
    Ok(CommandOutcome {
        exit,
        recording: close(recorder),
    })
}

fn command(program: &OsStr, options: &CommandOptions, is_fed: bool) -> Command {
    let mut command = Command::new(program);
    command
        .args(options.argv.iter().skip(1))
        .envs(options.environment.iter().cloned())
        .stdin(match (is_fed, &options.group) {
            (true, _) => Stdio::piped(),
            // A group in the background that reads from the terminal would be stopped by it.
            (false, Some(_)) => Stdio::null(),
            (false, None) => Stdio::inherit(),
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if options.group.is_some() {
        command.process_group(0);
    }
    command
}

/// Hands over a record. A failing recorder keeps its first error for `close`; the command goes on.
fn put(recorder: &Recorder, kind: FrameKind, payload: Vec<u8>) {
    recorder.record(kind, payload).ok();
}

/// As [`put`], from a reader that may outlive the recording: a child of the command can hold on to its
/// output long after the command has ended.
fn put_if_open(recorder: &Weak<Recorder>, kind: FrameKind, payload: Vec<u8>) {
    if let Some(recorder) = recorder.upgrade() {
        put(&recorder, kind, payload);
    }
}

fn close(recorder: Arc<Recorder>) -> Result<Closed> {
    let mut shared = recorder;
    // A reader that outlived its grace holds a reference while it hands over a line.
    let deadline = Instant::now() + OUTPUT_GRACE;
    loop {
        match Arc::try_unwrap(shared) {
            Ok(recorder) => return recorder.close(),
            Err(_) if Instant::now() > deadline => {
                return Err(Error::Misuse {
                    what: "the recorder is still in use",
                });
            }
            Err(back) => shared = back,
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn start_payload(options: &CommandOptions, child: &Child, fs: &dyn Fs) -> Vec<u8> {
    let lossy = |text: &OsString| text.to_string_lossy().into_owned();
    let argv: Vec<String> = options.argv.iter().map(lossy).collect();
    let names = ENVIRONMENT_ALLOWED
        .iter()
        .copied()
        .chain(options.env.iter().map(String::as_str));
    let inherited =
        names.filter_map(|name| Some((name.to_owned(), lossy(&std::env::var_os(name)?))));
    let given = options.environment.iter();
    let given = given.map(|(name, value)| (lossy(name), lossy(value)));
    let env: BTreeMap<String, String> = inherited.chain(given).collect();
    let host = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    let cwd = std::env::current_dir()
        .map(|dir| dir.display().to_string())
        .ok();
    let payload = Payload::new("event", "start")
        .with("argv", argv)
        .with_some("script", script(&options.argv, fs))
        .with_some("cwd", cwd)
        .with("host", host)
        .with("pid", child.id())
        .with("env", json!(env));
    let context = options.context.iter();
    context
        .fold(payload, |payload, (name, value)| {
            payload.with_named(name, value.clone())
        })
        .bytes()
}

/// The script that an interpreter runs: the first argument that is not an option, when it is a file.
fn script(argv: &[OsString], fs: &dyn Fs) -> Option<Value> {
    let first = argv
        .iter()
        .skip(1)
        .find(|arg| !arg.to_string_lossy().starts_with('-'))?;
    let path = Path::new(first);
    let found = fs.metadata(path).ok()?;
    if found.kind != FileKind::File {
        return None;
    }
    let file = fs.open(path).ok()?;
    let mut hasher = Sha256::default();
    let mut buffer = vec![0; READ_LEN];
    let mut at = 0;
    loop {
        let len = file.read_at(at, &mut buffer).ok()?;
        if len == 0 {
            break;
        }
        hasher.update(buffer.get(..len)?);
        at += len as u64;
    }
    let sha256 = durable::digest::hex(&hasher.finish());
    Some(json!({ "path": path.display().to_string(), "sha256": sha256 }))
}

fn stop_payload(exit: ExitStatus, all_read: bool, schema: &Mutex<SchemaDeriver>) -> Vec<u8> {
    let schema = schema
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .schema();
    let exit = match exit {
        ExitStatus::Code(code) => json!({ "code": code }),
        ExitStatus::Signal(signal) => json!({ "signal": signal, "name": signal_name(signal) }),
    };
    Payload::new("event", "stop")
        .with_some("schema", schema)
        .with("exit", exit)
        .with_some("output_open", (!all_read).then_some(true))
        .bytes()
}

fn signal_name(signal: i32) -> String {
    signal_hook::low_level::signal_name(signal).map_or_else(|| format!("{signal}"), str::to_owned)
}

/// Where standard input comes from, unless it is inherited, and where output goes.
type Streams = (
    Option<Box<dyn Read + Send>>,
    Box<dyn Write + Send>,
    Box<dyn Write + Send>,
);

fn start_readers(
    child: &mut Child,
    recorder: &Arc<Recorder>,
    schema: &Arc<Mutex<SchemaDeriver>>,
    options: &CommandOptions,
    (stdin, stdout, stderr): Streams,
) -> Result<Vec<JoinHandle<()>>> {
    let mut readers = Vec::new();
    if let Some(pipe) = child.stdout.take() {
        let (tick_on, listener) = (options.tick_on.clone(), options.listener.clone());
        let (recorder, schema) = (Arc::downgrade(recorder), Arc::clone(schema));
        let take = move |line: &Line| {
            let (kind, payload, object) = stdout_record(line, tick_on.as_deref());
            if let Some(object) = &object {
                schema
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .learn(object);
            }
            put_if_open(&recorder, kind, payload);
            if let (Some(object), Some(TelemetryListener(tell))) = (&object, &listener) {
                tell(object);
            }
        };
        readers.push(spawn("stdout", move || pass_on(pipe, stdout, take))?);
    }
    if let Some(pipe) = child.stderr.take() {
        let recorder = Arc::downgrade(recorder);
        let take = move |line: &Line| {
            put_if_open(&recorder, FrameKind::Control, log_payload("stderr", line));
        };
        readers.push(spawn("stderr", move || pass_on(pipe, stderr, take))?);
    }
    if let (Some(pipe), Some(stdin)) = (child.stdin.take(), stdin) {
        // Recorded before it is passed on: an input that had an effect is always in the record. The
        // thread is not waited for: it ends with the input, or with the process.
        let recorder = Arc::downgrade(recorder);
        let take = move |line: &Line| {
            put_if_open(&recorder, FrameKind::Input, input_payload("stdin", line));
        };
        spawn("stdin", move || feed(stdin, pipe, take))?;
    }
    Ok(readers)
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(format!("omni-{name}"))
        .spawn(run)
        .map_err(|source| Error::Io {
            op: "start a reader of",
            path: name.into(),
            source,
        })
}

/// Passes bytes on at once and hands the lines to `take`. A terminal that is gone stops neither.
fn pass_on(mut from: impl Read, mut to: Box<dyn Write + Send>, take: impl Fn(&Line)) {
    let mut cutter = LineCutter::default();
    let mut buffer = vec![0; READ_LEN];
    loop {
        let piece = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(len) => buffer.get(..len).unwrap_or_default(),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        to.write_all(piece).and_then(|()| to.flush()).ok();
        cutter.push(piece, &mut |line| take(&line));
    }
    cutter.finish(&mut |line| take(&line));
}

fn feed(mut from: Box<dyn Read + Send>, mut to: impl Write, take: impl Fn(&Line)) {
    let mut cutter = LineCutter::default();
    let mut buffer = vec![0; READ_LEN];
    loop {
        let piece = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(len) => buffer.get(..len).unwrap_or_default(),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        cutter.push(piece, &mut |line| take(&line));
        if to.write_all(piece).and_then(|()| to.flush()).is_err() {
            break;
        }
    }
    cutter.finish(&mut |line| take(&line));
}

/// Waits for the command while recording signals and passing on those that it did not get itself.
fn attend(
    mut child: Child,
    mut signals: SignalsInfo<WithOrigin>,
    recorder: &Arc<Recorder>,
    group: Option<&Arc<CommandGroup>>,
) -> Result<ExitStatus> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let ended = Arc::new(AtomicBool::new(false));
    let handle = signals.handle();
    let listener = {
        let (recorder, ended) = (Arc::clone(recorder), Arc::clone(&ended));
        let group = group.cloned();
        spawn("signals", move || {
            for origin in signals.forever() {
                let sender = origin.process.map(|process| process.pid);
                // A key press reaches the whole foreground group, and a command in a group of its own is
                // not in that; a sent signal reaches us alone.
                let is_ours_alone = group.is_some()
                    || matches!(
                        origin.cause,
                        Cause::Sent(Sent::User | Sent::TKill | Sent::Queue)
                    );
                let pass_on = is_ours_alone && !ended.load(Ordering::Acquire);
                let payload = Payload::new("command", "signal")
                    .with("signal", signal_name(origin.signal))
                    .with_some("sender_pid", sender)
                    .with("passed_on", pass_on);
                put(&recorder, FrameKind::Control, payload.bytes());
                let signal = Signal::from_named_raw(origin.signal).filter(|_| pass_on);
                match (signal, &group, pid) {
                    (Some(signal), Some(group), _) => group.pass_on(signal),
                    (Some(signal), None, Some(pid)) => {
                        kill_process(pid, signal).ok();
                    }
                    _ => {}
                }
            }
        })?
    };
    let status = match group {
        Some(group) => group.wait(&mut child),
        None => child.wait(),
    };
    ended.store(true, Ordering::Release);
    handle.close();
    listener.join().ok();
    exit_of(status)
}

fn exit_of(status: io::Result<std::process::ExitStatus>) -> Result<ExitStatus> {
    let status = status.map_err(|source| Error::Io {
        op: "wait for",
        path: "the command".into(),
        source,
    })?;
    Ok(match (status.code(), status.signal()) {
        (Some(code), _) => ExitStatus::Code(code),
        (None, signal) => ExitStatus::Signal(signal.unwrap_or_default()),
    })
}

/// True when every reader came to the end of its stream in time.
fn wait_for(readers: Vec<JoinHandle<()>>, grace: Duration) -> bool {
    let deadline = Instant::now() + grace;
    let mut all = true;
    for reader in readers {
        while !reader.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        if reader.is_finished() {
            reader.join().ok();
        } else {
            all = false;
        }
    }
    all
}
