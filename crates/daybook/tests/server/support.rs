//! Starting the built server, and speaking HTTP to it byte by byte.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// How long anything may take that must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);

/// Asks until there is an answer.
#[track_caller]
pub(crate) fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = ask() {
            return found;
        }
        assert!(Instant::now() < end, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// How a server is started.
pub(crate) struct Setup {
    dir: Arc<tempfile::TempDir>,
    args: Vec<OsString>,
    variables: Vec<(String, String)>,
}

impl Setup {
    pub(crate) fn new() -> Self {
        Self {
            dir: Arc::new(tempfile::tempdir().unwrap()),
            args: Vec::new(),
            variables: Vec::new(),
        }
    }

    pub(crate) fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn tokens(self, list: &str) -> Self {
        self.variable("TRAZA_TOKENS", list)
    }

    /// A place beside the folder of the store.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_traza-server"));
        command
            .current_dir(self.dir.path())
            .env_remove("TRAZA_TOKENS")
            .env_remove("TRAZA_TOKEN")
            .env_remove("TRAZA_UI_DIR")
            .env_remove("TRAZA_TEST_PANIC")
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// What a command of this program does that ends by itself.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        let output = self.command().args(args).output().unwrap();
        Ran {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Starts the server on a free port and waits until it listens.
    pub(crate) fn start(self) -> Server {
        let mut child = self
            .command()
            .args(["--port", "0", "--data-dir", "data"])
            .args(&self.args)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let kept = Arc::clone(&log);
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut first = None;
        while first.is_none() {
            let Some(Ok(line)) = lines.next() else {
                panic!("the server ends: {}", kept.lock().unwrap());
            };
            first = line
                .strip_prefix("traza-server listening on ")
                .map(|address| address.parse().unwrap());
            let mut kept = kept.lock().unwrap();
            kept.push_str(&line);
            kept.push('\n');
        }
        let reader = std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let mut kept = kept.lock().unwrap();
                kept.push_str(&line);
                kept.push('\n');
            }
        });
        Server {
            setup: self,
            child,
            address: first.unwrap(),
            log,
            reader: Some(reader),
        }
    }
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A server at work; it is killed when it is dropped.
pub(crate) struct Server {
    pub(crate) setup: Setup,
    child: Child,
    pub(crate) address: SocketAddr,
    log: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Server {
    pub(crate) fn start() -> Self {
        Setup::new().start()
    }

    pub(crate) fn with<const N: usize>(args: [&str; N]) -> Self {
        Setup::new().args(args).start()
    }

    /// The folder of the store.
    pub(crate) fn data(&self) -> PathBuf {
        self.setup.path("data")
    }

    /// What it has written to its standard error so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Sends SIGKILL and waits for the end.
    pub(crate) fn crash(mut self) -> Setup {
        self.signal(Signal::KILL);
        self.child.wait().unwrap();
        self.into_setup()
    }

    /// Sends a signal and waits for the end; answers how it ended and what it has written.
    pub(crate) fn stop(mut self, signal: Signal) -> (ExitStatus, String, Setup) {
        self.signal(signal);
        let status = self.child.wait().unwrap();
        self.reader.take().unwrap().join().unwrap();
        let log = self.log();
        (status, log, self.into_setup())
    }

    fn into_setup(mut self) -> Setup {
        std::mem::replace(
            &mut self.setup,
            Setup {
                dir: Arc::new(tempfile::tempdir().unwrap()),
                args: Vec::new(),
                variables: Vec::new(),
            },
        )
    }

    /// Kills it and starts it again on the same folder.
    pub(crate) fn crash_and_restart(self) -> Self {
        self.crash().start()
    }

    /// The most memory that it had so far, in bytes.
    pub(crate) fn peak_memory(&self) -> u64 {
        let status = proc_file(self.child.id(), "status");
        let line = status.lines().find(|line| line.starts_with("VmHWM:"));
        let kib = line.unwrap().split_whitespace().nth(1).unwrap();
        kib.parse::<u64>().unwrap() << 10
    }

    pub(crate) fn connect(&self) -> Connection<TcpStream> {
        Connection::to(self.address)
    }

    /// One request on a connection of its own.
    pub(crate) fn ask(&self, method: &str, target: &str, fields: &str, body: &[u8]) -> Answer {
        let mut connection = self.connect();
        let length = if body.is_empty() && method == "GET" {
            String::new()
        } else {
            format!("Content-Length: {}\r\n", body.len())
        };
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: test\r\n{fields}{length}Connection: close\r\n\r\n"
        );
        connection.send([head.as_bytes(), body].concat());
        connection.answer()
    }

    pub(crate) fn get(&self, target: &str) -> Answer {
        self.ask("GET", target, "", b"")
    }

    /// What a question is answered that must be answered.
    #[track_caller]
    pub(crate) fn json(&self, target: &str) -> Value {
        self.get(target).expect(200).json()
    }

    pub(crate) fn post(&self, target: &str, body: impl AsRef<[u8]>) -> Answer {
        self.ask("POST", target, "", body.as_ref())
    }

    #[track_caller]
    pub(crate) fn post_json(&self, target: &str, body: &Value) -> Value {
        self.post(target, body.to_string()).expect(200).json()
    }

    /// Takes spans in.
    #[track_caller]
    pub(crate) fn ingest(&self, spans: &Value) -> Value {
        self.post_json("/v1/spans", spans)
    }

    /// The spans of an answer.
    #[track_caller]
    pub(crate) fn spans(&self, target: &str) -> Vec<Value> {
        self.json(target)["spans"].as_array().unwrap().clone()
    }

    /// Their span ids.
    #[track_caller]
    pub(crate) fn ids(&self, target: &str) -> Vec<String> {
        texts(&self.spans(target), "span_id")
    }

    /// A sample of the page of metrics.
    #[track_caller]
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let page = self.get("/v1/metrics").expect(200).text();
        sample(&page, name).unwrap_or_else(|| panic!("{name} is not on the page"))
    }
}

/// The value of a sample.
pub(crate) fn sample(page: &str, name: &str) -> Option<u64> {
    let mut lines = page.lines().filter_map(|line| line.split_once(' '));
    lines
        .find(|(found, _)| *found == name)
        .map(|(_, value)| value.parse().unwrap())
}

/// A member of each.
pub(crate) fn texts(items: &[Value], member: &str) -> Vec<String> {
    let text = |item: &Value| item[member].as_str().unwrap().to_owned();
    items.iter().map(text).collect()
}

pub(crate) fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

/// A file of the system about a process. Such files have no length, so they are read to their end.
fn proc_file(process: u32, name: &str) -> String {
    use rustix::fs::{Mode, OFlags, open};
    let path = format!("/proc/{process}/{name}");
    let file = open(path, OFlags::RDONLY, Mode::empty()).unwrap();
    let mut bytes = vec![0; 64 << 10];
    let mut len = 0;
    loop {
        let read = rustix::io::read(&file, &mut bytes[len..]).unwrap();
        if read == 0 {
            return String::from_utf8_lossy(&bytes[..len]).into_owned();
        }
        len += read;
    }
}

/// Changes a file in its place, as a failing disk or a careless hand does.
pub(crate) fn damage(path: &Path, change: impl FnOnce(&rustix::fd::OwnedFd)) {
    use rustix::fs::{Mode, OFlags, open};
    change(&open(path, OFlags::RDWR, Mode::empty()).unwrap());
}

/// The segments of a store or a backup.
pub(crate) fn segments(folder: &Path) -> Vec<PathBuf> {
    let mut found = files_below(folder);
    found.retain(|path| path.extension().is_some_and(|extension| extension == "seg"));
    assert!(!found.is_empty());
    found
}

/// All files below a folder, by their names relative to it.
pub(crate) fn files_below(folder: &Path) -> Vec<PathBuf> {
    use durable::{FileKind, Fs as _, RealFs};
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for path in RealFs.read_dir(&next).unwrap() {
            match RealFs.metadata(&path).unwrap().kind {
                FileKind::Directory => folders.push(path),
                _ => found.push(path),
            }
        }
    }
    found.sort();
    found
}

/// A connection, with what has come and was not read yet.
pub(crate) struct Connection<S> {
    pub(crate) stream: S,
    came: Vec<u8>,
}

impl Connection<TcpStream> {
    pub(crate) fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self::over(stream)
    }

    /// True when nothing has come within so long.
    pub(crate) fn is_silent(&mut self, within: Duration) -> bool {
        if !self.came.is_empty() {
            return false;
        }
        self.stream.set_read_timeout(Some(within)).unwrap();
        let peeked = self.stream.peek(&mut [0]);
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        peeked.is_err()
    }
}

impl<S: Read + Write> Connection<S> {
    pub(crate) fn over(stream: S) -> Self {
        Self {
            stream,
            came: Vec::new(),
        }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
        self.stream.flush().unwrap();
    }

    /// False at the end of the stream; a connection that is broken off has ended too.
    fn fill(&mut self) -> bool {
        let mut bytes = [0; 16 << 10];
        match self.stream.read(&mut bytes) {
            Ok(0) => false,
            Ok(len) => {
                self.came.extend_from_slice(&bytes[..len]);
                true
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                panic!("nothing came in {PATIENCE:?}")
            }
            Err(_) => false,
        }
    }

    /// What has come, or else what comes next; nothing at the end.
    pub(crate) fn read_more(&mut self, into: &mut [u8]) -> usize {
        if self.came.is_empty() {
            return self.stream.read(into).unwrap_or(0);
        }
        let len = self.came.len().min(into.len());
        let taken: Vec<u8> = self.came.drain(..len).collect();
        into[..len].copy_from_slice(&taken);
        len
    }

    fn take(&mut self, len: usize) -> Vec<u8> {
        while self.came.len() < len {
            assert!(self.fill(), "the connection ends in an answer");
        }
        self.came.drain(..len).collect()
    }

    fn take_line(&mut self) -> String {
        loop {
            if let Some(at) = self.came.windows(2).position(|two| two == b"\r\n") {
                let line = self.take(at);
                self.take(2);
                return String::from_utf8(line).unwrap();
            }
            assert!(self.fill(), "the connection ends in a line");
        }
    }

    /// The head of the next answer, or nothing when the connection has ended before it.
    pub(crate) fn head(&mut self) -> Option<Answer> {
        while self.came.is_empty() {
            if !self.fill() {
                return None;
            }
        }
        let line = self.take_line();
        let (version, rest) = line.split_once(' ').unwrap();
        assert_eq!(version, "HTTP/1.1", "{line}");
        let (status, phrase) = rest.split_once(' ').unwrap();
        let mut answer = Answer {
            status: status.parse().unwrap(),
            phrase: phrase.to_owned(),
            fields: Vec::new(),
            body: Vec::new(),
            chunks: Vec::new(),
            trailers: Vec::new(),
        };
        answer.fields = self.take_fields();
        Some(answer)
    }

    fn take_fields(&mut self) -> Vec<(String, String)> {
        let mut fields = Vec::new();
        loop {
            let line = self.take_line();
            if line.is_empty() {
                return fields;
            }
            let (name, value) = line.split_once(": ").unwrap();
            fields.push((name.to_owned(), value.to_owned()));
        }
    }

    /// The next chunk of a body that comes in chunks; nothing behind the last one.
    pub(crate) fn chunk(&mut self) -> Option<Vec<u8>> {
        let line = self.take_line();
        assert_eq!(line, line.to_uppercase(), "sizes are in upper case");
        let len = usize::from_str_radix(&line, 16).unwrap();
        if len == 0 {
            return None;
        }
        let chunk = self.take(len);
        assert_eq!(self.take(2), b"\r\n", "a chunk ends with an empty line");
        Some(chunk)
    }

    /// The next answer as a whole.
    #[track_caller]
    pub(crate) fn answer(&mut self) -> Answer {
        self.try_answer().expect("an answer")
    }

    /// The next answer, or nothing when the connection has ended before it.
    pub(crate) fn try_answer(&mut self) -> Option<Answer> {
        let mut answer = self.head()?;
        if answer.field("transfer-encoding") == Some("chunked") {
            assert_eq!(answer.field("content-length"), None);
            while let Some(chunk) = self.chunk() {
                answer.body.extend_from_slice(&chunk);
                answer.chunks.push(chunk);
            }
            answer.trailers = self.take_fields();
        } else {
            let len = answer.field("content-length").unwrap().parse().unwrap();
            answer.body = self.take(len);
        }
        Some(answer)
    }

    /// True when nothing more comes and the connection is over.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.came.is_empty() && !self.fill()
    }
}

/// An answer, as it came.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) phrase: String,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) chunks: Vec<Vec<u8>>,
    pub(crate) trailers: Vec<(String, String)>,
}

impl Answer {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        let found = fields.find(|(found, _)| found.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn trailer(&self, name: &str) -> &str {
        let mut fields = self.trailers.iter();
        &fields.find(|(found, _)| found == name).unwrap().1
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("JSON: {:?}", self.text()))
    }

    /// The member `error` of the body.
    #[track_caller]
    pub(crate) fn error(&self) -> String {
        self.json()["error"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        let body = String::from_utf8_lossy(&self.body);
        let begin: String = body.chars().take(400).collect();
        assert_eq!(self.status, status, "{} {begin}", self.phrase);
        self
    }

    /// Expects a status and words in the text of the error.
    #[track_caller]
    pub(crate) fn refused(self, status: u16, words: &str) -> Self {
        let answer = self.expect(status);
        let error = answer.error();
        assert!(error.contains(words), "{words:?} is not in {error:?}");
        answer
    }
}
