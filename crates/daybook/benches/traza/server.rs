//! A server in a process of its own, and one connection to it.

use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use durable::{FileKind, Fs as _, RealFs};
use serde_json::Value;
use ureq::Agent;

use crate::corpus::Corpus;
use crate::figure::{Bar, Measured, float};
use crate::machine::{field, read_proc};
use crate::{Encoding, Result, folder};

/// How long it may take to start.
const START_MAX: Duration = Duration::from_secs(30);
/// How long it has to be still before it counts as settled.
const STILL: Duration = Duration::from_secs(3);
/// The longest answer that is read as a whole.
const ANSWER_LEN_MAX: u64 = 64 << 20;

/// A server that can be started.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) path: PathBuf,
}

/// A running server, which is killed in the end.
pub(crate) struct Server {
    child: Child,
    address: SocketAddr,
    dir: PathBuf,
}

impl Server {
    /// Starts it on a folder, at durability `wal`, and waits until it answers.
    pub(crate) fn start(program: &Program, dir: &Path) -> Result<Self> {
        // Free until the server takes it.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let child = Command::new(&program.path)
            .arg("--data-dir")
            .arg(dir)
            .args(["--durability", "wal", "--port", &address.port().to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let server = Self {
            child,
            address,
            dir: dir.to_owned(),
        };
        let started = Instant::now();
        loop {
            match server.connect().get("/v1/stats") {
                Ok(_) => return Ok(server),
                Err(error) if started.elapsed() > START_MAX => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    pub(crate) fn connect(&self) -> Connection {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_idle_connections_per_host(1)
            .timeout_global(Some(Duration::from_mins(2)))
            .build();
        Connection {
            agent: config.into(),
            base: format!("http://{}", self.address),
        }
    }

    /// Seals everything, and waits until its merges are over.
    pub(crate) fn settle(&self) -> Result<()> {
        self.connect().post("/v1/flush", "application/json", b"")?;
        let mut before = 0;
        let mut still = Instant::now();
        while still.elapsed() < STILL {
            // A file may be removed between the listing and the look at it.
            let len = folder::len_of(&self.dir).unwrap_or(0);
            if len != before {
                (before, still) = (len, Instant::now());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// Kills it and removes its folder.
    pub(crate) fn remove(self) -> Result<()> {
        let dir = self.dir.clone();
        drop(self);
        remove(&dir)
    }

    /// Kills it without a warning and starts the program again on the same folder; answers how long that took.
    pub(crate) fn restart(self, program: &Program) -> Result<(Self, Duration)> {
        let dir = self.dir.clone();
        drop(self);
        let started = Instant::now();
        Ok((Self::start(program, &dir)?, started.elapsed()))
    }

    /// The most memory it had so far, in MB.
    pub(crate) fn peak_mb(&self) -> Result<f64> {
        let status = read_proc(&format!("/proc/{}/status", self.child.id()))?;
        let kib =
            field(&status, "VmHWM").and_then(|text| text.trim_end_matches(" kB").parse().ok());
        let kib: usize = kib.ok_or("/proc tells no VmHWM")?;
        Ok(float(kib) * 1024.0 / 1e6)
    }

    /// What it takes of the disk, and the most that it took of the memory.
    pub(crate) fn sizes(&self, corpus: &Corpus) -> Result<Vec<Measured>> {
        let sent: usize = corpus.bodies(Encoding::Json).iter().map(Vec::len).sum();
        let on_disk = usize::try_from(folder::len_of(&self.dir)?)?;
        Ok(vec![
            Measured::new("disk for each byte sent", "", float(on_disk) / float(sent)),
            Measured::new("peak memory of all this", "MB", self.peak_mb()?)
                .with(Bar::AtMost(250.0)),
        ])
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn remove(path: &Path) -> Result<()> {
    for entry in RealFs.read_dir(path)? {
        match RealFs.metadata(&entry)?.kind {
            FileKind::Directory => remove(&entry)?,
            _ => RealFs.remove_file(&entry)?,
        }
    }
    Ok(RealFs.remove_dir(path)?)
}

/// One connection, kept open as long as the server wants to.
pub(crate) struct Connection {
    agent: Agent,
    base: String,
}

impl Connection {
    /// The body of an answer of 200.
    pub(crate) fn get(&self, target: &str) -> Result<Vec<u8>> {
        let (status, body) = self.get_any(target)?;
        if status == 200 {
            return Ok(body);
        }
        let body = String::from_utf8_lossy(&body).into_owned();
        Err(format!("{target}: {status}: {body}").into())
    }

    /// Status and body of any answer.
    pub(crate) fn get_any(&self, target: &str) -> Result<(u16, Vec<u8>)> {
        let mut answer = self.agent.get(format!("{}{target}", self.base)).call()?;
        let status = answer.status().as_u16();
        let body = answer.body_mut().with_config().limit(ANSWER_LEN_MAX);
        Ok((status, body.read_to_vec()?))
    }

    /// The same as JSON.
    pub(crate) fn json(&self, target: &str) -> Result<Value> {
        Ok(serde_json::from_slice(&self.get(target)?)?)
    }

    /// A body to be read bit by bit.
    pub(crate) fn stream(&self, target: &str) -> Result<impl Read + use<>> {
        let answer = self.agent.get(format!("{}{target}", self.base)).call()?;
        Ok(answer.into_body().into_reader())
    }

    /// Sends a body; answers the status and the answer's body.
    pub(crate) fn post(
        &self,
        target: &str,
        content_type: &str,
        body: &[u8],
    ) -> Result<(u16, Vec<u8>)> {
        let request = self.agent.post(format!("{}{target}", self.base));
        let mut answer = request.content_type(content_type).send(body)?;
        let body = answer.body_mut().read_to_vec()?;
        Ok((answer.status().as_u16(), body))
    }

    /// Sends spans, until they are taken: a server that is busy is asked again.
    pub(crate) fn send(&self, encoding: Encoding, body: &[u8]) -> Result<()> {
        let (target, content_type) = match encoding {
            Encoding::Json => ("/v1/spans", "application/json"),
            Encoding::Protobuf => ("/v1/traces", "application/x-protobuf"),
        };
        loop {
            let (status, answer) = self.post(target, content_type, body)?;
            match status {
                200 => return Ok(()),
                503 => std::thread::sleep(Duration::from_millis(20)),
                _ => {
                    let answer = String::from_utf8_lossy(&answer).into_owned();
                    return Err(format!("{target}: {status}: {answer}").into());
                }
            }
        }
    }
}
