//! What a command or an input brought about.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::cause::is_correlated;
use super::values::{is_same, value_of};
use super::{Evidence, Held, Place, each_record, object, object_with, place_of};
use crate::journal::{FrameKind, FrameRef, Result, SegmentedPlayer};

/// What became of one change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Effect {
    /// The variable.
    pub name: String,
    /// The mutation.
    pub mutation: Evidence,
    /// The value that it set.
    pub new: Value,
    /// The first telemetry record after it in which the variable has that value.
    pub seen: Option<Place>,
    /// Guardrails that changed the value later.
    pub guardrails: Vec<Evidence>,
    /// Watches on the variable that tripped later.
    pub trips: Vec<Evidence>,
    /// Where the next mutation of the variable set it to something else: what comes after that is not this
    /// one's doing.
    pub ended: Option<Place>,
}

/// What has one correlation id, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Effects {
    /// The id.
    pub correlation_id: String,
    /// Every record that has it, oldest first.
    pub records: Vec<Evidence>,
    /// One for each mutation among them.
    pub effects: Vec<Effect>,
}

/// Everything with this correlation id, and for each mutation among it when it showed, and which guardrails
/// and watches it met before the variable was set again.
///
/// # Errors
/// What stops reading; `Limit` when the records of the answer are longer than
/// [`ANSWER_LEN_MAX`](super::ANSWER_LEN_MAX) together.
pub fn effects_of(path: impl AsRef<Path>, correlation_id: &str) -> Result<Effects> {
    effects_of_with(&mut SegmentedPlayer::open(path)?, correlation_id)
}

/// [`effects_of`] of a run that is open already.
///
/// # Errors
/// As [`effects_of`].
pub fn effects_of_with(player: &mut SegmentedPlayer, correlation_id: &str) -> Result<Effects> {
    let mut search = Search::default();
    each_record(player, |segment, frame| {
        search.take(segment, frame, correlation_id)?;
        Ok(true)
    })?;
    Ok(Effects {
        correlation_id: correlation_id.to_owned(),
        records: search.records,
        effects: search.effects,
    })
}

/// What was found so far.
#[derive(Debug, Default)]
struct Search {
    records: Vec<Evidence>,
    effects: Vec<Effect>,
    /// The effects that have not ended, by the variable.
    open: BTreeMap<String, usize>,
    /// Those of them whose value did not show yet.
    unseen: BTreeSet<usize>,
    held: Held,
}

impl Search {
    fn take(&mut self, segment: u64, frame: &FrameRef<'_>, id: &str) -> Result<()> {
        let correlated = object_with(frame.payload, id).filter(|found| is_correlated(found, id));
        let is_correlated = correlated.is_some();
        let may_be_met = match frame.kind {
            FrameKind::Telemetry => !self.unseen.is_empty(),
            FrameKind::Mutation | FrameKind::Guardrail | FrameKind::Control => {
                !self.open.is_empty()
            }
            _ => false,
        };
        let Some(payload) = correlated.or_else(|| may_be_met.then(|| object(frame.payload))?)
        else {
            return Ok(());
        };
        let record = Evidence {
            place: place_of(segment, frame),
            kind: frame.kind,
            payload,
        };
        if is_correlated {
            self.hold(frame)?;
            self.records.push(record.clone());
        }
        match frame.kind {
            FrameKind::Telemetry => self.see(&record),
            FrameKind::Mutation => self.change(record, is_correlated, frame)?,
            FrameKind::Guardrail => self.meet(record, frame, |effect| &mut effect.guardrails)?,
            FrameKind::Control if record.text("command") == Some("watch_trip") => {
                self.meet(record, frame, |effect| &mut effect.trips)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn hold(&mut self, frame: &FrameRef<'_>) -> Result<()> {
        let what = "the length of all records with this correlation id and of what they met";
        self.held.add(frame, what)
    }

    fn see(&mut self, telemetry: &Evidence) {
        let effects = &mut self.effects;
        self.unseen.retain(|index| {
            let Some(effect) = effects.get_mut(*index) else {
                return false;
            };
            let value = value_of(&telemetry.payload, &effect.name);
            let shows = value.is_some_and(|value| is_same(value, &effect.new, 0.0));
            if shows {
                effect.seen = Some(telemetry.place);
            }
            !shows
        });
    }

    fn change(
        &mut self,
        mutation: Evidence,
        is_correlated: bool,
        frame: &FrameRef<'_>,
    ) -> Result<()> {
        let Some(name) = mutation.text("name").map(str::to_owned) else {
            return Ok(());
        };
        if let Some(ended) = self.open.remove(&name) {
            self.unseen.remove(&ended);
            if let Some(effect) = self.effects.get_mut(ended) {
                effect.ended = Some(mutation.place);
            }
        }
        if !is_correlated {
            return Ok(());
        }
        self.hold(frame)?;
        self.open.insert(name.clone(), self.effects.len());
        self.unseen.insert(self.effects.len());
        let new = mutation.payload.get("new").cloned().unwrap_or_default();
        self.effects.push(Effect {
            name,
            mutation,
            new,
            seen: None,
            guardrails: Vec::new(),
            trips: Vec::new(),
            ended: None,
        });
        Ok(())
    }

    fn meet(
        &mut self,
        record: Evidence,
        frame: &FrameRef<'_>,
        list: impl Fn(&mut Effect) -> &mut Vec<Evidence>,
    ) -> Result<()> {
        let met = record.text("name").and_then(|name| self.open.get(name));
        let Some(index) = met.copied() else {
            return Ok(());
        };
        self.hold(frame)?;
        if let Some(effect) = self.effects.get_mut(index) {
            list(effect).push(record);
        }
        Ok(())
    }
}
