//! The inputs of a run once more, for a loop that is run again.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::{Evidence, Held, Place, object, place_of};
use crate::journal::{Error, FrameKind, Result, SegmentedPlayer};

/// How inputs are handed back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayOptions {
    /// Asking for an input that was not recorded at that tick is an error. Otherwise the answer is `None`.
    pub strict: bool,
}

impl Default for ReplayOptions {
    fn default() -> Self {
        Self { strict: true }
    }
}

/// One recorded input.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Input {
    /// Where its record stands.
    #[serde(flatten)]
    pub place: Place,
    /// The channel: `seed:<name>` for seeds of random numbers.
    pub channel: String,
    /// What came in.
    pub value: Value,
    /// The bytes of a line whose text is not exact, in hex: they were no UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_hex: Option<String>,
    /// Whether it is a line's piece, with more of it in the next input of the channel.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub piece: bool,
    /// What it belongs to, if the record says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
}

impl Input {
    /// The input that a record tells of. One that is no JSON object has the channel "" and its text as value.
    fn of(evidence: Evidence) -> Self {
        let channel = evidence.text("channel").unwrap_or_default().to_owned();
        let correlation_id = evidence.text("correlation_id").map(str::to_owned);
        let bytes_hex = evidence.text("bytes_hex").map(str::to_owned);
        let piece = evidence.payload.get("piece") == Some(&Value::Bool(true));
        let Evidence { place, payload, .. } = evidence;
        let value = match payload {
            Value::Object(mut members) => members.remove("value").unwrap_or_default(),
            other => other,
        };
        Self {
            place,
            channel,
            value,
            bytes_hex,
            piece,
            correlation_id,
        }
    }
}

/// Hands the inputs of a run back, in their order for each channel and tick. The run is read as it is asked
/// for; what is held is the inputs of one tick.
///
/// An input has the tick of the telemetry record before it, so what a loop takes in before its first telemetry
/// record has tick 0, and what it takes in between telemetry records 5 and 6 has tick 5.
#[derive(Debug)]
pub struct InputReplayer {
    player: SegmentedPlayer,
    options: ReplayOptions,
    /// The tick that is being replayed.
    tick: u64,
    waiting: BTreeMap<String, VecDeque<Input>>,
    /// The first input of a later tick.
    ahead: Option<Input>,
    is_over: bool,
    unused: u64,
}

impl InputReplayer {
    /// Opens a run.
    ///
    /// # Errors
    /// As [`SegmentedPlayer::open`].
    pub fn open(path: impl AsRef<Path>, options: ReplayOptions) -> Result<Self> {
        Ok(Self::new(SegmentedPlayer::open(path)?, options))
    }

    /// Replays a run that is open already, from where it stands.
    pub fn new(player: SegmentedPlayer, options: ReplayOptions) -> Self {
        Self {
            player,
            options,
            tick: 0,
            waiting: BTreeMap::new(),
            ahead: None,
            is_over: false,
            unused: 0,
        }
    }

    /// The next input of a channel at a tick. Ticks are asked for in their order.
    ///
    /// # Errors
    /// What stops reading. `Misuse` when a tick is asked for that has passed; `NoInput` when no such input was
    /// recorded, if the replay is strict.
    pub fn next_input(&mut self, channel: &str, tick: u64) -> Result<Option<Value>> {
        if tick < self.tick {
            return Err(Error::Misuse {
                what: "inputs of an earlier tick than the last one are asked for: a replay only goes forward",
            });
        }
        self.advance_to(tick)?;
        let next = self.waiting.get_mut(channel).and_then(VecDeque::pop_front);
        match next {
            Some(input) => Ok(Some(input.value)),
            None if self.options.strict => Err(self.missing(channel)),
            None => Ok(None),
        }
    }

    /// The seed of a random number generator, recorded as the input `seed:<name>` at tick 0 or later.
    ///
    /// # Errors
    /// As [`next_input`](Self::next_input), at the tick that is being replayed.
    pub fn seed(&mut self, name: &str) -> Result<Option<Value>> {
        let tick = self.tick;
        self.next_input(&format!("seed:{name}"), tick)
    }

    fn missing(&self, channel: &str) -> Error {
        let waiting = self.waiting.iter().filter(|(_, inputs)| !inputs.is_empty());
        let left: Vec<String> = waiting
            .take(8)
            .map(|(name, inputs)| format!("{} of {name:?}", inputs.len()))
            .collect();
        Error::NoInput {
            channel: channel.to_owned(),
            tick: self.tick,
            left: if left.is_empty() {
                "nothing else is left there".to_owned()
            } else {
                format!("there is {}", left.join(", "))
            },
        }
    }

    /// How many inputs of ticks that have passed nobody asked for.
    pub fn unused(&self) -> u64 {
        self.unused
    }

    /// The next input of the run, whatever its channel and tick: for whoever passes all of them on.
    ///
    /// # Errors
    /// What stops reading.
    pub fn next_any(&mut self) -> Result<Option<Input>> {
        if let Some(input) = self.first_waiting() {
            return Ok(Some(input));
        }
        let next = match self.ahead.take() {
            Some(input) => Some(input),
            None => self.read()?,
        };
        if let Some(input) = &next {
            self.tick = input.place.tick;
        }
        Ok(next)
    }

    /// The oldest of those that wait.
    fn first_waiting(&mut self) -> Option<Input> {
        let place = |inputs: &VecDeque<Input>| {
            let place = inputs.front()?.place;
            Some((place.segment, place.offset))
        };
        let waiting = self
            .waiting
            .values_mut()
            .filter(|inputs| !inputs.is_empty());
        waiting.min_by_key(|inputs| place(inputs))?.pop_front()
    }

    /// Makes `tick` the one that is being replayed.
    fn advance_to(&mut self, tick: u64) -> Result<()> {
        if tick > self.tick {
            let left: usize = self.waiting.values().map(VecDeque::len).sum();
            self.unused = self.unused.saturating_add(left as u64);
            self.waiting.clear();
            self.tick = tick;
        }
        let mut held = Held::default();
        loop {
            let next = match self.ahead.take() {
                Some(input) => Some(input),
                None => self.read_held(&mut held)?,
            };
            match next {
                Some(input) if input.place.tick > tick => {
                    self.ahead = Some(input);
                    return Ok(());
                }
                Some(input) if input.place.tick < tick => {
                    self.unused = self.unused.saturating_add(1);
                    held = Held::default();
                }
                Some(input) => {
                    let channel = self.waiting.entry(input.channel.clone()).or_default();
                    channel.push_back(input);
                }
                None => return Ok(()),
            }
        }
    }

    fn read(&mut self) -> Result<Option<Input>> {
        self.read_held(&mut Held::default())
    }

    fn read_held(&mut self, held: &mut Held) -> Result<Option<Input>> {
        while !self.is_over {
            let Some((segment, frame)) = self.player.next_placed_frame()? else {
                self.player.check_complete()?;
                self.is_over = true;
                break;
            };
            if frame.kind != FrameKind::Input {
                continue;
            }
            held.add(&frame, "the length of all inputs of one tick")?;
            let payload = object(frame.payload)
                .unwrap_or_else(|| Value::from(String::from_utf8_lossy(frame.payload)));
            return Ok(Some(Input::of(Evidence {
                place: place_of(segment, &frame),
                kind: frame.kind,
                payload,
            })));
        }
        Ok(None)
    }
}
