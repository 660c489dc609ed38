//! `daybook demo` tells the truth.
//!
//! Promise: what it claims holds, and nothing of it goes on when it has ended. Oracle: for every claim that it prints a
//! check of its own here, on the files that are left, with the libraries rather than the commands; a claim without one
//! fails.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;

use atune_core::replica::Trial;
use atune_core::storage::journal::{JournalReader, verify_study};
use atune_core::trial::TrialState;
use durable::{FileKind, Fs as _, Outcome, RealFs, read_all};
use omniloop_core::analysis::{DivergenceOptions, cause_of, find_divergence};
use omniloop_core::journal::{ChainBreak, ChainVerification, Error, verify_chain};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use traza::logs::tombstone::Subject;
use traza::store::{Store, StoreOptions};

use crate::support::{Ran, Scratch, payloads};

const SENTENCE: &str = "  ✓ ";

/// A demo that has ended, in the folder `d`.
struct Told {
    scratch: Scratch,
    out: String,
    study: JournalReader,
    best: u64,
    worst: u64,
}

impl Told {
    fn of(scratch: Scratch, ran: Ran) -> Self {
        let study = JournalReader::open(scratch.path("d/study.atj")).unwrap();
        let complete = |trial: &&Trial| trial.state == TrialState::Complete;
        let loss = |trial: &&Trial| trial.values.as_ref().unwrap().iter().next().unwrap().0;
        let by_loss = |a: &&Trial, b: &&Trial| loss(a).total_cmp(&loss(b));
        let trials = || trials(&study).filter(complete);
        let (best, worst) = (trials().min_by(by_loss), trials().max_by(by_loss));
        let (best, worst) = (best.unwrap().number, worst.unwrap().number);
        Self {
            scratch,
            out: ran.out,
            study,
            best,
            worst,
        }
    }

    fn trial(&self, number: u64) -> &Trial {
        trials(&self.study)
            .find(|trial| trial.number == number)
            .unwrap()
    }

    fn attribute(&self, number: u64, name: &str) -> String {
        let mut all = self.trial(number).user_attrs();
        let (_, value) = all.find(|(key, _)| *key == name).unwrap();
        value.as_str().unwrap().to_owned()
    }

    /// The file of a trial's run, below the folder of the test.
    fn run(&self, number: u64) -> String {
        format!("d/{}", self.attribute(number, "run.path"))
    }

    fn chain(&self, name: &str) -> ChainVerification {
        verify_chain(self.scratch.path(name)).unwrap()
    }

    fn telemetry(&self, name: &str) -> Vec<Value> {
        let records = self.scratch.records(name);
        payloads(&records, "telemetry")
            .into_iter()
            .cloned()
            .collect()
    }

    fn store(&self) -> Store {
        Store::open_read_only(&self.scratch.path("d/traces"), StoreOptions::default()).unwrap()
    }

    /// How many bytes of a copy are others.
    fn changed_bytes(&self, copy: &str) -> usize {
        let (run, copy) = (
            self.scratch.read(&self.run(self.best)),
            self.scratch.read(copy),
        );
        assert_eq!(run.len(), copy.len());
        run.iter().zip(&copy).filter(|(a, b)| a != b).count()
    }

    /// The address that the tuners were given.
    fn address(&self) -> &str {
        let (_, rest) = self
            .out
            .split_once("OTEL_EXPORTER_OTLP_ENDPOINT=http://")
            .unwrap();
        rest.split_whitespace().next().unwrap()
    }

    /// The numbers that a claim names, in their order.
    fn numbers(claim: &str) -> Vec<u64> {
        let words = claim.split(|c: char| !c.is_ascii_digit() && c != '.');
        words.filter_map(|word| word.parse().ok()).collect()
    }

    /// Whether a claim holds, by what is in the files; `None` for one that nobody here knows.
    fn holds(&self, claim: &str) -> Option<bool> {
        self.holds_of_the_study(claim)
            .or_else(|| self.holds_of_the_run(claim))
            .or_else(|| self.holds_of_copies(claim))
            .or_else(|| self.holds_of_traces(claim))
    }

    fn holds_of_the_study(&self, claim: &str) -> Option<bool> {
        let named = Self::numbers(claim);
        Some(match claim {
            "the server answers" => !self.store().erasures().is_empty(),
            "the study is intact" => {
                let path = self.scratch.path("d/study.atj");
                verify_study(Arc::new(RealFs), &path).unwrap().verdict == Outcome::Intact
            }
            "it has its 32 trials, each of which has ended" => {
                let first = trials(&self.study).filter(|trial| trial.retry_of().is_none());
                first.count() == 32 && trials(&self.study).all(|trial| trial.state.is_terminal())
            }
            _ if claim.contains("died with its worker") => {
                let (killed, again) = (self.trial(named[0]), self.trial(named[1]));
                let values = |trial: &Trial| {
                    let params = trial.params.iter();
                    params
                        .map(|p| (p.key.name.clone(), p.value.clone()))
                        .collect::<Vec<_>>()
                };
                killed.state == TrialState::Failed
                    && killed.error().unwrap().contains("no sign of life")
                    && again.retry_of() == Some(killed.id)
                    && values(killed) == values(again)
            }
            "no other trial was lost" => {
                let failed = |trial: &&Trial| trial.state == TrialState::Failed;
                trials(&self.study).filter(failed).count() == 1
            }
            _ if claim.ends_with("is cut off: unproven, not damaged") => {
                let is_open = match verify_chain(self.scratch.path(&self.run(named[0]))) {
                    // It was killed before anything of it was written.
                    Err(Error::Incomplete { .. }) => true,
                    other => {
                        let chain = other.unwrap();
                        !chain.finalized
                            && matches!(
                                chain.break_at,
                                None | Some(ChainBreak::ChainedButNoCheckpoints)
                            )
                    }
                };
                is_open && self.trial(named[0]).state == TrialState::Failed
            }
            _ if claim.contains("is the best of them") => {
                claim.starts_with(&format!("trial {} is", self.best))
                    && claim.contains(&format!("trial {}, with", self.worst))
            }
            _ => return None,
        })
    }

    fn holds_of_the_run(&self, claim: &str) -> Option<bool> {
        let named = Self::numbers(claim);
        let best = self.run(self.best);
        Some(match claim {
            _ if claim.starts_with("the run is intact") => {
                let chain = self.chain(&best);
                chain.ok
                    && chain.finalized
                    && chain.head == Some(self.attribute(self.best, "run.head"))
            }
            _ if claim.starts_with("the program halved it after epoch") => {
                let causes = cause_of(self.scratch.path(&best), "lr", None).unwrap();
                let (set, telemetry) = (&causes[0], self.telemetry(&best));
                let at = usize::try_from(named[0]).unwrap();
                let new = set.new.as_ref().unwrap().as_f64().unwrap();
                set.record.place.tick == named[0]
                    && set.record.text("source") == Some("command")
                    && telemetry[at - 1]["lr"].as_f64() == Some(2.0 * new)
                    && telemetry
                        .get(at)
                        .is_none_or(|next| next["lr"] == json!(new))
            }
            _ if claim.starts_with("the runs part at tick") => {
                let paths = [self.run(self.best), self.run(self.worst)];
                let [a, b] = paths.map(|name| self.scratch.path(&name));
                let found = find_divergence(a, b, &DivergenceOptions::default()).unwrap();
                let found = found.unwrap();
                claim.ends_with(&format!("tick {}, in {}", found.tick, found.field))
            }
            _ if claim.starts_with("all ") && claim.contains("spans are of trial") => {
                let trace = self.attribute(self.best, "run.trace_id");
                let spans = self.store().get_trace(&trace, None).unwrap();
                let run = self.attribute(self.best, "run.id");
                spans.len() as u64 == named[0]
                    && named[1] == self.best
                    && spans.iter().all(|span| span.to_json().contains(&run))
            }
            "trial, run and trace are here, and fit together" => {
                // Of a folder the trail proves the bytes too.
                let subject = format!("d/study.atj#{}", self.best);
                let args = ["trail", &subject, "d/runs", "d/traces", "--json"];
                self.scratch.daybook(&args).json()["outcome"] == "intact"
            }
            _ => return None,
        })
    }

    fn holds_of_copies(&self, claim: &str) -> Option<bool> {
        let best = self.run(self.best);
        Some(match claim {
            "flipped.omni is damaged: its checksum does not match" => {
                let found = self.chain("d/flipped.omni").break_at;
                self.changed_bytes("d/flipped.omni") == 1
                    && matches!(found, Some(ChainBreak::CrcMismatch { tick: 20, .. }))
            }
            "forged.omni is damaged: the hash chain does not match" => {
                let found = self.chain("d/forged.omni").break_at;
                (2..=5).contains(&self.changed_bytes("d/forged.omni"))
                    && matches!(found, Some(ChainBreak::DigestMismatch { .. }))
            }
            "one flipped bit costs one record: all others are saved" => {
                let mut whole = self.telemetry(&best);
                whole.remove(19);
                self.chain("d/flipped.recovered.omni").ok
                    && self.telemetry("d/flipped.recovered.omni") == whole
            }
            "it is the same training, tick by tick" => {
                self.telemetry(&best) == self.telemetry("d/signed.omni")
            }
            "the set is intact, and signed by that key" => {
                let by = |key: &str| {
                    let args = ["verify", "d/signed.omni", "--trust", key, "--json"];
                    self.scratch.daybook(&args)
                };
                self.scratch.key();
                by("d/operator.pub.pem").code == 0 && by("k.pub.pem").code != 0
            }
            "the attestation knows that the end of cut.omni is missing" => {
                let args = ["verify", "d/cut.omni", "--trust", "d/operator.pub.pem"];
                let with = self.scratch.daybook(&args).code;
                // Without it, the files alone do not tell.
                for suffix in [".leaves", ".checkpoint"] {
                    self.scratch.remove(&format!("d/cut.omni{suffix}"));
                }
                with == 1 && self.chain("d/cut.omni").ok
            }
            _ => return None,
        })
    }

    fn holds_of_traces(&self, claim: &str) -> Option<bool> {
        Some(match claim {
            "before, its trail leads to a trace"
            | "it is erased: the receipt found nothing of it anywhere" => {
                let trace_id = self.attribute(self.worst, "run.trace_id");
                let erasures = self.store().erasures();
                let traces = self.scratch.path("d/traces");
                let names = files_with(&traces, trace_id.as_bytes());
                let tenant = String::new();
                erasures.len() == 1
                    && erasures[0].settle.is_some()
                    && erasures[0].scope.subject == Subject::Trace { trace_id, tenant }
                    // The record of the erasure itself is all that knows the name.
                    && names == BTreeSet::from(["tombstones.jsonl".to_owned()])
            }
            _ if claim.starts_with("trial and run are here as before") => {
                let trace = self.attribute(self.worst, "run.trace_id");
                let chain = self.chain(&self.run(self.worst));
                chain.ok
                    && chain.head == Some(self.attribute(self.worst, "run.head"))
                    && self.store().get_trace(&trace, None).unwrap().is_empty()
            }
            "the server ended cleanly" => TcpStream::connect(self.address()).is_err(),
            "the store of traces is intact" => {
                let traces = self.scratch.path("d/traces");
                traza::store::verify(&RealFs, &traces).unwrap().verdict == Outcome::Intact
            }
            _ => return None,
        })
    }
}

fn trials(study: &JournalReader) -> impl Iterator<Item = &Trial> {
    let only = study.replica().studies()[0].id;
    study.replica().trials_of(only).unwrap()
}

/// The names of files below a folder that hold these bytes.
fn files_with(folder: &Path, bytes: &[u8]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for path in RealFs.read_dir(folder).unwrap() {
        if RealFs.metadata(&path).unwrap().kind == FileKind::Directory {
            found.append(&mut files_with(&path, bytes));
        } else {
            let held = read_all(&RealFs, &path, 64 << 20).unwrap();
            if memchr::memmem::find(&held, bytes).is_some() {
                found.insert(path.file_name().unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found
}

#[test]
fn the_story_with_a_killed_worker_ends_well_and_every_claim_of_it_holds() {
    let scratch = Scratch::new();
    let ran = scratch.daybook(&["demo", "--once", "d"]).expect(0);
    let told = Told::of(scratch, ran);
    let claims: Vec<&str> = told
        .out
        .lines()
        .filter_map(|line| line.strip_prefix(SENTENCE))
        .collect();
    assert_eq!(claims.len(), 23, "{}", told.out);
    for claim in claims {
        let holds = told.holds(claim);
        assert_eq!(holds, Some(true), "{claim}\n{}", told.out);
    }
    // What the tuners prepared side by side is gone.
    let names = RealFs.read_dir(&told.scratch.path("d")).unwrap();
    let is_left = |path: &std::path::PathBuf| path.extension().is_some_and(|end| end == "tmp");
    assert!(!names.iter().any(is_left), "{names:?}");
}

/// A demo that goes on.
struct Going {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
    seen: String,
}

impl Going {
    fn start(scratch: &Scratch) -> Self {
        let mut command = scratch.command(&["demo", "d"]);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let seen = String::new();
        Self { child, lines, seen }
    }

    /// Reads on to a line with this text.
    fn wait_for(&mut self, text: &str) {
        loop {
            let start = self.seen.len();
            assert_ne!(
                self.lines.read_line(&mut self.seen).unwrap(),
                0,
                "{}",
                self.seen
            );
            if self.seen[start..].contains(text) {
                return;
            }
        }
    }

    fn address(&self) -> String {
        let (_, rest) = self.seen.split_once("http://").unwrap();
        rest.split_whitespace().next().unwrap().to_owned()
    }

    /// Sends a signal to the demo alone, and waits until it and all that it had started have ended.
    fn end(mut self, signal: Signal) -> (Option<i32>, String) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        // The end comes when nobody has the pipe any more: the workers and their commands too.
        self.lines.read_to_string(&mut self.seen).unwrap();
        (self.child.wait().unwrap().code(), self.seen)
    }
}

#[test]
fn a_demo_that_is_interrupted_before_its_worker_is_killed_leaves_nothing_running() {
    let scratch = Scratch::new();
    let mut going = Going::start(&scratch);
    going.wait_for("loss");
    going.wait_for("worker ");
    let address = going.address();
    drop(TcpStream::connect(&address).unwrap());
    let (code, seen) = going.end(Signal::INT);
    assert_eq!(code, Some(130), "{seen}");
    assert!(!seen.contains("Ctrl-C ends"), "{seen}");
    assert!(TcpStream::connect(&address).is_err());
    traza::store::verify(&RealFs, &scratch.path("d/traces")).unwrap();
    // And another one may come.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let ran = scratch.daybook(&["demo", "--once", "--port", &port, "d"]);
    assert_eq!(ran.code, 2, "{ran:#?}");
    assert!(!scratch.has("d/study.atj"));
}

#[test]
fn a_demo_whose_worker_was_killed_leaves_its_server_up_until_it_is_asked_to_end() {
    let scratch = Scratch::new();
    let mut going = Going::start(&scratch);
    going.wait_for("Ctrl-C ends");
    let address = going.address();
    let mut page = TcpStream::connect(&address).unwrap();
    page.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    page.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let other = scratch.daybook(&["demo", "--once", "d"]).expect(2);
    assert!(other.err.contains("still up"), "{}", other.err);
    let (code, seen) = going.end(Signal::TERM);
    assert_eq!(code, Some(0), "{seen}");
    assert!(TcpStream::connect(&address).is_err());
}

#[test]
fn a_folder_that_is_no_demo_is_left_alone() {
    let scratch = Scratch::new();
    scratch.write("notes.txt", b"mine");
    let ran = scratch.daybook(&["demo", "--once", "."]).expect(2);
    assert!(ran.err.contains("no earlier demo"), "{}", ran.err);
    assert_eq!(scratch.names(), ["notes.txt"]);
}
