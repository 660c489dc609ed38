//! What the scores of an experiment amount to, and how those of two experiments compare. No files.

use std::collections::BTreeMap;

use crate::json::Value;
use crate::logs::annotation::Annotation;

/// The scores of one name over the examples of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoreSummary {
    /// What was judged.
    pub name: String,
    /// How many examples have a score of this name.
    pub examples: usize,
    /// Of the numbers among them; `None` without any.
    pub numbers: Option<Numbers>,
    /// Which share of the booleans is true; `None` without any.
    pub true_rate: Option<f64>,
}

/// Statistics over the scores that are numbers. A boolean counts as 0 or 1; a text never does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Numbers {
    /// The mean.
    pub mean: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// The median: of the sorted numbers that in the place (n - 1) / 2, rounded.
    pub p50: f64,
    /// The same in the place (n - 1) · 0.95.
    pub p95: f64,
}

/// The scores of one name in two experiments. The examples are named by their ids, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScoreDiff {
    /// What was judged.
    pub name: String,
    /// The mean of the numbers in the first experiment.
    pub mean_base: Option<f64>,
    /// The mean of the numbers in the second one.
    pub mean_candidate: Option<f64>,
    /// A higher number in the second.
    pub improved: Vec<String>,
    /// A lower number in the second.
    pub regressed: Vec<String>,
    /// How many examples have equal scores in both.
    pub unchanged: usize,
    /// Other values, of which one at least is no number.
    pub changed: Vec<String>,
    /// Scored in the first experiment only.
    pub only_base: Vec<String>,
    /// Scored in the second experiment only.
    pub only_candidate: Vec<String>,
}

impl ScoreDiff {
    /// By how much the mean is higher in the second experiment.
    pub fn delta(&self) -> Option<f64> {
        Some(self.mean_candidate? - self.mean_base?)
    }
}

/// The summary of each name, in the order of the names. Of several scores of one example and name the one counts that has the
/// highest time, then trace id, then span id; of equal ones the last.
pub fn summarise<'a>(scores: impl IntoIterator<Item = &'a Annotation>) -> Vec<ScoreSummary> {
    let summary = |(name, by_example): (&'a str, ByExample<'a>)| {
        let booleans = || {
            by_example
                .values()
                .filter_map(|score| as_bool(&score.value))
        };
        let yes = booleans().filter(|yes| *yes).count();
        ScoreSummary {
            name: name.to_owned(),
            examples: by_example.len(),
            numbers: Numbers::of(&by_example),
            true_rate: share(yes, booleans().count()),
        }
    };
    by_name(scores).into_iter().map(summary).collect()
}

/// Compares the scores of two experiments by example, for each name that one of them has, in the order of the names.
/// Which score of an example counts is as with [`summarise`].
pub fn compare<'a>(
    base: impl IntoIterator<Item = &'a Annotation>,
    candidate: impl IntoIterator<Item = &'a Annotation>,
) -> Vec<ScoreDiff> {
    let mut names: BTreeMap<&str, [ByExample<'a>; 2]> = BTreeMap::new();
    for (name, by_example) in by_name(base) {
        names.entry(name).or_default()[0] = by_example;
    }
    for (name, by_example) in by_name(candidate) {
        names.entry(name).or_default()[1] = by_example;
    }
    let diff = |(name, [base, candidate]): (&str, [ByExample<'a>; 2])| {
        let mut diff = ScoreDiff {
            name: name.to_owned(),
            mean_base: Numbers::of(&base).map(|numbers| numbers.mean),
            mean_candidate: Numbers::of(&candidate).map(|numbers| numbers.mean),
            ..ScoreDiff::default()
        };
        for (example, before) in &base {
            match candidate.get(example) {
                Some(after) => diff.add(example, &before.value, &after.value),
                None => diff.only_base.push((*example).to_owned()),
            }
        }
        let new = candidate
            .keys()
            .filter(|example| !base.contains_key(*example));
        diff.only_candidate = new.map(|example| (*example).to_owned()).collect();
        diff
    };
    names.into_iter().map(diff).collect()
}

/// The score that counts of each example.
type ByExample<'a> = BTreeMap<&'a str, &'a Annotation>;

fn by_name<'a>(
    scores: impl IntoIterator<Item = &'a Annotation>,
) -> BTreeMap<&'a str, ByExample<'a>> {
    let place = |score: &'a Annotation| (score.timestamp_ns, &score.trace_id, &score.span_id);
    let mut names: BTreeMap<&str, ByExample<'a>> = BTreeMap::new();
    for score in scores {
        let by_example = names.entry(&score.name).or_default();
        let counts = by_example.entry(&score.example_id).or_insert(score);
        if place(score) >= place(counts) {
            *counts = score;
        }
    }
    names
}

impl ScoreDiff {
    fn add(&mut self, example: &str, before: &Value, after: &Value) {
        let list = match (number(before), number(after)) {
            (Some(before), Some(after)) if after > before => &mut self.improved,
            (Some(before), Some(after)) if after < before => &mut self.regressed,
            (Some(_), Some(_)) => {
                self.unchanged += 1;
                return;
            }
            _ if before == after => {
                self.unchanged += 1;
                return;
            }
            _ => &mut self.changed,
        };
        list.push(example.to_owned());
    }
}

impl Numbers {
    #[expect(clippy::cast_precision_loss, reason = "there are few examples")]
    fn of(by_example: &ByExample<'_>) -> Option<Self> {
        let numbers = by_example.values().filter_map(|score| number(&score.value));
        let mut numbers: Vec<f64> = numbers.collect();
        numbers.sort_unstable_by(f64::total_cmp);
        let count = numbers.len() as f64;
        let sum: f64 = numbers.iter().sum();
        let mean = if sum.is_finite() {
            sum / count
        } else {
            numbers.iter().map(|number| number / count).sum()
        };
        Some(Self {
            mean,
            min: *numbers.first()?,
            max: *numbers.last()?,
            p50: *numbers.get(place(numbers.len(), 50))?,
            p95: *numbers.get(place(numbers.len(), 95))?,
        })
    }
}

/// (n - 1) · percent / 100, rounded, halves up.
fn place(count: usize, percent: usize) -> usize {
    count
        .saturating_sub(1)
        .saturating_mul(percent)
        .saturating_add(50)
        / 100
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => Some(number.as_f64()),
        Value::Bool(truth) => Some(f64::from(u8::from(*truth))),
        Value::Null | Value::String(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn as_bool(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(truth) => Some(*truth),
        _ => None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "there are few examples")]
fn share(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
