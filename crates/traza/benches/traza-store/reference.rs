//! The reference's released server, asked over HTTP: it has no other door. What a call takes there includes the way
//! through the loopback interface, which the first row of the answers shows.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use traza::span::Span;

use crate::latency::{Latency, float, quantile};
use crate::memory;
use crate::spans::{Profile, RARE_WORDS, Random, Spans, rare_word};
use crate::write::{BATCH, SEED};
use crate::{Corpus, Result};

/// Its name, when it is looked for.
const NAME: &str = "traza-server";
/// How long it may take to start.
const START_MAX: Duration = Duration::from_secs(30);
/// How long it has to be still before it counts as settled.
const STILL: Duration = Duration::from_secs(3);

/// The binary that was named, or the one on the path.
pub(crate) fn find(named: Option<&Path>) -> Option<PathBuf> {
    if let Some(path) = named {
        return Some(path.to_owned());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(NAME))
        .find(|file| file.is_file())
}

/// Fills it at `wal` and asks it what [`ask`](crate::ask) asks.
pub(crate) fn measure(binary: &Path, corpus: Corpus, scratch: &Path, quick: bool) -> Result<Value> {
    let mut rows = Vec::new();
    let mut asked = Vec::new();
    for threads in [4, 1] {
        let dir = scratch.join(format!("reference-{threads}"));
        let server = Server::start(binary, &dir)?;
        let row = fill(&server, corpus, threads)?;
        rows.push(row);
        if threads == 1 {
            server.settle(&dir)?;
            asked = ask(&server, corpus, quick)?;
        }
    }
    Ok(json!({ "ingest": rows, "calls": asked }))
}

/// A running server, which is killed in the end.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(binary: &Path, dir: &Path) -> Result<Self> {
        // Free until the server takes it.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let child = Command::new(binary)
            .arg("--data-dir")
            .arg(dir)
            .args(["--durability", "wal", "--port", &address.port().to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let server = Self { child, address };
        let started = Instant::now();
        loop {
            match Connection::open(address).and_then(|mut one| one.get("/v1/stats")) {
                Ok(_) => return Ok(server),
                Err(error) if started.elapsed() > START_MAX => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    fn connect(&self) -> Result<Connection> {
        Connection::open(self.address)
    }

    /// Seals everything, and waits until its merges are over.
    fn settle(&self, dir: &Path) -> Result<()> {
        let mut connection = self.connect()?;
        connection.request("POST", "/v1/flush", None)?;
        let mut before = 0;
        let mut still = Instant::now();
        while still.elapsed() < STILL {
            let len = crate::folder::len_of(dir)?;
            if len != before {
                (before, still) = (len, Instant::now());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    fn resident(&self) -> Result<(u64, u64)> {
        memory::resident_of(&self.child.id().to_string())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// One connection, kept open.
struct Connection {
    stream: BufReader<TcpStream>,
    host: String,
}

impl Connection {
    fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
            host: address.to_string(),
        })
    }

    fn get(&mut self, target: &str) -> Result<Vec<u8>> {
        self.request("GET", target, None)
    }

    /// The body of the answer.
    fn request(&mut self, method: &str, target: &str, body: Option<&str>) -> Result<Vec<u8>> {
        let body = body.unwrap_or_default();
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.host,
            body.len()
        );
        let stream = self.stream.get_mut();
        stream.write_all(&[head.as_bytes(), body.as_bytes()].concat())?;
        let status = self.line()?;
        let mut len = 0;
        let mut is_chunked = false;
        loop {
            let line = self.line()?.to_ascii_lowercase();
            match line.split_once(": ") {
                Some(("content-length", value)) => len = value.parse()?,
                Some(("transfer-encoding", value)) => is_chunked = value == "chunked",
                Some(_) => {}
                None => break,
            }
        }
        let mut answer = vec![0; len];
        if is_chunked {
            loop {
                let len = usize::from_str_radix(&self.line()?, 16)?;
                let start = answer.len();
                answer.resize(start + len, 0);
                self.stream
                    .read_exact(answer.get_mut(start..).unwrap_or_default())?;
                self.line()?;
                if len == 0 {
                    break;
                }
            }
        } else {
            self.stream.read_exact(&mut answer)?;
        }
        if status
            .split(' ')
            .nth(1)
            .is_none_or(|code| !code.starts_with('2'))
        {
            let answer = String::from_utf8_lossy(&answer).into_owned();
            return Err(format!("{method} {target}: {status}: {answer}").into());
        }
        Ok(answer)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        if line.is_empty() {
            return Err("the server closed the connection".into());
        }
        Ok(line.trim_end().to_owned())
    }
}

fn fill(server: &Server, corpus: Corpus, threads: usize) -> Result<Value> {
    let source = Mutex::new(Spans::new(corpus.profile, SEED).take(corpus.spans));
    let send = || -> Result<(Vec<f64>, Duration, u64), String> {
        let mut connection = server.connect().map_err(|error| error.to_string())?;
        let (mut micros, mut own, mut sent) = (Vec::new(), Duration::ZERO, 0);
        loop {
            let batch: Vec<Span> = match source.lock() {
                Ok(mut source) => source.by_ref().take(BATCH).collect(),
                Err(_) => return Err("another thread failed".to_owned()),
            };
            if batch.is_empty() {
                return Ok((micros, own, sent));
            }
            let spans: Vec<String> = batch.iter().map(Span::to_json).collect();
            let body = format!("[{}]", spans.join(","));
            sent += body.len() as u64;
            let started = Instant::now();
            let answer = connection.request("POST", "/v1/spans", Some(&body));
            let elapsed = started.elapsed();
            answer.map_err(|error| error.to_string())?;
            own += elapsed;
            micros.push(elapsed.as_secs_f64() * 1e6);
        }
    };
    let done = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(send)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err("a panic".to_owned())))
            .collect::<Result<Vec<_>, String>>()
    })?;
    let seconds = done.iter().map(|(_, own, _)| own.as_secs_f64());
    let seconds = seconds.fold(0.0, f64::max);
    let sent: u64 = done.iter().map(|(_, _, sent)| sent).sum();
    let micros: Vec<f64> = done.into_iter().flat_map(|(micros, _, _)| micros).collect();
    let [p50, p99, max] = [(1, 2), (99, 100), (1, 1)].map(|(part, of)| quantile(&micros, part, of));
    let (_, peak) = server.resident()?;
    Ok(json!({
        "durability": "wal",
        "threads": threads,
        "spans_per_s": float(corpus.spans as u64) / seconds,
        "mb_per_s": float(sent) / seconds / 1e6,
        "call_p50_ms": p50 / 1e3,
        "call_p99_ms": p99 / 1e3,
        "call_max_ms": max / 1e3,
        "peak_mb": float(peak) / 1e6,
    }))
}

fn ask(server: &Server, corpus: Corpus, quick: bool) -> Result<Vec<Value>> {
    let subjects: Vec<Span> = Spans::new(corpus.profile, SEED)
        .take(corpus.spans)
        .step_by(crate::ask::SUBJECT_EVERY)
        .collect();
    let common = match corpus.profile {
        Profile::Generic => "host.name",
        Profile::Llm => "gen_ai.tool.name",
    };
    let values: Vec<&str> = subjects
        .iter()
        .filter_map(|span| span.attributes.get(common)?.as_str())
        .collect();
    let first = subjects.first().map_or(0, |span| span.start_time_ns);
    let last = subjects.last().map_or(0, |span| span.start_time_ns);
    let window_ns = last.saturating_sub(first) / 100;
    let mut random = Random::from_seed(11);
    let mut connection = server.connect()?;
    let mut latencies = [
        "an empty answer",
        "trace by id",
        "attribute, first 100",
        "selective word, first 100",
        "window of 1 %, first 100",
        "duration statistics",
    ]
    .map(Latency::new);
    let calls = if quick { 10 } else { 100 };
    for call in 0..calls {
        let index = usize::try_from(random.below(subjects.len() as u64))?;
        let wanted = subjects.get(index).ok_or("no spans to ask for")?;
        let value = values.get(call * 7 % values.len().max(1));
        let value = value.ok_or("no values to ask for")?;
        let (since, until) = (wanted.start_time_ns, wanted.start_time_ns + window_ns);
        let word = rare_word(call as u64 % RARE_WORDS);
        let targets = [
            "/v1/traces/none".to_owned(),
            format!("/v1/traces/{}", wanted.trace_id),
            format!("/v1/spans?attr.{common}={value}&limit=100"),
            format!("/v1/spans?content={word}&limit=100"),
            format!("/v1/spans?since={since}&until={until}&limit=100"),
            "/v1/stats/duration".to_owned(),
        ];
        for (latency, target) in latencies.iter_mut().zip(&targets) {
            // Statistics over everything take long there.
            if target.starts_with("/v1/stats") && call >= 10 {
                continue;
            }
            latency.call(|| {
                // That there is no such trace is an answer too.
                let answer = connection.get(target).unwrap_or_default();
                let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
                let spans = answer.get("spans").and_then(Value::as_array);
                Ok(spans.map_or(0, Vec::len) as u64)
            })?;
        }
    }
    let rows = latencies.iter().map(|latency| {
        let [p50, p99, max] = latency.quantiles();
        json!({
            "call": latency.name,
            "calls": latency.micros.len(),
            "p50_us": p50,
            "p99_us": p99,
            "max_us": max,
            "results": float(latency.results) / float(latency.micros.len() as u64),
        })
    });
    Ok(rows.collect())
}
