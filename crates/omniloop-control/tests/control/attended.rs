//! A loop that takes its turns when the test says so, and clients of it.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use omniloop_control::{Client, Control, HaltPolicy, Order, Param, Server, Standing};
use omniloop_core::journal::{FrameKind, JournalPlayer};
use omniloop_core::recorder::{Recorded, Recorder, RecorderOptions};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) struct Attended {
    pub(crate) dir: TempDir,
    pub(crate) control: Arc<Control>,
    pub(crate) server: Option<Server>,
    recorder: Option<Recorder>,
    ticks: RefCell<u64>,
    /// What the loop was told to set.
    pub(crate) set: RefCell<Vec<(String, Value)>>,
}

impl Attended {
    pub(crate) fn new(policy: HaltPolicy) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("run.omni");
        let recorder = Recorder::create(&run, RecorderOptions::default()).unwrap();
        let control = Arc::new(Control::new(run, policy));
        let lr = Param {
            value: json!(0.1),
            min: Some(0.0),
            max: Some(1.0),
        };
        control.declare("lr", lr);
        let socket = dir.path().join("run.sock");
        let server = Server::start(&socket, Arc::clone(&control)).unwrap();
        Self {
            dir,
            control,
            server: Some(server),
            recorder: Some(recorder),
            ticks: RefCell::new(0),
            set: RefCell::default(),
        }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("run.sock")
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(&self.socket(), Some(Duration::from_secs(30))).unwrap()
    }

    pub(crate) fn recorder(&self) -> &Recorder {
        self.recorder.as_ref().unwrap()
    }

    /// One tick of the loop and its turn.
    pub(crate) fn tick(&self, loss: impl Into<Value>) -> Standing {
        let telemetry = json!({ "loss": loss.into() });
        let text = telemetry.to_string();
        let recorded = self.recorder().record(FrameKind::Telemetry, text).unwrap();
        assert_eq!(recorded, Recorded::Queued);
        *self.ticks.borrow_mut() += 1;
        self.control
            .count_tick(*self.ticks.borrow(), Some(&telemetry));
        self.turn()
    }

    /// A turn without a tick, as a halted loop takes them.
    pub(crate) fn turn(&self) -> Standing {
        let turn = self.control.turn(self.recorder(), &mut |order| {
            if let Order::Set(change) = order {
                let change = (change.name.clone(), change.value.clone());
                self.set.borrow_mut().push(change);
            }
            Ok(())
        });
        turn.unwrap().standing
    }

    /// Asks, and takes turns until there is an answer.
    pub(crate) fn ask(&self, client: &mut Client, request: &Value) -> Value {
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| client.ask(request));
            while !asked.is_finished() {
                self.turn();
                std::thread::yield_now();
            }
            asked.join().unwrap().unwrap()
        })
    }

    /// Takes turns until it is so.
    #[track_caller]
    pub(crate) fn until(&self, is_so: impl Fn(&Standing) -> bool) {
        let begun = std::time::Instant::now();
        while !is_so(&self.turn()) {
            assert!(begun.elapsed() < Duration::from_secs(30), "it never was so");
            std::thread::yield_now();
        }
    }

    /// Ends the run, and gives kind, tick and payload of every record but the telemetry.
    pub(crate) fn records(mut self) -> Vec<(FrameKind, u64, Value)> {
        self.server.take().unwrap().close();
        self.recorder.take().unwrap().close().unwrap();
        let mut player = JournalPlayer::open(self.dir.path().join("run.omni")).unwrap();
        let mut records = Vec::new();
        while let Some(record) = player.read_next_data_record().unwrap() {
            if record.kind != FrameKind::Telemetry {
                let payload = serde_json::from_slice(&record.payload).unwrap();
                records.push((record.kind, record.tick, payload));
            }
        }
        records
    }
}

/// The kinds, ticks and commands of records, for comparing.
pub(crate) fn outline(records: &[(FrameKind, u64, Value)]) -> Vec<String> {
    let line = |(kind, tick, payload): &(FrameKind, u64, Value)| {
        let command = payload["command"].as_str();
        let command = command.or(payload["value"]["command"].as_str());
        format!("{tick} {kind} {}", command.unwrap_or_default())
    };
    records.iter().map(line).collect()
}
