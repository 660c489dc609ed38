//! What a study has seen, as a task.

use super::propose::Task;
use crate::rng::KeyedRng;
use crate::sampler::{JointSpace, SamplerView};

/// All parameters that a trial may have: those of the declared space, or else those that complete trials
/// drew from one and the same distribution.
pub(super) fn space(view: &SamplerView<'_>) -> JointSpace {
    if view.config.space.is_some() {
        return view.common_space();
    }
    let columns = view.history.columns().iter();
    let seen = columns.filter(|column| {
        column.is_steady()
            && view
                .history
                .with_values()
                .any(|number| column.get(number).is_some())
    });
    JointSpace::new(seen.map(crate::study::Column::key))
}

/// The task to propose the next point of a space. Of several objectives, `rng` draws what counts.
pub(super) fn task(view: &SamplerView<'_>, space: &JointSpace, rng: &mut KeyedRng) -> Task {
    let history = view.history;
    let columns: Vec<_> = space
        .params()
        .iter()
        .map(|key| history.column(&key.name))
        .collect();
    let row = |number: u64| -> Vec<f64> {
        let axes = space.params().iter().zip(&columns);
        axes.map(
            |(key, column)| match column.and_then(|column| column.get(number)) {
                Some(value) => key.dist.to_unit(value),
                None => f64::NAN,
            },
        )
        .collect()
    };
    let has_any = |point: &Vec<f64>| point.iter().any(|place| !place.is_nan());
    let mut task = Task {
        space: space.params().iter().map(|key| key.dist.clone()).collect(),
        fixed: space
            .params()
            .iter()
            .map(|key| match view.set.get(&key.name) {
                Some(value) => key.dist.to_unit(value.as_f64()),
                None => f64::NAN,
            })
            .collect(),
        pending: view.pending().map(row).filter(has_any).collect(),
        ..Task::default()
    };
    let mut values = Vec::new();
    let mut constraints: Vec<&[f64]> = Vec::new();
    for number in history.with_values() {
        let point = row(number);
        let (Some(past), Some(signed)) = (history.trial(number), history.signed_values(number))
        else {
            continue;
        };
        if has_any(&point) {
            task.points.push(point);
            values.push(signed);
            constraints.push(&past.constraints);
        }
    }
    task.losses = match history.directions() {
        [_] => values
            .iter()
            .filter_map(|signed| signed.first().copied())
            .collect(),
        _ => weighted(&values, rng),
    };
    let most = constraints
        .iter()
        .map(|values| values.len())
        .max()
        .unwrap_or_default();
    let one = |at: usize| {
        constraints
            .iter()
            .map(|values| values.get(at).copied().unwrap_or(f64::NAN))
            .collect()
    };
    task.constraints = (0..most).map(one).collect();
    task
}

/// One value per trial out of several: the largest weighted one, plus a little of their sum, over ranges
/// made equal (the augmented Chebyshev function of `ParEGO`). The weights are even over all that add up to 1.
fn weighted(values: &[Vec<f64>], rng: &mut KeyedRng) -> Vec<f64> {
    let count = values.first().map_or(0, Vec::len);
    let shares: Vec<f64> = (0..count).map(|_| -libm::log(rng.open_unit())).collect();
    let total: f64 = shares.iter().sum();
    let mut losses = vec![(0.0_f64, 0.0); values.len()];
    for (at, share) in shares.iter().enumerate() {
        let column = || values.iter().filter_map(|row| row.get(at).copied());
        let finite = || column().filter(|value| value.is_finite());
        let low = finite().fold(f64::INFINITY, f64::min);
        let high = finite().fold(f64::NEG_INFINITY, f64::max);
        // Halves: the width of finite numbers need not be finite.
        let width = high / 2.0 - low / 2.0;
        for ((most, sum), value) in losses.iter_mut().zip(column()) {
            let place = if width > 0.0 {
                (value.clamp(low, high) / 2.0 - low / 2.0) / width
            } else {
                0.0
            };
            let part = share / total * place;
            *most = most.max(part);
            *sum += part;
        }
    }
    losses
        .into_iter()
        .map(|(most, sum)| most + 0.05 * sum)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_dominated_has_a_higher_loss_whatever_the_weights() {
        let values = vec![
            vec![0.0, 5.0],
            vec![1.0, 6.0],
            vec![7.0, 0.0],
            vec![7.0, 6.0],
        ];
        for number in 0..50 {
            let losses = weighted(&values, &mut KeyedRng::new(1, number, "weights"));
            assert!(losses[0] < losses[1] && losses[2] < losses[3], "{losses:?}");
        }
    }

    #[test]
    fn infinite_and_equal_values_still_give_numbers() {
        let values = vec![
            vec![f64::INFINITY, 1.0],
            vec![f64::MAX, 1.0],
            vec![f64::MIN, 1.0],
        ];
        let losses = weighted(&values, &mut KeyedRng::new(1, 0, "weights"));
        assert!(losses.iter().all(|loss| loss.is_finite()), "{losses:?}");
        let all = vec![vec![f64::INFINITY, f64::NEG_INFINITY]; 3];
        let losses = weighted(&all, &mut KeyedRng::new(1, 0, "weights"));
        assert!(losses.iter().all(|loss| loss.is_finite()), "{losses:?}");
    }
}
