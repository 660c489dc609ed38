//! Trains a small network to tell two interleaved half moons apart.
//!
//! It reports as any recorded program may: every epoch prints one JSON object, which becomes telemetry.
//! When the loss gets no better, and when the last quarter begins, the learning rate is halved, and a line says so,
//! why, and with which epoch it belongs together: that is what `daybook why` later tells.

use std::io::{self, Write};

use atune_core::rng::KeyedRng;
use clap::Args;
use serde_json::{Value, json};

use super::spans::Spans;

/// Points that are learned from.
const TRAINING: usize = 2048;
/// Points that tell how good the network is on what it has not seen.
const VALIDATION: usize = 256;
const BATCH: usize = 32;
/// How far the points are off their moons.
const NOISE: f64 = 0.2;
/// So many epochs without a better loss are a plateau.
const PATIENCE: u64 = 5;
/// So many epochs share a span.
const EPOCHS_PER_SPAN: u64 = 8;
/// A loss is better when it is so much below the best one.
const BETTER_BY: f64 = 0.01;

/// Trains a small network on two half moons, and prints a JSON object per epoch.
///
/// Spans go to the server that `OTEL_EXPORTER_OTLP_ENDPOINT` names, if it is set, into the trace that `TRACEPARENT` names.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook record -o run.omni -- daybook demo-train --lr 0.5
  daybook why run.omni lr")]
pub(crate) struct TrainArgs {
    /// The learning rate to begin with.
    #[arg(long, default_value_t = 0.5)]
    lr: f64,
    /// How many hidden units the network has.
    #[arg(long, default_value_t = 12)]
    width: u16,
    /// How much of the last step goes into the next one.
    #[arg(long, default_value_t = 0.8)]
    momentum: f64,
    /// How often all points are seen.
    #[arg(long, default_value_t = 40)]
    epochs: u64,
    /// Where random numbers start from.
    #[arg(long, default_value_t = 7)]
    seed: u64,
}

/// Trains, and reports to standard output.
///
/// # Errors
/// When standard output takes no more lines: nobody is there to train for.
pub(crate) fn run(args: &TrainArgs) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let mut rng = KeyedRng::new(args.seed, 0, "moons");
    let mut training = half_moons(TRAINING, &mut rng);
    let validation = half_moons(VALIDATION, &mut rng);
    let mut network = Network::new(args.width, &mut rng);
    let mut rate = LearningRate::new(args.lr);
    let mut momentum = Network::zero(args.width);
    let mut spans = Spans::from_environment();
    let mut begun = spans.now();
    for epoch in 1..=args.epochs {
        rng.shuffle(&mut training);
        for batch in training.chunks(BATCH) {
            let gradient = network.gradient(batch);
            momentum.scale(args.momentum);
            momentum.add(&gradient, -rate.now);
            network.add(&momentum, 1.0);
        }
        let (loss, accuracy) = network.judge(&validation);
        let before = rate.now;
        let is_last_quarter = epoch == args.epochs * 3 / 4;
        // Behind the last epoch there is nothing to learn more slowly.
        let goes_on = epoch < args.epochs;
        let cut = goes_on.then(|| rate.look(loss, is_last_quarter)).flatten();
        let mut told = json!({ "step": epoch, "loss": loss, "accuracy": accuracy, "lr": before });
        if let (Some(cut), Some(told)) = (&cut, told.as_object_mut()) {
            told.insert("correlation_id".to_owned(), cut.id().into());
        }
        print(&mut out, &told)?;
        if let Some(cut) = &cut {
            let change = json!({
                "name": "lr", "old": before, "new": rate.now, "cause": cut.cause,
                "correlation_id": cut.id(),
            });
            print(&mut out, &json!({ "mutation": change }))?;
        }
        if epoch % EPOCHS_PER_SPAN == 0 || epoch == args.epochs {
            let told = [("run.tick", json!(epoch)), ("loss", json!(loss))];
            spans.add(&format!("epochs to {epoch}"), begun, &told);
            begun = spans.now();
        }
    }
    spans.send(
        "train",
        &[("lr", json!(args.lr)), ("width", json!(args.width))],
    );
    Ok(())
}

/// One line, at once: a recorder stamps it when it comes.
fn print(out: &mut impl Write, line: &Value) -> io::Result<()> {
    writeln!(out, "{line}")?;
    out.flush()
}

/// The learning rate, which is halved whenever the loss has got no better for a while, and once near the end.
struct LearningRate {
    now: f64,
    best: f64,
    waited: u64,
    cuts: u64,
}

/// Why the learning rate was halved.
struct Cut {
    number: u64,
    cause: String,
}

impl Cut {
    /// What ties the change to the epoch that brought it.
    fn id(&self) -> String {
        format!("cut-{}", self.number)
    }
}

impl LearningRate {
    fn new(first: f64) -> Self {
        Self {
            now: first,
            best: f64::INFINITY,
            waited: 0,
            cuts: 0,
        }
    }

    /// Takes in the loss of an epoch.
    fn look(&mut self, loss: f64, is_last_quarter: bool) -> Option<Cut> {
        self.waited += 1;
        if loss < self.best * (1.0 - BETTER_BY) {
            self.best = loss;
            self.waited = 0;
        }
        let cause = match (self.waited >= PATIENCE, is_last_quarter) {
            (true, _) => format!("no better loss for {PATIENCE} epochs"),
            (false, true) => "the last quarter of the training begins".to_owned(),
            (false, false) => return None,
        };
        self.waited = 0;
        self.now /= 2.0;
        self.cuts += 1;
        Some(Cut {
            number: self.cuts,
            cause,
        })
    }
}

struct Point {
    at: [f64; 2],
    is_lower: bool,
}

/// Points on two interleaved half circles with noise, and on which of them each is.
fn half_moons(count: usize, rng: &mut KeyedRng) -> Vec<Point> {
    let point = |index: usize| {
        let is_lower = index % 2 == 1;
        let (sin, cos) = (std::f64::consts::PI * rng.unit()).sin_cos();
        let [x, y] = if is_lower {
            [1.0 - cos, 0.5 - sin]
        } else {
            [cos, sin]
        };
        let at = [x + NOISE * rng.normal(), y + NOISE * rng.normal()];
        Point { at, is_lower }
    };
    (0..count).map(point).collect()
}

/// A hidden unit: what it makes of a point, and what it says to the output.
#[derive(Clone, Copy, Default)]
struct Unit {
    input: [f64; 2],
    bias: f64,
    output: f64,
}

impl Unit {
    fn activation(&self, [x, y]: [f64; 2]) -> f64 {
        (self.input[0] * x + self.input[1] * y + self.bias).tanh()
    }
}

/// Two inputs, one layer of hidden units, one logit; also a gradient of such a network.
struct Network {
    units: Vec<Unit>,
    bias: f64,
}

impl Network {
    fn zero(width: u16) -> Self {
        Self {
            units: vec![Unit::default(); usize::from(width)],
            bias: 0.0,
        }
    }

    fn new(width: u16, rng: &mut KeyedRng) -> Self {
        let unit = |_| Unit {
            input: [rng.normal(), rng.normal()],
            bias: 0.0,
            output: rng.normal() / f64::from(width).sqrt(),
        };
        Self {
            units: (0..width).map(unit).collect(),
            bias: 0.0,
        }
    }

    /// How likely it takes the point for one of the lower moon.
    fn probability(&self, point: &Point) -> f64 {
        let units = self.units.iter();
        let logit: f64 = units
            .map(|unit| unit.output * unit.activation(point.at))
            .sum();
        1.0 / (1.0 + (-(logit + self.bias).clamp(-30.0, 30.0)).exp())
    }

    /// The gradient of the mean loss over a batch.
    fn gradient(&self, batch: &[Point]) -> Self {
        let mut sum = Self::zero(0);
        sum.units.resize(self.units.len(), Unit::default());
        for point in batch {
            let error = self.probability(point) - f64::from(u8::from(point.is_lower));
            sum.bias += error;
            for (unit, sum) in self.units.iter().zip(&mut sum.units) {
                let activation = unit.activation(point.at);
                let back = error * unit.output * (1.0 - activation * activation);
                sum.output += error * activation;
                sum.bias += back;
                sum.input[0] += back * point.at[0];
                sum.input[1] += back * point.at[1];
            }
        }
        sum.scale(1.0 / share(batch.len()));
        sum
    }

    /// Mean loss and the share of points that it is right about.
    fn judge(&self, points: &[Point]) -> (f64, f64) {
        let (mut loss, mut right) = (0.0, 0.0);
        for point in points {
            let lower = self.probability(point);
            let truth = if point.is_lower { lower } else { 1.0 - lower };
            loss -= truth.max(1e-12).ln();
            right += f64::from(u8::from(truth > 0.5));
        }
        let count = share(points.len());
        (loss / count, right / count)
    }

    fn scale(&mut self, factor: f64) {
        self.bias *= factor;
        for unit in &mut self.units {
            unit.input = unit.input.map(|weight| weight * factor);
            unit.bias *= factor;
            unit.output *= factor;
        }
    }

    fn add(&mut self, other: &Self, factor: f64) {
        self.bias += factor * other.bias;
        for (unit, other) in self.units.iter_mut().zip(&other.units) {
            unit.input[0] += factor * other.input[0];
            unit.input[1] += factor * other.input[1];
            unit.bias += factor * other.bias;
            unit.output += factor * other.output;
        }
    }
}

fn share(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX)).max(1.0)
}
