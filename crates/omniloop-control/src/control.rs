//! The state of an attended loop: what is asked of it, and what became of that.
//!
//! Whoever runs the loop takes its turns: [`Control::turn`] carries out what was asked since the last one,
//! records it, and says how the loop stands. Nothing is carried out anywhere else, so that a record stands
//! at the tick at which it took effect. Whoever asks waits for the answer, the loop for nobody.
//!
//! Order of locks: `turning`, then `state`. `state` is never held while recording.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use omniloop_core::journal::{FrameKind, Result};
use omniloop_core::recorder::{Payload, Recorder};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::param::Param;
use crate::protocol::{Command, Peer, Refusal, RefusalKind, Request, VERSION};
use crate::watch::{Condition, WatchPolicy};

/// Watches that came over the socket.
const WATCHES_MAX: usize = 64;
/// Trips that wait for the next turn. A loop that takes none meanwhile trips no more.
const TRIPS_MAX: usize = 64;

/// What the loss of the last controller means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HaltPolicy {
    /// The loop goes on, also when it was halted.
    Continue,
    /// The loop halts, and waits for another controller.
    #[default]
    Halt,
    /// The loop ends.
    Exit,
}

/// How a loop stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It goes on.
    Going,
    /// It waits, for this reason.
    Halted(String),
    /// It is to end, for this reason.
    Leaving(String),
}

/// A change of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The parameter.
    pub name: String,
    /// What it is from now on, within its limits.
    pub value: Value,
    /// The tick of the change.
    pub tick: u64,
    /// The value of the input record, as a replay hands it to the loop again.
    pub input: Value,
}

/// What a turn asks of whoever runs the loop.
#[derive(Debug)]
pub enum Order<'o> {
    /// Change a parameter. What it answers instead of a change goes to whoever asked.
    Set(&'o Change),
    /// Stand so from now on. Cannot be refused.
    Stand(&'o Standing),
}

/// What a turn came to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Turn {
    /// How the loop stands.
    pub standing: Standing,
    /// For [`Control::wait`].
    pub seen: u64,
}

/// Somebody's request that waits for a turn.
#[derive(Debug)]
enum Asked {
    Request(Request, Peer, SyncSender<Value>),
    /// A controller's connection ended without a `leave`.
    Lost(Peer),
}

#[derive(Debug)]
struct Watch {
    condition: Condition,
    policy: WatchPolicy,
    correlation_id: String,
    principal: String,
}

/// A trip that was seen and is not recorded yet.
#[derive(Debug)]
struct Trip {
    payload: Payload,
    halts: Option<String>,
}

#[derive(Debug)]
struct State {
    tick: u64,
    standing: Standing,
    /// Ticks that a halted loop may go on for.
    steps: u64,
    /// What the loop was last told.
    told: Standing,
    has_ended: bool,
    params: BTreeMap<String, Param>,
    watches: Vec<Watch>,
    trips: Vec<Trip>,
    controllers: u64,
    asked: VecDeque<Asked>,
    /// Counts what a waiting loop has to look at.
    news: u64,
}

impl State {
    /// How the loop stands, steps included.
    fn effective(&self) -> Standing {
        match &self.standing {
            Standing::Halted(_) if self.steps > 0 => Standing::Going,
            standing => standing.clone(),
        }
    }
}

/// A loop that can be attended.
#[derive(Debug)]
pub struct Control {
    run: PathBuf,
    policy: HaltPolicy,
    turning: Mutex<()>,
    state: Mutex<State>,
    changed: Condvar,
}

impl Control {
    /// The control of a loop that is recorded at `run`.
    pub fn new(run: impl Into<PathBuf>, policy: HaltPolicy) -> Self {
        Self {
            run: run.into(),
            policy,
            turning: Mutex::default(),
            state: Mutex::new(State {
                tick: 0,
                standing: Standing::Going,
                steps: 0,
                told: Standing::Going,
                has_ended: false,
                params: BTreeMap::new(),
                watches: Vec::new(),
                trips: Vec::new(),
                controllers: 0,
                asked: VecDeque::new(),
                news: 0,
            }),
            changed: Condvar::new(),
        }
    }

    /// Declares a parameter, or what became of it: the loop's own changes, which it records itself.
    pub fn declare(&self, name: &str, param: Param) {
        self.lock().params.insert(name.to_owned(), param);
    }

    /// Whether any watch wants to see the telemetry.
    pub fn has_watches(&self) -> bool {
        !self.lock().watches.is_empty()
    }

    /// A tick has been recorded, with this telemetry. The next turn carries out what follows.
    pub fn count_tick(&self, tick: u64, telemetry: Option<&Value>) {
        let mut state = self.lock();
        state.tick = tick;
        if let Some(telemetry) = telemetry {
            let trips = state
                .watches
                .iter()
                .filter_map(|w| trip(w, telemetry, tick));
            let trips: Vec<Trip> = trips.collect();
            for trip in trips {
                if state.trips.len() < TRIPS_MAX {
                    state.trips.push(trip);
                }
            }
        }
        if state.steps > 0 {
            state.steps -= 1;
        }
        if state.effective() != state.told || !state.trips.is_empty() {
            self.notify(&mut state);
        }
    }

    /// Halts the loop on its own behalf.
    pub fn halt(&self, recorder: &Recorder, reason: &str) -> Result<()> {
        let payload = Payload::new("command", "halt").with("reason", reason);
        self.stand(recorder, &payload, Standing::Halted(reason.to_owned()))
    }

    /// Lets the loop go on, on its own behalf; false when it was not halted.
    pub fn resume(&self, recorder: &Recorder, reason: &str) -> Result<bool> {
        if !matches!(self.lock().standing, Standing::Halted(_)) {
            return Ok(false);
        }
        let payload = Payload::new("command", "resume").with("reason", reason);
        self.stand(recorder, &payload, Standing::Going)?;
        Ok(true)
    }

    /// Why the loop is halted; `None` while it goes on, steps included.
    pub fn halted(&self) -> Option<String> {
        match self.lock().effective() {
            Standing::Halted(reason) => Some(reason),
            _ => None,
        }
    }

    /// Asks something of the loop. The answer comes with the loop's next turn, that to `status` at once.
    pub fn ask(&self, request: Request, peer: Peer) -> Receiver<Value> {
        let (reply, answer) = sync_channel(1);
        let mut state = self.lock();
        let at_once = match request.command {
            Command::Status {} => Some(self.status(&state)),
            _ if state.has_ended => Some(ended().answer()),
            _ => None,
        };
        if let Some(at_once) = at_once {
            // There is room for one answer, and this is it.
            reply.send(at_once).unwrap_or_default();
        } else {
            state.asked.push_back(Asked::Request(request, peer, reply));
            self.notify(&mut state);
        }
        answer
    }

    /// A controller is gone without having said so.
    pub fn lose(&self, peer: Peer) {
        let mut state = self.lock();
        if !state.has_ended {
            state.asked.push_back(Asked::Lost(peer));
            self.notify(&mut state);
        }
    }

    /// Carries out and records what was asked since the last turn.
    ///
    /// `carry_out` is called after the records of what was asked, and before whoever asked has the answer.
    ///
    /// # Errors
    /// Those of the recorder. What was asked is then refused.
    pub fn turn(
        &self,
        recorder: &Recorder,
        carry_out: &mut dyn FnMut(Order<'_>) -> std::result::Result<(), String>,
    ) -> Result<Turn> {
        let _turning = self.turning.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let mut state = self.lock();
            let trips = std::mem::take(&mut state.trips);
            let asked = if trips.is_empty() {
                state.asked.pop_front()
            } else {
                None
            };
            if trips.is_empty() && asked.is_none() {
                let (standing, seen) = (state.effective(), state.news);
                let is_new = state.told != standing;
                state.told = standing.clone();
                drop(state);
                if is_new {
                    carry_out(Order::Stand(&standing)).ok();
                }
                return Ok(Turn { standing, seen });
            }
            drop(state);
            for trip in trips {
                self.take_trip(recorder, trip)?;
            }
            match asked {
                Some(Asked::Request(request, peer, reply)) => {
                    let done = self.carry_out(recorder, &request, peer, carry_out);
                    let (answer, failed) = match done {
                        Ok(Ok(answer)) => (answer, None),
                        Ok(Err(refusal)) => (refusal.answer(), None),
                        Err(error) => {
                            let what = error.to_string();
                            let refusal = Refusal::new(RefusalKind::RecordingFailed, what);
                            (refusal.answer(), Some(error))
                        }
                    };
                    // Before the answer: whoever reads "halted" finds it so.
                    self.tell(carry_out);
                    // Whoever asked may be gone.
                    reply.send(answer).ok();
                    if let Some(error) = failed {
                        return Err(error);
                    }
                }
                Some(Asked::Lost(peer)) => self.take_loss(recorder, peer)?,
                None => {}
            }
        }
    }

    /// Waits until there is something to look at since the turn with this `seen`, or for so long.
    pub fn wait(&self, seen: u64, at_most: Duration) {
        let state = self.lock();
        // A poisoned lock is taken as it is, here as everywhere.
        drop(
            self.changed
                .wait_timeout_while(state, at_most, |state| state.news == seen)
                .unwrap_or_else(PoisonError::into_inner),
        );
    }

    /// The run has ended: whatever is asked from now on, or waits, is refused.
    pub fn end(&self) {
        let mut state = self.lock();
        state.has_ended = true;
        for asked in std::mem::take(&mut state.asked) {
            if let Asked::Request(_, _, reply) = asked {
                reply.send(ended().answer()).ok();
            }
        }
        self.notify(&mut state);
    }

    /// True once [`end`](Self::end) was called.
    pub fn has_ended(&self) -> bool {
        self.lock().has_ended
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(&self, state: &mut State) {
        state.news = state.news.wrapping_add(1);
        self.changed.notify_all();
    }

    fn tell(&self, carry_out: &mut dyn FnMut(Order<'_>) -> std::result::Result<(), String>) {
        let mut state = self.lock();
        let standing = state.effective();
        if state.told == standing {
            return;
        }
        state.told = standing.clone();
        drop(state);
        carry_out(Order::Stand(&standing)).ok();
    }

    fn stand(&self, recorder: &Recorder, payload: &Payload, standing: Standing) -> Result<()> {
        put(recorder, FrameKind::Control, payload)?;
        let mut state = self.lock();
        state.standing = standing;
        state.steps = 0;
        self.notify(&mut state);
        Ok(())
    }

    fn take_trip(&self, recorder: &Recorder, trip: Trip) -> Result<()> {
        put(recorder, FrameKind::Control, &trip.payload)?;
        match trip.halts {
            Some(reason) => self.halt(recorder, &reason),
            None => Ok(()),
        }
    }

    fn take_loss(&self, recorder: &Recorder, peer: Peer) -> Result<()> {
        const REASON: &str = "its controller was lost";
        let (left, is_halted) = {
            let mut state = self.lock();
            state.controllers = state.controllers.saturating_sub(1);
            let is_halted = matches!(state.standing, Standing::Halted(_));
            (state.controllers, is_halted)
        };
        let payload = Payload::new("command", "controller_lost")
            .with("controllers", left)
            .with("policy", json!(self.policy))
            .with("principal", peer.principal())
            .with("pid", peer.pid);
        put(recorder, FrameKind::Control, &payload)?;
        match self.policy {
            _ if left > 0 => Ok(()),
            HaltPolicy::Continue => self.resume(recorder, REASON).map(drop),
            HaltPolicy::Halt if is_halted => Ok(()),
            HaltPolicy::Halt => self.halt(recorder, REASON),
            HaltPolicy::Exit => {
                let payload = Payload::new("command", "exit").with("reason", REASON);
                self.stand(recorder, &payload, Standing::Leaving(REASON.to_owned()))
            }
        }
    }

    /// The answer to a request, or why it is refused; both are in the record then.
    fn carry_out(
        &self,
        recorder: &Recorder,
        request: &Request,
        peer: Peer,
        carry_out: &mut dyn FnMut(Order<'_>) -> std::result::Result<(), String>,
    ) -> Result<std::result::Result<Value, Refusal>> {
        let tick = self.lock().tick;
        let by = By {
            recorder,
            correlation_id: &request.correlation_id,
            principal: peer.principal(),
            pid: peer.pid,
        };
        let done = match &request.command {
            Command::Set { name, value } => self.set(&by, name, value, carry_out)?,
            command => self.order(&by, command)?,
        };
        if let Err(refusal) = &done {
            let payload = Payload::new("command", "refused")
                .with("request", json!(request.command))
                .with("error", json!(refusal.kind));
            by.put(FrameKind::Control, payload)?;
        }
        let mut state = self.lock();
        if matches!(request.command, Command::Attend {}) && done.is_ok() {
            state.controllers += 1;
        }
        if matches!(request.command, Command::Leave {}) && done.is_ok() {
            state.controllers = state.controllers.saturating_sub(1);
        }
        Ok(done.map(|facts| {
            let mut answer = json!({
                "ok": true, "command": request.command.name(), "tick": tick,
                "state": state_name(&state), "correlation_id": request.correlation_id,
            });
            if let (Value::Object(answer), Value::Object(facts)) = (&mut answer, facts) {
                answer.extend(facts);
            }
            answer
        }))
    }

    /// Everything but changes of parameters: an input, and the control record of the same.
    fn order(&self, by: &By<'_>, command: &Command) -> Result<std::result::Result<Value, Refusal>> {
        if let Err(refusal) = may(&self.lock(), command) {
            return Ok(Err(refusal));
        }
        by.input(&json!(command))?;
        let mut payload = Payload::new("command", command.name());
        let Value::Object(members) = json!(command) else {
            return Ok(Ok(json!({})));
        };
        for (name, value) in members {
            payload = payload.with_named(&name, value);
        }
        by.put(FrameKind::Control, payload)?;
        let mut state = self.lock();
        match command {
            Command::Halt { reason } => {
                let reason = match reason.as_str() {
                    "" => format!("{} asked for it", by.principal),
                    reason => reason.to_owned(),
                };
                (state.standing, state.steps) = (Standing::Halted(reason), 0);
            }
            Command::Resume { .. } => (state.standing, state.steps) = (Standing::Going, 0),
            Command::Step { count } => {
                state.steps = *count;
                let until = state.tick.saturating_add(*count);
                return Ok(Ok(json!({ "until_tick": until })));
            }
            Command::Watch {
                name,
                op,
                than,
                policy,
            } => state.watches.push(Watch {
                condition: Condition {
                    name: name.clone(),
                    op: *op,
                    than: than.clone(),
                },
                policy: *policy,
                correlation_id: by.correlation_id.to_owned(),
                principal: by.principal.clone(),
            }),
            Command::Unwatch { name } => {
                let before = state.watches.len();
                state.watches.retain(|watch| watch.condition.name != *name);
                let taken_back = before.saturating_sub(state.watches.len());
                return Ok(Ok(json!({ "taken_back": taken_back })));
            }
            Command::Attend {} => return Ok(Ok(json!({ "halt_policy": self.policy }))),
            Command::Status {} | Command::Set { .. } | Command::Leave {} => {}
        }
        Ok(Ok(json!({})))
    }

    /// An input with what is applied, the limit that was met, and the change.
    fn set(
        &self,
        by: &By<'_>,
        name: &str,
        requested: &Value,
        carry_out: &mut dyn FnMut(Order<'_>) -> std::result::Result<(), String>,
    ) -> Result<std::result::Result<Value, Refusal>> {
        let (param, tick) = {
            let state = self.lock();
            let Some(param) = state.params.get(name) else {
                let names: Vec<&str> = state.params.keys().map(String::as_str).take(20).collect();
                let what = match names.as_slice() {
                    [] => "no parameter can be set: none was declared".to_owned(),
                    names => format!("no parameter {name:?}; there are {}", names.join(", ")),
                };
                return Ok(Err(Refusal::new(RefusalKind::UnknownName, what)));
            };
            (param.clone(), state.tick)
        };
        let applied = match param.apply(requested) {
            Ok(applied) => applied,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let is_limited = applied.as_f64() != requested.as_f64();
        let mut input = json!({ "command": "set", "name": name, "value": applied });
        if let (true, Value::Object(members)) = (is_limited, &mut input) {
            members.insert("requested".to_owned(), requested.clone());
        }
        by.input(&input)?;
        if is_limited {
            let payload = Payload::new("name", name)
                .with("requested", requested.clone())
                .with("applied", applied.clone())
                .with("min", json!(param.min))
                .with("max", json!(param.max))
                .with("cause", "out of bounds");
            by.put(FrameKind::Guardrail, payload)?;
        }
        let mutation = |old: &Value, new: &Value, source: &str| {
            Payload::new("name", name)
                .with("old", old.clone())
                .with("new", new.clone())
                .with("source", source)
        };
        // Before it has an effect, which may be in the journal at once.
        by.put(
            FrameKind::Mutation,
            mutation(&param.value, &applied, "control"),
        )?;
        let change = Change {
            name: name.to_owned(),
            value: applied.clone(),
            tick,
            input,
        };
        if let Err(why) = carry_out(Order::Set(&change)) {
            let back = mutation(&applied, &param.value, "undeliverable");
            by.put(FrameKind::Mutation, back)?;
            return Ok(Err(Refusal::new(RefusalKind::Undeliverable, why)));
        }
        if let Some(param) = self.lock().params.get_mut(name) {
            param.value = applied.clone();
        }
        Ok(Ok(json!({
            "name": name, "old": param.value, "applied": applied, "requested": requested,
            "limited": is_limited,
        })))
    }

    fn status(&self, state: &State) -> Value {
        let watches = state.watches.iter();
        let watches: Vec<Value> = watches
            .map(|watch| {
                let Condition { name, op, than } = &watch.condition;
                json!({ "name": name, "op": op, "than": than, "policy": watch.policy })
            })
            .collect();
        let reason = match &state.standing {
            Standing::Going => None,
            Standing::Halted(reason) | Standing::Leaving(reason) => Some(reason),
        };
        json!({
            "ok": true, "command": "status", "protocol": VERSION, "run": self.run,
            "state": state_name(state), "reason": reason, "tick": state.tick, "steps": state.steps,
            "params": state.params, "watches": watches, "controllers": state.controllers,
            "halt_policy": self.policy,
        })
    }
}

/// Who asked, and what ties the records of it together.
struct By<'a> {
    recorder: &'a Recorder,
    correlation_id: &'a str,
    principal: String,
    pid: i32,
}

impl By<'_> {
    fn input(&self, value: &Value) -> Result<()> {
        let payload = Payload::new("channel", "control").with("value", value.clone());
        let payload = payload
            .with("correlation_id", self.correlation_id)
            .with("principal", self.principal.as_str())
            .with("pid", self.pid);
        put(self.recorder, FrameKind::Input, &payload)
    }

    fn put(&self, kind: FrameKind, payload: Payload) -> Result<()> {
        let payload = payload
            .with("correlation_id", self.correlation_id)
            .with("principal", self.principal.as_str());
        put(self.recorder, kind, &payload)
    }
}

fn put(recorder: &Recorder, kind: FrameKind, payload: &Payload) -> Result<()> {
    recorder.record(kind, payload.bytes()).map(drop)
}

fn ended() -> Refusal {
    Refusal::new(RefusalKind::Ended, "the run has ended")
}

fn state_name(state: &State) -> &'static str {
    match &state.standing {
        _ if state.has_ended => "ended",
        Standing::Going => "going",
        Standing::Halted(_) if state.steps > 0 => "stepping",
        Standing::Halted(_) => "halted",
        Standing::Leaving(_) => "leaving",
    }
}

/// Whether a command makes sense as things stand.
fn may(state: &State, command: &Command) -> std::result::Result<(), Refusal> {
    let is_halted = matches!(state.standing, Standing::Halted(_));
    let (kind, what) = match command {
        _ if matches!(state.standing, Standing::Leaving(_)) => return Err(ended()),
        Command::Resume { .. } | Command::Step { .. } if !is_halted => {
            (RefusalKind::NotHalted, "the loop is not halted".to_owned())
        }
        Command::Watch { .. } if state.watches.len() >= WATCHES_MAX => {
            let what = format!("there are {WATCHES_MAX} watches already");
            (RefusalKind::TooMany, what)
        }
        Command::Unwatch { name } if !state.watches.iter().any(|w| w.condition.name == *name) => {
            (RefusalKind::UnknownName, format!("no watch of {name:?}"))
        }
        _ => return Ok(()),
    };
    Err(Refusal::new(kind, what))
}

fn trip(watch: &Watch, telemetry: &Value, tick: u64) -> Option<Trip> {
    let Condition { name, op, than } = &watch.condition;
    let value = watch.condition.holds(telemetry)?;
    let payload = Payload::new("command", "watch_trip")
        .with("name", name.as_str())
        .with("value", value.clone())
        .with("policy", json!(watch.policy))
        .with("op", json!(op))
        .with("than", than.clone())
        .with("at_tick", tick)
        .with("correlation_id", watch.correlation_id.as_str())
        .with("principal", watch.principal.as_str());
    let halts = (watch.policy == WatchPolicy::Halt).then(|| format!("watch of {name} tripped"));
    Some(Trip { payload, halts })
}
