//! The walk: from what was asked about to whatever names it or is named by it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use atune_core::storage::journal::verify_study;
use durable::{Finding, Fs as _, Outcome, RealFs, Severity, Verdict};
use omniloop_core::journal::SetOptions;
use omniloop_core::recorder::{RUN_HEAD, RUN_ID, RUN_PATH, RUN_TICK, STUDY_ID, TRIAL_NUMBER};
use serde::Serialize;
use serde_json::{Map, Value, json};
use traza::span::Span;

use super::Subject;
use super::hops::{self, Claims};
use super::places::{Places, RunFile, TrialAt};
use crate::failure::{BAD_CODE, Failure};
use crate::text::count;
use crate::verb::study::trial_json;
use crate::verb::trace::Lead;
use crate::verb::tune::attributes::TRACE_ID;
use crate::verb::verify_run;

/// More than this is no trail any more.
const NODES_MAX: usize = 1000;
/// Of a damaged record so many findings are told; `daybook verify` has all.
const FINDINGS_MAX: usize = 5;

/// A record on the way, or the name of one that is not here.
#[derive(Debug, Serialize)]
pub(super) struct Node {
    pub(super) kind: &'static str,
    pub(super) name: String,
    pub(super) here: bool,
    /// The node that it was reached from, by its place in the list.
    pub(super) parent: Option<usize>,
    /// By what it was reached.
    pub(super) via: &'static str,
    /// What it is, in a few words.
    pub(super) summary: String,
    pub(super) facts: Map<String, Value>,
    pub(super) proved: Vec<String>,
    pub(super) findings: Vec<Finding>,
}

impl Node {
    pub(super) fn outcome(&self) -> Outcome {
        Verdict::outcome_of(&self.findings)
    }

    pub(super) fn find(&mut self, code: &'static str, severity: Severity, what: String) {
        self.findings.push(Finding {
            code,
            severity,
            place: self.name.clone(),
            what,
        });
    }

    /// Takes over what the verification of a whole record says.
    fn take(&mut self, verdict: &Verdict) {
        let grave = |finding: &&Finding| finding.severity > Severity::Note;
        let mut grave: Vec<Finding> = verdict.findings.iter().filter(grave).cloned().collect();
        // Damage first: it is what must not be cut off.
        grave.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        grave.truncate(FINDINGS_MAX);
        if grave.is_empty() {
            self.proved.push(format!("the {} is intact", verdict.kind));
        }
        self.findings.extend(grave);
    }

    fn could_not(&mut self, what: &str, failure: &Failure) {
        let severity = match failure.code {
            BAD_CODE => Severity::Damage,
            _ => Severity::Unproven,
        };
        let what = format!("{what}: {}", failure.message);
        self.find("could_not_check", severity, what);
    }
}

/// Everything that was reached.
pub(super) struct Trail {
    /// In the order in which they were reached; the first is what was asked about.
    pub(super) nodes: Vec<Node>,
    /// What stands among the paths and could not be read.
    pub(super) unreadable: Vec<Finding>,
}

impl Trail {
    /// The gravest of everything found.
    pub(super) fn outcome(&self) -> Outcome {
        let findings = self.nodes.iter().flat_map(|node| &node.findings);
        let all: Vec<Finding> = findings.chain(&self.unreadable).cloned().collect();
        Verdict::outcome_of(&all)
    }
}

/// What a node stands for.
#[derive(Clone, Debug, PartialEq)]
enum Item {
    Trial(TrialAt),
    Run(usize),
    Trace(String),
    /// Named, and not here.
    Missing(String),
}

pub(super) struct Walk<'p> {
    places: &'p mut Places,
    nodes: Vec<Node>,
    items: Vec<Item>,
    queue: VecDeque<usize>,
    /// Trials and the runs that belong to them, and whether the trial itself names the run.
    pairs: BTreeMap<(usize, usize), bool>,
    /// What the spans of a trace say.
    claims: BTreeMap<usize, Claims>,
    /// Traces that a session alone leads to: nothing is followed from there.
    ends: BTreeSet<usize>,
    /// Studies and stores that were verified, by their paths.
    verified: BTreeSet<PathBuf>,
}

impl<'p> Walk<'p> {
    pub(super) fn new(places: &'p mut Places) -> Self {
        Self {
            places,
            nodes: Vec::new(),
            items: Vec::new(),
            queue: VecDeque::new(),
            pairs: BTreeMap::new(),
            claims: BTreeMap::new(),
            ends: BTreeSet::new(),
            verified: BTreeSet::new(),
        }
    }

    /// Walks to the end.
    pub(super) fn from(&mut self, subject: &Subject) -> Result<(), Failure> {
        let item = match subject {
            Subject::Trial(at) => Item::Trial(*at),
            Subject::Run(run) => Item::Run(*run),
            Subject::Trace(id) => Item::Trace(id.clone()),
        };
        self.reach(item, None, "asked about");
        while let Some(node) = self.queue.pop_front() {
            match self.items.get(node).cloned() {
                Some(Item::Trial(at)) => self.visit_trial(node, at)?,
                Some(Item::Run(run)) => self.visit_run(node, run)?,
                Some(Item::Trace(id)) => self.visit_trace(node, &id)?,
                Some(Item::Missing(_)) | None => {}
            }
        }
        if let (Subject::Trace(id), [only]) = (subject, self.nodes.as_slice())
            && !only.here
        {
            let what = format!("no trace and no run is named {id} among the paths");
            let hint = "name studies, runs, stores, servers or folders to look in";
            return Err(Failure::new(what).with_hint(hint));
        }
        Ok(())
    }

    /// Compares what belongs together, and ends the walk.
    pub(super) fn end(mut self) -> Trail {
        for ((trial, run), is_named) in std::mem::take(&mut self.pairs) {
            hops::check_run(&mut self.nodes, trial, run, is_named);
        }
        for (trace, claims) in &self.claims {
            hops::check_trace(&mut self.nodes, *trace, claims);
        }
        Trail {
            nodes: self.nodes,
            unreadable: std::mem::take(&mut self.places.unreadable),
        }
    }

    /// The node of an item; a new one is visited later.
    fn reach(&mut self, item: Item, parent: Option<usize>, via: &'static str) -> usize {
        if let Some(known) = self.items.iter().position(|known| *known == item) {
            return known;
        }
        let (kind, name) = match &item {
            Item::Trial(at) => ("trial", self.name_of(*at)),
            Item::Run(run) => {
                let run = self.places.runs.get(*run);
                ("run", run.map_or_else(String::new, |r| shown(&r.path)))
            }
            Item::Trace(id) => ("trace", id.clone()),
            Item::Missing(name) => ("", name.clone()),
        };
        self.nodes.push(Node {
            kind,
            name,
            here: true,
            parent,
            via,
            summary: String::new(),
            facts: Map::new(),
            proved: Vec::new(),
            findings: Vec::new(),
        });
        self.items.push(item);
        let node = self.nodes.len() - 1;
        if node < NODES_MAX {
            self.queue.push_back(node);
        } else if let Some(last) = self.nodes.last_mut() {
            let what = format!("more than {NODES_MAX} records are linked: not followed");
            last.find("not_followed", Severity::Unproven, what);
        }
        node
    }

    /// Something that `parent` names and that is nowhere.
    fn miss(&mut self, kind: &'static str, name: String, parent: usize, via: &'static str) {
        let node = self.reach(Item::Missing(name), Some(parent), via);
        let Some(node) = self.nodes.get_mut(node).filter(|node| node.here) else {
            return;
        };
        node.kind = kind;
        node.here = false;
        "not here".clone_into(&mut node.summary);
        let what = format!("the {kind} is named and is not here");
        node.find("not_here", Severity::Unproven, what);
    }

    fn name_of(&self, at: TrialAt) -> String {
        let study = self.places.study(at.study);
        let Some((file, study)) = study else {
            return String::new();
        };
        let several = file.reader.replica().studies().len() > 1;
        let name = if several {
            format!(" of {}", study.config.name)
        } else {
            String::new()
        };
        format!("{}#{}{name}", shown(&file.path), at.number)
    }

    fn visit_trial(&mut self, node: usize, at: TrialAt) -> Result<(), Failure> {
        let Some((trial, study)) = self.places.trial_of(at).zip(self.places.study(at.study)) else {
            return Ok(());
        };
        let path = study.0.path.clone();
        let facts = trial_json(trial);
        let attribute = |name: &str| {
            let mut attrs = trial.user_attrs();
            let (_, value) = attrs.find(|(key, _)| *key == name)?;
            value.as_str().map(str::to_owned)
        };
        let [run_path, run_id, run_head, trace_id] =
            [RUN_PATH, RUN_ID, RUN_HEAD, TRACE_ID].map(attribute);
        let study_id = self.places.study_id(at.study).unwrap_or_default();
        let state = format!("{:?}", trial.state).to_lowercase();
        self.verify_study(node, &path);
        if let Some(node) = self.nodes.get_mut(node) {
            let values = facts.get("values").filter(|values| values.is_array());
            let values = values.map_or_else(String::new, |values| format!(", values {values}"));
            node.summary = format!("{state}{values}");
            for name in ["number", "state", "values", "params"] {
                let fact = facts.get(name).cloned().unwrap_or(Value::Null);
                node.facts.insert(name.to_owned(), fact);
            }
            node.facts.insert(STUDY_ID.to_owned(), json!(study_id));
            node.facts.insert(RUN_ID.to_owned(), json!(run_id));
            node.facts.insert(RUN_HEAD.to_owned(), json!(run_head));
            node.facts.insert(TRACE_ID.to_owned(), json!(trace_id));
        }
        let mut named = None;
        if let Some(kept) = &run_path {
            let place = path.parent().unwrap_or(Path::new("")).join(kept);
            if RealFs.exists(&place).unwrap_or(false) {
                named = Some(self.places.run_at(&place));
            }
        }
        let known = |id: &String| self.places.run_named(id);
        named = named.or_else(|| run_id.as_ref().and_then(known));
        match (named, run_path.or(run_id)) {
            (Some(run), _) => {
                let run = self.reach(Item::Run(run), Some(node), "named by the trial");
                self.pairs.insert((node, run), true);
            }
            (None, Some(name)) => self.miss("run", name, node, "named by the trial"),
            (None, None) => {}
        }
        let of_trial = |run: &RunFile| {
            run.links.study_id.as_deref() == Some(study_id.as_str())
                && run.links.trial_number == Some(at.number)
        };
        for run in places_where(&self.places.runs, of_trial) {
            let run = self.reach(Item::Run(run), Some(node), STUDY_ID);
            self.pairs.entry((node, run)).or_insert(false);
        }
        if let Some(id) = trace_id {
            self.reach(Item::Trace(id), Some(node), "named by the trial");
        }
        let number = at.number.to_string();
        let of_trial = [(STUDY_ID, study_id.as_str()), (TRIAL_NUMBER, &number)];
        self.traces_by(&Lead::Attributes(&of_trial), node, STUDY_ID)?;
        Ok(())
    }

    fn visit_run(&mut self, node: usize, run: usize) -> Result<(), Failure> {
        let Some(known) = self.places.runs.get(run) else {
            return Ok(());
        };
        let (path, links) = (known.path.clone(), known.links.clone());
        let verified = verify_run(&path, &SetOptions::default());
        if let Some(node) = self.nodes.get_mut(node) {
            match verified {
                Ok(set) => {
                    let verdict = set.verdict();
                    node.take(&verdict);
                    let records = set.record_count();
                    node.summary = count(records, "record");
                    if let Some(tick) = verdict.facts.get("last_tick").and_then(Value::as_u64) {
                        write!(node.summary, " up to tick {tick}").ok();
                    }
                    for name in ["records", "last_tick", "head", "sealed"] {
                        let fact = verdict.facts.get(name).cloned().unwrap_or(Value::Null);
                        node.facts.insert(name.to_owned(), fact);
                    }
                }
                Err(error) => node.could_not("it cannot be verified", &error.into()),
            }
            node.facts.insert(RUN_ID.to_owned(), json!(links.run_id));
            node.facts
                .insert(STUDY_ID.to_owned(), json!(links.study_id));
            let number = json!(links.trial_number);
            node.facts.insert(TRIAL_NUMBER.to_owned(), number);
            node.facts
                .insert(TRACE_ID.to_owned(), json!(links.trace_id));
            let session = json!(links.session_id);
            node.facts.insert("session.id".to_owned(), session);
        }
        if let (Some(study_id), Some(number)) = (&links.study_id, links.trial_number) {
            if let Some(study) = self.places.study_of_run(run) {
                let at = TrialAt { study, number };
                if self.places.trial_of(at).is_some() {
                    let trial = self.reach(Item::Trial(at), Some(node), STUDY_ID);
                    self.pairs.entry((trial, node)).or_insert(false);
                } else if let Some(node) = self.nodes.get_mut(node) {
                    let what = format!(
                        "it says that it is trial {number} of a study that has no such trial"
                    );
                    node.find("no_such_trial", Severity::Damage, what);
                }
            } else {
                let name = format!("trial {number} of the study {study_id}");
                self.miss("trial", name, node, STUDY_ID);
            }
        }
        // A trial may name a run that does not know of it.
        if let Some(id) = &links.run_id {
            for at in self.trials_with(RUN_ID, id) {
                let trial = self.reach(Item::Trial(at), Some(node), RUN_ID);
                self.pairs.insert((trial, node), true);
            }
        }
        if let Some(id) = &links.trace_id {
            self.reach(Item::Trace(id.clone()), Some(node), "named by the run");
        }
        if let Some(id) = &links.run_id {
            self.traces_by(&Lead::Attributes(&[(RUN_ID, id.as_str())]), node, RUN_ID)?;
        }
        if let Some(session) = &links.session_id {
            let before = self.nodes.len();
            self.traces_by(&Lead::Session(session), node, "session.id")?;
            self.ends.extend(before..self.nodes.len());
        }
        Ok(())
    }

    fn visit_trace(&mut self, node: usize, id: &str) -> Result<(), Failure> {
        let mut claims = Claims::default();
        let mut spans = 0;
        let mut places = Vec::new();
        for at in 0..self.places.traces.len() {
            let Some(place) = self.places.traces.get(at) else {
                continue;
            };
            let found: Vec<Arc<Span>> = place.spans_of(id)?;
            if found.is_empty() {
                continue;
            }
            spans += found.len() as u64;
            places.push(place.name().to_owned());
            for span in &found {
                claims.learn(span);
            }
            let (folder, name) = (place.folder().map(Path::to_owned), place.name().to_owned());
            match folder {
                Some(folder) => self.verify_store(node, &folder),
                None => {
                    if let Some(node) = self.nodes.get_mut(node) {
                        let what = format!(
                            "{name} is a server: `daybook verify` on its folder checks what it holds"
                        );
                        node.find("not_verified", Severity::Note, what);
                    }
                }
            }
        }
        let is_searched = !self.places.traces.is_empty();
        if let Some(node) = self.nodes.get_mut(node) {
            node.here = spans > 0;
            if spans > 0 {
                node.summary = format!("{} in {}", count(spans, "span"), places.join(", "));
                node.facts.insert("spans".to_owned(), json!(spans));
                node.facts.insert("places".to_owned(), json!(places));
                node.facts.insert(RUN_TICK.to_owned(), json!(claims.ticks));
            } else if is_searched {
                "not here".clone_into(&mut node.summary);
                let what = "no store and no server among the paths has spans of it".to_owned();
                node.find("not_here", Severity::Unproven, what);
            } else {
                "not here".clone_into(&mut node.summary);
                let what = "no store and no server was named to look for it in".to_owned();
                node.find("not_looked_for", Severity::Note, what);
            }
        }
        if self.ends.contains(&node) {
            self.claims.insert(node, claims);
            return Ok(());
        }
        for run_id in &claims.runs {
            match self.places.run_named(run_id) {
                Some(run) => {
                    self.reach(Item::Run(run), Some(node), RUN_ID);
                }
                None => self.miss("run", format!("run {run_id}"), node, RUN_ID),
            }
        }
        for (study_id, number) in &claims.trials {
            let study = self.places.study_named(study_id);
            let at = study.map(|study| TrialAt {
                study,
                number: *number,
            });
            if let Some(at) = at.filter(|at| self.places.trial_of(*at).is_some()) {
                self.reach(Item::Trial(at), Some(node), STUDY_ID);
            } else {
                let name = format!("trial {number} of the study {study_id}");
                self.miss("trial", name, node, STUDY_ID);
            }
        }
        self.claims.insert(node, claims);
        for at in self.trials_with(TRACE_ID, id) {
            self.reach(Item::Trial(at), Some(node), TRACE_ID);
        }
        let of_trace = |run: &RunFile| run.links.trace_id.as_deref() == Some(id);
        for run in places_where(&self.places.runs, of_trace) {
            self.reach(Item::Run(run), Some(node), "named by the run");
        }
        Ok(())
    }

    /// Reaches every trace with spans that are found like this.
    fn traces_by(
        &mut self,
        lead: &Lead<'_>,
        parent: usize,
        via: &'static str,
    ) -> Result<(), Failure> {
        let mut found = BTreeSet::new();
        for place in &self.places.traces {
            found.extend(place.traces_by(lead)?);
        }
        for id in found {
            self.reach(Item::Trace(id), Some(parent), via);
        }
        Ok(())
    }

    /// The trials of all known studies with this attribute.
    fn trials_with(&self, name: &str, value: &str) -> Vec<TrialAt> {
        let mut found = Vec::new();
        for study in self.places.all_studies() {
            let Some((file, _)) = self.places.study(study) else {
                continue;
            };
            let trials = file.reader.replica().trials_of(study.study);
            for trial in trials.into_iter().flatten() {
                let mut attrs = trial.user_attrs();
                if attrs.any(|(key, kept)| key == name && kept.as_str() == Some(value)) {
                    let number = trial.number;
                    found.push(TrialAt { study, number });
                }
            }
        }
        found
    }

    /// Once for a file: the first node of it gets what is found.
    fn verify_study(&mut self, node: usize, path: &Path) {
        if !self.verified.insert(path.to_owned()) {
            return;
        }
        let verified = verify_study(Arc::new(RealFs), path);
        if let Some(node) = self.nodes.get_mut(node) {
            match verified {
                Ok(verdict) => node.take(&verdict),
                Err(error) => node.could_not("the study cannot be verified", &error.into()),
            }
        }
    }

    fn verify_store(&mut self, node: usize, folder: &Path) {
        if !self.verified.insert(folder.to_owned()) {
            return;
        }
        let verified = traza::store::verify(&RealFs, folder);
        if let Some(node) = self.nodes.get_mut(node) {
            match verified {
                Ok(verdict) => node.take(&verdict),
                Err(error) => node.could_not("the store cannot be verified", &error.into()),
            }
        }
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// The places of all items that are so.
fn places_where<T>(items: &[T], is_so: impl Fn(&T) -> bool) -> Vec<usize> {
    let all = items.iter().enumerate();
    all.filter(|(_, item)| is_so(item))
        .map(|(at, _)| at)
        .collect()
}
