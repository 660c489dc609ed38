//! The charts, one function each.

use std::collections::BTreeSet;

use atune_core::study::dominates;
use atune_core::trial::{Direction, TrialState};
use plotters::prelude::*;

use super::canvas::{
    Area, BLUE, Drawn, GREEN, GREY, INK, ORANGE, RED, Side, dots, label, line, nothing, plane,
    shade,
};
use super::data::{Axis, Data, Row, range_of};

const NO_VALUES: &str = "no trial is complete yet";

#[expect(clippy::cast_precision_loss, reason = "a place in a picture")]
fn at(number: u64) -> f64 {
    number as f64
}

/// The value of every trial, and the best so far.
pub(super) fn history<DB: DrawingBackend>(data: &Data, area: &Area<'_, DB>) -> Drawn<DB> {
    let areas = area.split_evenly((data.objectives.len().max(1), 1));
    for ((which, objective), area) in data.objectives.iter().enumerate().zip(&areas) {
        let title = format!("{}: {}", data.name, objective.name);
        let values: Vec<(f64, f64)> = data
            .complete(which)
            .map(|(row, value)| (at(row.number), value))
            .collect();
        if values.is_empty() {
            nothing(area, &title, NO_VALUES)?;
            continue;
        }
        let last = data
            .rows
            .iter()
            .map(|row| at(row.number))
            .fold(0.0, f64::max);
        let x = Side::whole("trial", (-0.5, last + 0.5));
        let y = Side::plain(
            &objective.name,
            range_of(values.iter().map(|value| value.1)),
        );
        let mut chart = plane(area, &title, &x, &y)?;
        dots(
            &mut chart,
            values.iter().copied(),
            3,
            BLUE.mix(0.6).filled(),
        )?;
        let mut best = Vec::new();
        for (number, value) in &values {
            match best.last() {
                Some((_, so_far)) if !objective.is_better(*value, *so_far) => {}
                Some((_, so_far)) => best.extend([(*number, *so_far), (*number, *value)]),
                None => best.push((*number, *value)),
            }
        }
        best.extend(best.last().map(|(_, value)| (last, *value)));
        line(&mut chart, best, ORANGE.stroke_width(2))?;
    }
    Ok(())
}

/// Every trial as a line over its parameters and its value, the better the darker.
pub(super) fn parallel<DB: DrawingBackend>(data: &Data, area: &Area<'_, DB>) -> Drawn<DB> {
    let title = format!("{}: parallel coordinates", data.name);
    let rows: Vec<(&Row, f64)> = data.complete(0).collect();
    let (Some(objective), false) = (data.objectives.first(), rows.is_empty()) else {
        return nothing(area, &title, NO_VALUES);
    };
    let (low, high) = range_of(rows.iter().map(|row| row.1));
    let value_axis = Axis {
        name: objective.name.clone(),
        scale: super::data::Scale::Linear,
        from: low,
        to: high,
    };
    let axes: Vec<&Axis> = std::iter::once(&value_axis).chain(&data.axes).collect();
    let last = at(axes.len() as u64 - 1).max(1.0);
    let name = |place: f64| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the place of an axis"
        )]
        let near = place.round().max(0.0) as usize;
        let is_there = (place - place.round()).abs() < 1e-6;
        axes.get(near)
            .filter(|_| is_there)
            .map(|axis| axis.name.clone())
            .unwrap_or_default()
    };
    let x = Side {
        name: "",
        range: (-0.3, last + 0.5),
        labels: axes.len().max(2),
        text: &name,
    };
    let y = Side {
        name: "",
        range: (-0.05, 1.05),
        labels: 2,
        text: &|_| String::new(),
    };
    let mut chart = plane(area, &title, &x, &y)?;
    let mut rows = rows;
    // The best on top.
    rows.sort_by(|a, b| match objective.direction {
        Direction::Minimize => b.1.total_cmp(&a.1),
        Direction::Maximize => a.1.total_cmp(&b.1),
    });
    for (row, value) in rows {
        let share = value_axis.share(value);
        let badness = match objective.direction {
            Direction::Minimize => share,
            Direction::Maximize => 1.0 - share,
        };
        let first = (0.0, share);
        let places = data.axes.iter().enumerate().filter_map(|(which, axis)| {
            Some((at(which as u64 + 1), axis.share(*row.places.get(&which)?)))
        });
        line(
            &mut chart,
            std::iter::once(first).chain(places),
            shade(badness).mix(0.7).stroke_width(1),
        )?;
    }
    for (which, axis) in axes.iter().enumerate() {
        let x = at(which as u64);
        line(&mut chart, [(x, 0.0), (x, 1.0)], INK.stroke_width(1))?;
        for share in ticks(axis) {
            let text = axis.text(axis.from + share * (axis.to - axis.from));
            chart.draw_series([label(text, (x + 0.02, share + 0.015))])?;
        }
    }
    Ok(())
}

/// Where an axis of parallel coordinates is labelled.
fn ticks(axis: &Axis) -> Vec<f64> {
    match &axis.scale {
        super::data::Scale::Labels(labels) => (0..labels.len().min(12) as u64)
            .map(|place| axis.share(at(place)))
            .collect(),
        _ => vec![0.0, 0.5, 1.0],
    }
}

/// How much of the values' differences each parameter explains.
pub(super) fn importance<DB: DrawingBackend>(data: &Data, area: &Area<'_, DB>) -> Drawn<DB> {
    let title = format!("{}: importance of the parameters", data.name);
    let shares = &data.importance;
    if shares.is_empty() {
        return nothing(area, &title, "too few trials are complete to tell");
    }
    let count = shares.len() as u64;
    let name = |place: f64| {
        let is_there = (place - place.round()).abs() < 1e-6 && place >= 0.0;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the place of a bar"
        )]
        let share = shares
            .get(place.round().max(0.0) as usize)
            .filter(|_| is_there);
        share.map(|(name, _)| name.clone()).unwrap_or_default()
    };
    let x = Side::plain("share", (0.0, 1.05));
    let labels = shares.len().max(2);
    let y = Side {
        name: "",
        range: (at(count) - 0.5, -0.5),
        labels,
        text: &name,
    };
    let mut chart = plane(area, &title, &x, &y)?;
    for ((_, share), place) in shares.iter().zip(0u64..) {
        let (top, bottom) = (at(place) - 0.3, at(place) + 0.3);
        let bar = Rectangle::new([(0.0, top), (*share, bottom)], BLUE.filled());
        chart.draw_series([bar])?;
        chart.draw_series([label(
            format!("{share:.2}"),
            (share + 0.01, at(place) - 0.1),
        )])?;
    }
    Ok(())
}

/// The value over each parameter; later trials are lighter.
pub(super) fn slice<DB: DrawingBackend>(data: &Data, area: &Area<'_, DB>) -> Drawn<DB> {
    let title = format!("{}: slices", data.name);
    let rows: Vec<(&Row, f64)> = data.complete(0).collect();
    let (Some(objective), false) = (
        data.objectives.first(),
        rows.is_empty() || data.axes.is_empty(),
    ) else {
        return nothing(area, &title, NO_VALUES);
    };
    let columns = data.axes.len().min(3);
    let areas = area.split_evenly((data.axes.len().div_ceil(columns), columns));
    let range = range_of(rows.iter().map(|row| row.1));
    let last = data.rows.len().max(2) as u64 - 1;
    for ((which, axis), area) in data.axes.iter().enumerate().zip(&areas) {
        let text = |place| axis.text(place);
        let x = Side {
            name: "",
            range: (axis.from, axis.to),
            labels: axis.label_count(),
            text: &text,
        };
        let y = Side::plain(&objective.name, range);
        let mut chart = plane(area, &axis.name, &x, &y)?;
        for (row, value) in &rows {
            if let Some(place) = row.places.get(&which) {
                let colour = shade(at(row.number) / at(last));
                dots(&mut chart, [(*place, *value)], 3, colour.mix(0.8).filled())?;
            }
        }
    }
    Ok(())
}

/// How many cells a contour has along each side.
const CELLS: u64 = 48;
/// How many steps of shade a contour has.
const LEVELS: f64 = 10.0;

/// The value over two parameters, estimated between the trials from their distance.
pub(super) fn contour<DB: DrawingBackend>(data: &Data, area: &Area<'_, DB>) -> Drawn<DB> {
    let title = format!("{}: contour", data.name);
    let (left, right) = (0, 1);
    let (Some(x_axis), Some(y_axis)) = (data.axes.get(left), data.axes.get(right)) else {
        return nothing(area, &title, "a contour needs two parameters");
    };
    let place = |(row, value): (&Row, f64)| {
        let (x, y) = (*row.places.get(&left)?, *row.places.get(&right)?);
        Some((x, y, value))
    };
    let points: Vec<(f64, f64, f64)> = data.complete(0).filter_map(place).collect();
    if points.is_empty() {
        return nothing(area, &title, NO_VALUES);
    }
    let objective = data
        .objectives
        .first()
        .map(|o| o.name.as_str())
        .unwrap_or_default();
    let title = format!(
        "{}: {objective} over {} and {}",
        data.name, x_axis.name, y_axis.name
    );
    let (x_text, y_text) = (|place| x_axis.text(place), |place| y_axis.text(place));
    let x = Side {
        name: &x_axis.name,
        range: (x_axis.from, x_axis.to),
        labels: x_axis.label_count(),
        text: &x_text,
    };
    let y = Side {
        name: &y_axis.name,
        range: (y_axis.from, y_axis.to),
        labels: y_axis.label_count(),
        text: &y_text,
    };
    let mut chart = plane(area, &title, &x, &y)?;
    // By rank, so that one terrible trial does not make all the others look alike.
    let mut sorted: Vec<f64> = points.iter().map(|point| point.2).collect();
    sorted.sort_by(f64::total_cmp);
    let rank = |value: f64| {
        let below = sorted.partition_point(|other| *other < value);
        at(below as u64) / at(sorted.len().max(2) as u64 - 1)
    };
    let (width, height) = (x_axis.to - x_axis.from, y_axis.to - y_axis.from);
    let cells = (0..CELLS).flat_map(|column| (0..CELLS).map(move |row| (column, row)));
    let cells = cells.map(|(column, row)| {
        let (left, low) = (at(column) / at(CELLS), at(row) / at(CELLS));
        let (right, high) = (at(column + 1) / at(CELLS), at(row + 1) / at(CELLS));
        let (x, y) = (f64::midpoint(left, right), f64::midpoint(low, high));
        let (mut sum, mut weights) = (0.0, 0.0);
        for point in &points {
            let (dx, dy) = (x_axis.share(point.0) - x, y_axis.share(point.1) - y);
            let weight = 1.0 / (dx * dx + dy * dy + 1e-6).powi(2);
            sum += weight * rank(point.2);
            weights += weight;
        }
        let level = (sum / weights * LEVELS).floor() / LEVELS;
        let corner = |share_x: f64, share_y: f64| {
            (
                x_axis.from + share_x * width,
                y_axis.from + share_y * height,
            )
        };
        Rectangle::new(
            [corner(left, low), corner(right, high)],
            shade(level).mix(0.75).filled(),
        )
    });
    chart.draw_series(cells)?;
    dots(
        &mut chart,
        points.iter().map(|point| (point.0, point.1)),
        3,
        INK.filled(),
    )
}

/// Two objectives against each other; those that no other trial beats stand out.
pub(super) fn pareto<DB: DrawingBackend>(data: &Data, area: &Area<'_, DB>) -> Drawn<DB> {
    let title = format!("{}: Pareto front", data.name);
    let pairs: Vec<(usize, usize)> = (0..data.objectives.len())
        .flat_map(|a| (a + 1..data.objectives.len()).map(move |b| (a, b)))
        .take(6)
        .collect();
    let rows: Vec<&Vec<f64>> = data
        .rows
        .iter()
        .filter_map(|row| row.values.as_ref())
        .filter(|values| values.iter().all(|value| value.is_finite()))
        .collect();
    if pairs.is_empty() {
        return nothing(area, &title, "a front needs two objectives");
    }
    if rows.is_empty() {
        return nothing(area, &title, NO_VALUES);
    }
    let signed: Vec<Vec<f64>> = rows
        .iter()
        .map(|values| {
            let signed = values.iter().zip(&data.objectives);
            signed
                .map(|(value, objective)| objective.direction.signed(*value))
                .collect()
        })
        .collect();
    let is_best = |at: &usize| {
        let own = signed.get(*at);
        own.is_some_and(|own| !signed.iter().any(|other| dominates(other, own)))
    };
    let best: BTreeSet<usize> = (0..signed.len()).filter(is_best).collect();
    let columns = pairs.len().min(2);
    let areas = area.split_evenly((pairs.len().div_ceil(columns), columns));
    for ((a, b), area) in pairs.into_iter().zip(&areas) {
        let name = |which: usize| {
            data.objectives
                .get(which)
                .map(|o| o.name.as_str())
                .unwrap_or_default()
        };
        let value = |values: &[f64], which: usize| values.get(which).copied().unwrap_or_default();
        let x = Side::plain(
            name(a),
            range_of(rows.iter().map(|values| value(values, a))),
        );
        let y = Side::plain(
            name(b),
            range_of(rows.iter().map(|values| value(values, b))),
        );
        let mut chart = plane(area, &title, &x, &y)?;
        let place = |values: &Vec<f64>| (value(values, a), value(values, b));
        dots(
            &mut chart,
            rows.iter().map(|values| place(values)),
            3,
            GREY.mix(0.6).filled(),
        )?;
        let front = rows.iter().enumerate().filter(|(at, _)| best.contains(at));
        dots(
            &mut chart,
            front.map(|(_, values)| place(values)),
            5,
            BLUE.filled(),
        )?;
    }
    Ok(())
}

/// The reports of every trial.
pub(super) fn intermediate<DB: DrawingBackend>(data: &Data, area: &Area<'_, DB>) -> Drawn<DB> {
    let title = format!("{}: intermediate values", data.name);
    let reports = || data.rows.iter().flat_map(|row| row.reports.iter());
    let (Some(objective), true) = (data.objectives.first(), reports().next().is_some()) else {
        return nothing(area, &title, "no trial reported an intermediate value");
    };
    let x = Side::whole("step", range_of(reports().map(|report| at(report.0))));
    let y = Side::plain(&objective.name, range_of(reports().map(|report| report.1)));
    let mut chart = plane(area, &title, &x, &y)?;
    for row in &data.rows {
        let places: Vec<(f64, f64)> = row
            .reports
            .iter()
            .filter(|report| report.1.is_finite())
            .map(|report| (at(report.0), report.1))
            .collect();
        let colour = of_state(row.state).mix(0.6);
        if let [only] = places.as_slice() {
            dots(&mut chart, [*only], 3, colour.filled())?;
        }
        line(&mut chart, places, colour.stroke_width(1))?;
    }
    Ok(())
}

/// When every trial ran.
pub(super) fn timeline<DB: DrawingBackend>(data: &Data, area: &Area<'_, DB>) -> Drawn<DB> {
    let title = format!("{}: timeline", data.name);
    let started = data.rows.iter().filter_map(|row| row.started);
    let ended = data.rows.iter().filter_map(|row| row.ended);
    let (Some(first), Some(last)) = (started.clone().min(), started.chain(ended).max()) else {
        return nothing(area, &title, "no trial was started yet");
    };
    let seconds = |millis: u64| at(millis.saturating_sub(first)) / 1000.0;
    let x = Side::plain("seconds", (0.0, seconds(last).max(0.001) * 1.02));
    let count = at(data.rows.len() as u64);
    let y = Side::whole("trial", (count - 0.5, -0.5));
    let mut chart = plane(area, &title, &x, &y)?;
    for row in &data.rows {
        let Some(started) = row.started else {
            continue;
        };
        let (from, to) = (seconds(started), seconds(row.ended.unwrap_or(last)));
        // A trial of no length is seen too.
        let to = to.max(from + seconds(last) * 0.002);
        let (top, bottom) = (at(row.number) - 0.4, at(row.number) + 0.4);
        let bar = Rectangle::new([(from, top), (to, bottom)], of_state(row.state).filled());
        chart.draw_series([bar])?;
    }
    Ok(())
}

fn of_state(state: TrialState) -> RGBColor {
    match state {
        TrialState::Complete => BLUE,
        TrialState::Pruned => ORANGE,
        TrialState::Failed => RED,
        TrialState::Running => GREEN,
        TrialState::Waiting | TrialState::Paused => GREY,
    }
}
