//! Figures: what was measured, of one server or of two beside each other.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// What a figure has to reach.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bar {
    /// So many times the reference's, at least.
    TimesAtLeast(f64),
    /// So many times the reference's, at most.
    TimesAtMost(f64),
    /// In the figure's own unit.
    AtMost(f64),
}

impl Bar {
    fn text(self) -> String {
        match self {
            Self::TimesAtLeast(times) => format!("≥ {times} ×"),
            Self::TimesAtMost(times) => format!("≤ {times} ×"),
            Self::AtMost(most) => format!("≤ {most:.3}"),
        }
    }

    /// `None` when there is nothing to compare with.
    fn is_met(self, figure: &Figure) -> Option<bool> {
        match self {
            Self::TimesAtLeast(times) => figure.ratio().map(|ratio| ratio >= times),
            Self::TimesAtMost(times) => figure.ratio().map(|ratio| ratio <= times),
            Self::AtMost(most) => Some(figure.ours <= most),
        }
    }
}

/// One figure of one server.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) what: String,
    pub(crate) unit: &'static str,
    pub(crate) value: f64,
    pub(crate) bar: Option<Bar>,
}

impl Measured {
    pub(crate) fn new(what: impl Into<String>, unit: &'static str, value: f64) -> Self {
        Self {
            what: what.into(),
            unit,
            value,
            bar: None,
        }
    }

    pub(crate) fn with(mut self, bar: Bar) -> Self {
        self.bar = Some(bar);
        self
    }
}

/// The same figure of both servers.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    what: String,
    unit: &'static str,
    bar: Option<Bar>,
    ours: f64,
    reference: Option<f64>,
}

impl Figure {
    fn ratio(&self) -> Option<f64> {
        Some(self.ours / self.reference?)
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "what": self.what,
            "unit": self.unit,
            "bar": self.bar.map(Bar::text),
            "is_met": self.bar.and_then(|bar| bar.is_met(self)),
            "ours": self.ours,
            "reference": self.reference,
            "ratio": self.ratio(),
        })
    }
}

/// Puts the figures of the first server beside those of the second, when there is one. All servers were measured alike.
pub(crate) fn side_by_side(measured: Vec<Vec<Measured>>) -> Vec<Figure> {
    let mut servers = measured.into_iter();
    let ours = servers.next().unwrap_or_default();
    let mut reference = servers.next().unwrap_or_default().into_iter();
    let beside = |ours: Measured| Figure {
        what: ours.what,
        unit: ours.unit,
        bar: ours.bar,
        ours: ours.value,
        reference: reference.next().map(|one| one.value),
    };
    ours.into_iter().map(beside).collect()
}

/// Writes figures as a table.
pub(crate) fn write_table(out: &mut String, name: &str, figures: &[Figure]) {
    let mut row = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    row(format!("\n{name}:\n"));
    row("| | unit | bar | this server | the reference | ratio | |".to_owned());
    row("|---|---|---|---|---|---|---|".to_owned());
    for figure in figures {
        let met = match figure.bar.and_then(|bar| bar.is_met(figure)) {
            None => "",
            Some(true) => "reached",
            Some(false) => "missed",
        };
        row(format!(
            "| {} | {} | {} | {} | {} | {} | {met} |",
            figure.what,
            figure.unit,
            figure.bar.map(Bar::text).unwrap_or_default(),
            number(figure.ours),
            figure.reference.map(number).unwrap_or_default(),
            figure
                .ratio()
                .map(|ratio| format!("{ratio:.2}"))
                .unwrap_or_default(),
        ));
    }
}

fn number(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 1_000.0 => 0,
        size if size >= 10.0 => 1,
        _ => 3,
    };
    let mut text = String::new();
    // Writing to a string does not fail.
    write!(text, "{value:.decimals$}").ok();
    text
}

/// The value below which `part` of `of` equal parts of the values lie. NaN without any.
pub(crate) fn quantile(values: &[f64], part: usize, of: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len() * part / of).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

/// A count as a number to calculate with.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts of a benchmark are far below 2^53"
)]
pub(crate) fn float(count: usize) -> f64 {
    count as f64
}
