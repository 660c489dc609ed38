//! Where two runs part.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::values::{Difference, first_difference};
use super::{Held, Place, object, place_of};
use crate::journal::{Error, FrameKind, FrameRef, Result, SegmentedPlayer};

/// How runs are compared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DivergenceOptions {
    /// Variables that do not count, by name; what is inside of them neither.
    pub ignore: Vec<String>,
    /// Leaves inputs out: for a run that was fed those of the other one, maybe at other ticks.
    pub ignore_inputs: bool,
    /// How far numbers of the telemetry may be apart: this times the largest of 1 and their amounts. 0 is exact.
    pub tolerance: f64,
}

/// What differs first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    /// What came in from outside.
    Input,
    /// A hash of the state.
    Hash,
    /// A variable.
    Telemetry,
    /// One run has ended, or has no record for this tick.
    End,
}

/// What one of the two runs has there.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// The record; `None` when the run has none.
    pub place: Option<Place>,
    /// The value; `None` when there is none.
    pub value: Option<Value>,
}

/// The first difference of two runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Divergence {
    /// The tick at which they differ.
    pub tick: u64,
    /// What differs.
    pub subject: Subject,
    /// The variable as tables name it, the channel of the input, or what the hash is of.
    pub field: String,
    /// The first run.
    pub a: Side,
    /// The second run.
    pub b: Side,
    /// The last tick at which both have the same.
    pub last_equal: Option<u64>,
}

/// Walks two runs by their ticks to the first difference: inputs first, since they come before what they cause;
/// then hashes where both have one of the same thing; then, if no hash was compared, the telemetry, field by
/// field. Times never count, and neither do records of other kinds: a change that matters shows.
///
/// # Errors
/// What stops reading either run; `Limit` when the records of one tick are longer than
/// [`ANSWER_LEN_MAX`](super::ANSWER_LEN_MAX) together.
pub fn find_divergence(
    a: impl AsRef<Path>,
    b: impl AsRef<Path>,
    options: &DivergenceOptions,
) -> Result<Option<Divergence>> {
    find_divergence_with(
        &mut SegmentedPlayer::open(a)?,
        &mut SegmentedPlayer::open(b)?,
        options,
    )
}

/// [`find_divergence`] of runs that are open already.
///
/// # Errors
/// As [`find_divergence`].
pub fn find_divergence_with(
    a: &mut SegmentedPlayer,
    b: &mut SegmentedPlayer,
    options: &DivergenceOptions,
) -> Result<Option<Divergence>> {
    if !(options.tolerance.is_finite() && options.tolerance >= 0.0) {
        return Err(Error::Misuse {
            what: "a tolerance is a finite number that is not negative",
        });
    }
    let (mut a, mut b) = (Ticks::of(a, options), Ticks::of(b, options));
    let mut last_equal = None;
    loop {
        let (left, right) = (a.next()?, b.next()?);
        let (left, right) = match (left, right) {
            (None, None) => return Ok(None),
            (Some(left), Some(right)) if left.tick == right.tick => (left, right),
            (left, right) => return Ok(Some(ended(left.as_ref(), right.as_ref(), last_equal))),
        };
        if let Some(mut divergence) = compare(&left, &right, options) {
            divergence.last_equal = last_equal;
            return Ok(Some(divergence));
        }
        last_equal = Some(left.tick);
    }
}

/// One run has something at a tick at which the other has nothing.
fn ended(a: Option<&Tick>, b: Option<&Tick>, last_equal: Option<u64>) -> Divergence {
    let first = [a, b].into_iter().flatten().map(|tick| tick.tick).min();
    let tick = first.unwrap_or_default();
    let side = |of: Option<&Tick>| Side {
        place: of.filter(|of| of.tick == tick).map(|of| of.first),
        value: None,
    };
    Divergence {
        tick,
        subject: Subject::End,
        field: String::new(),
        a: side(a),
        b: side(b),
        last_equal,
    }
}

/// A record of a tick, with what it says.
type Said = (Place, Value);

/// What one run has for one tick.
#[derive(Debug)]
struct Tick {
    tick: u64,
    first: Place,
    /// In order, by channel.
    inputs: BTreeMap<String, Vec<Said>>,
    /// The last one, by what it is of.
    hashes: BTreeMap<String, Said>,
    telemetry: Option<Said>,
}

fn compare(a: &Tick, b: &Tick, options: &DivergenceOptions) -> Option<Divergence> {
    let found = |subject, field: &str, a: Side, b: Side| Divergence {
        tick: 0,
        subject,
        field: field.to_owned(),
        a,
        b,
        last_equal: None,
    };
    let compared = !options.ignore_inputs;
    let mut divergence = compared.then(|| inputs(a, b, &found)).flatten();
    if divergence.is_none() {
        let both = a
            .hashes
            .iter()
            .filter_map(|(of, left)| Some((of, left, b.hashes.get(of)?)));
        let mut were_compared = false;
        for (of, left, right) in both {
            were_compared = true;
            if left.1 != right.1 {
                divergence = Some(found(Subject::Hash, of, side(left), side(right)));
                break;
            }
        }
        if !were_compared {
            divergence = telemetry(a, b, options, &found);
        }
    }
    divergence.map(|divergence| Divergence {
        tick: a.tick,
        ..divergence
    })
}

fn side(of: &Said) -> Side {
    Side {
        place: Some(of.0),
        value: Some(of.1.clone()),
    }
}

const NOTHING: Side = Side {
    place: None,
    value: None,
};

fn inputs(
    a: &Tick,
    b: &Tick,
    found: &dyn Fn(Subject, &str, Side, Side) -> Divergence,
) -> Option<Divergence> {
    let mut channels: Vec<&String> = a.inputs.keys().chain(b.inputs.keys()).collect();
    channels.sort();
    channels.dedup();
    channels.into_iter().find_map(|channel| {
        let (left, right) = (a.inputs.get(channel), b.inputs.get(channel));
        let (left, right) = (
            left.map_or(&[][..], Vec::as_slice),
            right.map_or(&[][..], Vec::as_slice),
        );
        (0..left.len().max(right.len())).find_map(|at| {
            let (left, right) = (left.get(at), right.get(at));
            let is_same = match (left, right) {
                (Some((_, left)), Some((_, right))) => {
                    first_difference(left, right, 0.0, &mut |_| false).is_none()
                }
                _ => false,
            };
            let side_of = |one: Option<&Said>| one.map_or(NOTHING, side);
            (!is_same).then(|| found(Subject::Input, channel, side_of(left), side_of(right)))
        })
    })
}

fn telemetry(
    a: &Tick,
    b: &Tick,
    options: &DivergenceOptions,
    found: &dyn Fn(Subject, &str, Side, Side) -> Divergence,
) -> Option<Divergence> {
    let (left, right) = match (&a.telemetry, &b.telemetry) {
        (None, None) => return None,
        (Some(left), Some(right)) => (left, right),
        (left, right) => {
            let side_of = |one: &Option<Said>| Side {
                place: one.as_ref().map(|one| one.0),
                value: None,
            };
            return Some(found(Subject::End, "", side_of(left), side_of(right)));
        }
    };
    let is_ignored = &mut |name: &str| {
        options.ignore.iter().any(|ignored| {
            let rest = name.strip_prefix(ignored.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    };
    let Difference { field, a, b } =
        first_difference(&left.1, &right.1, options.tolerance, is_ignored)?;
    let side = |place, value| Side {
        place: Some(place),
        value,
    };
    Some(found(
        Subject::Telemetry,
        &field,
        side(left.0, a),
        side(right.0, b),
    ))
}

/// A run, tick by tick. Ticks at which nothing is compared are passed over.
struct Ticks<'p> {
    player: &'p mut SegmentedPlayer,
    passes_inputs: bool,
    /// The first record of the next tick.
    ahead: Option<Tick>,
    is_over: bool,
}

impl<'p> Ticks<'p> {
    fn of(player: &'p mut SegmentedPlayer, options: &DivergenceOptions) -> Self {
        Self {
            player,
            passes_inputs: options.ignore_inputs,
            ahead: None,
            is_over: false,
        }
    }

    fn next(&mut self) -> Result<Option<Tick>> {
        let mut tick = self.ahead.take();
        let mut held = Held::default();
        while !self.is_over {
            let Some((segment, frame)) = self.player.next_placed_frame()? else {
                self.player.check_complete()?;
                self.is_over = true;
                break;
            };
            let is_compared = match frame.kind {
                FrameKind::Telemetry | FrameKind::Hash => true,
                FrameKind::Input => !self.passes_inputs,
                _ => false,
            };
            if !is_compared {
                continue;
            }
            if tick.as_ref().is_some_and(|tick| tick.tick != frame.tick) {
                self.ahead = Some(Tick::begin(segment, &frame));
                break;
            }
            held.add(&frame, "the length of all records of one tick")?;
            match &mut tick {
                Some(tick) => tick.take(segment, &frame),
                None => tick = Some(Tick::begin(segment, &frame)),
            }
        }
        Ok(tick)
    }
}

impl Tick {
    fn begin(segment: u64, frame: &FrameRef<'_>) -> Self {
        let mut tick = Self {
            tick: frame.tick,
            first: place_of(segment, frame),
            inputs: BTreeMap::new(),
            hashes: BTreeMap::new(),
            telemetry: None,
        };
        tick.take(segment, frame);
        tick
    }

    fn take(&mut self, segment: u64, frame: &FrameRef<'_>) {
        let place = place_of(segment, frame);
        // What is no JSON is compared as it stands.
        let payload = object(frame.payload).unwrap_or_else(|| {
            let text = String::from_utf8_lossy(frame.payload);
            Value::from(format!("{text} ({} bytes)", frame.payload.len()))
        });
        let text = |member| {
            let text = payload.get(member).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        match frame.kind {
            FrameKind::Input => {
                let value = payload.get("value").unwrap_or(&payload).clone();
                let channel = self.inputs.entry(text("channel")).or_default();
                channel.push((place, value));
            }
            FrameKind::Hash => {
                let value = payload.get("hash").unwrap_or(&payload).clone();
                self.hashes.insert(text("of"), (place, value));
            }
            _ => self.telemetry = Some((place, payload)),
        }
    }
}
