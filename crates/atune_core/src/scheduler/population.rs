//! Population-based training: good trials go on, bad ones are replaced by variants of good ones.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Decision, Scheduler, SchedulerAnswer, SchedulerView, curve};
use crate::outbox::Effect;
use crate::replica::Trial;
use crate::rng::KeyedRng;
use crate::space::{Distribution, ParamValue};
use crate::study::PastTrial;
use crate::trial::Direction;

/// Population-based training in generations. A trial is one generation of one member. When as many trials
/// have ended as the population has members, they are replaced, each by one trial that goes on from its
/// `parent`: the worst `quantile` of them from one of the best `quantile`, with changed parameters, the others
/// from themselves. The parent's checkpoint is the objective's to load.
///
/// Further trials that idle workers start join the generation in which they end; when it turns, it has the size
/// of the population again. Generations end with the study's budget, or after `generations`.
///
/// No trial is ended early. `NaN`: a final value that is none fails its trial; trials without a value, failed
/// and pruned ones, are the worst of their generation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PopulationScheduler {
    /// How many members there are. At least 2.
    pub population: u64,
    /// The share of the population that is replaced, and the share that replaces it; above 0, at most a half.
    pub quantile: f64,
    /// The chance that a parameter is drawn anew instead of being changed by a fifth.
    pub resample_probability: f64,
    /// How many generations there are; without it, as many as the budget allows.
    pub generations: Option<u64>,
}

impl Default for PopulationScheduler {
    fn default() -> Self {
        Self {
            population: 8,
            quantile: 0.25,
            resample_probability: 0.25,
            generations: None,
        }
    }
}

/// What is remembered of the present generation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Generation {
    /// How many generations ended before.
    number: u64,
    /// The numbers of its trials that ended, in that order.
    ended: Vec<u64>,
}

impl Scheduler for PopulationScheduler {
    fn kind(&self) -> &'static str {
        "pbt"
    }

    fn options(&self) -> Value {
        super::options_of(self)
    }

    fn decide(&self, _view: &SchedulerView<'_>) -> Decision {
        Decision::Continue
    }

    fn wants_endings(&self) -> bool {
        true
    }

    fn after_trial(&self, view: &SchedulerView<'_>, ended: &Trial) -> SchedulerAnswer {
        let Some(direction) = curve::direction(view) else {
            return SchedulerAnswer::default();
        };
        // Only this scheduler writes its state; another's is none of this one's.
        let state = view.state.cloned().unwrap_or_default();
        let mut generation: Generation = serde_json::from_value(state).unwrap_or_default();
        if generation.ended.contains(&ended.number) {
            return SchedulerAnswer::default();
        }
        generation.ended.push(ended.number);
        let mut effects = Vec::new();
        if generation.ended.len() as u64 >= self.population.max(2) {
            let members = std::mem::take(&mut generation.ended);
            generation.number += 1;
            if self.generations.is_none_or(|most| generation.number < most) {
                effects = self.turn(view, direction, &members);
            }
        }
        SchedulerAnswer {
            state: serde_json::to_value(&generation).ok(),
            effects,
        }
    }
}

impl PopulationScheduler {
    /// The replacements of a generation, those of the best first.
    fn turn(&self, view: &SchedulerView<'_>, direction: Direction, ended: &[u64]) -> Vec<Effect> {
        let member = |number: &u64| Some((*number, view.history.trial(*number)?));
        let mut members: Vec<(u64, &PastTrial)> = ended.iter().filter_map(member).collect();
        let worth = |past: &PastTrial| {
            let value = past
                .values
                .as_ref()
                .map(|values| curve::signed(direction, values));
            value.filter(|value| !value.is_nan())
        };
        members.sort_by(|(a, left), (b, right)| {
            // What has no value comes after everything that has one.
            let (left, right) = (worth(left), worth(right));
            let by_value = match (left, right) {
                (Some(left), Some(right)) => left.total_cmp(&right),
                _ => right.is_some().cmp(&left.is_some()),
            };
            by_value.then(a.cmp(b))
        });
        let with_value = members
            .iter()
            .filter(|(_, past)| worth(past).is_some())
            .count();
        let cut = self.cut(members.len());
        let best: Vec<_> = members.iter().take(cut.min(with_value)).copied().collect();
        if best.is_empty() {
            return Vec::new();
        }
        let kept = with_value.min(members.len() - cut);
        let replacements = members.iter().enumerate().map(|(place, (number, past))| {
            let name = |what: &str| format!("scheduler/pbt/{what}");
            if place < kept {
                return Effect::Exploit {
                    source: past.id,
                    params: params_of(view, *number),
                };
            }
            let mut rng = KeyedRng::new(view.config.seed, *number, &name("exploit"));
            let (source_number, source) = best
                .get(rng.place(best.len()))
                .copied()
                .unwrap_or((*number, *past));
            let mut params = params_of(view, source_number);
            for (param, value) in &mut params {
                let mut rng = KeyedRng::new(
                    view.config.seed,
                    *number,
                    &name(&format!("explore/{param}")),
                );
                if let Some(column) = view.history.column(param) {
                    *value = self.explore(column.dist(), value, &mut rng);
                }
            }
            Effect::Exploit {
                source: source.id,
                params,
            }
        });
        let size = usize::try_from(self.population.max(2)).unwrap_or(usize::MAX);
        replacements.take(size.min(budget_left(view))).collect()
    }

    /// How many members a quantile is.
    fn cut(&self, members: usize) -> usize {
        #[expect(clippy::cast_precision_loss, reason = "a number of trials is exact")]
        let share = (members as f64 * self.quantile.clamp(0.0, 0.5)).ceil();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "from 0 to the number of members"
        )]
        let cut = share as usize;
        cut.clamp(1, (members / 2).max(1))
    }

    fn explore(&self, dist: &Distribution, value: &ParamValue, rng: &mut KeyedRng) -> ParamValue {
        if rng.unit() < self.resample_probability {
            return dist.at_unit(rng.unit());
        }
        let is_up = rng.unit() < 0.5;
        let factor = if is_up { 1.2 } else { 0.8 };
        match (dist, value) {
            (Distribution::Float(_), ParamValue::F64(value)) => dist.nearest(value.0 * factor),
            (Distribution::Int(range), ParamValue::I64(old)) => {
                #[expect(clippy::cast_precision_loss, reason = "a parameter need only be near")]
                let number = *old as f64;
                match dist.nearest(number * factor) {
                    ParamValue::I64(new) if new == *old => {
                        // A fifth of a small number is no step: take one.
                        let step = range.step.unwrap_or(1);
                        let next = if is_up {
                            old.checked_add(step)
                        } else {
                            old.checked_sub(step)
                        };
                        let next = next.map(ParamValue::I64);
                        next.filter(|next| dist.check_value(next).is_ok())
                            .unwrap_or(ParamValue::I64(new))
                    }
                    new => new,
                }
            }
            (_, same) => same.clone(),
        }
    }
}

fn params_of(view: &SchedulerView<'_>, number: u64) -> BTreeMap<String, ParamValue> {
    let names = view
        .history
        .params_of(number)
        .map(|(key, _)| key.name.clone());
    names
        .filter_map(|name| {
            let value = view.history.column(&name)?.value(number)?;
            Some((name, value))
        })
        .collect()
}

/// How many trials may still be created.
fn budget_left(view: &SchedulerView<'_>) -> usize {
    let Some(budget) = view.budget else {
        return usize::MAX;
    };
    let plain = view
        .history
        .trials()
        .iter()
        .filter(|past| !past.is_given)
        .count() as u64;
    let counted = plain.saturating_add(view.history.given_count());
    usize::try_from(budget.saturating_sub(counted)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{Ended, Scene};
    use super::*;
    use crate::number::JsonF64;
    use crate::space::{FloatRange, IntRange, Param};

    fn params(lr: f64, depth: i64) -> Vec<Param> {
        let float = FloatRange {
            low: JsonF64(1e-4),
            high: JsonF64(1.0),
            log: true,
            step: None,
        };
        let int = IntRange {
            low: 1,
            high: 9,
            log: false,
            step: Some(1),
        };
        vec![
            Param {
                name: "lr".to_owned(),
                dist: Distribution::Float(float),
                value: ParamValue::F64(JsonF64(lr)),
            },
            Param {
                name: "depth".to_owned(),
                dist: Distribution::Int(int),
                value: ParamValue::I64(depth),
            },
        ]
    }

    /// Ends these trials one after the other, and answers the last state and all effects.
    fn play(
        scheduler: &PopulationScheduler,
        scene: &Scene,
        ended: &[Trial],
        budget: Option<u64>,
    ) -> (Value, Vec<Effect>) {
        let history = scene.history();
        let (mut state, mut effects) = (Value::Null, Vec::new());
        for trial in ended {
            let answer = scheduler.after_trial(
                &SchedulerView {
                    config: &scene.config,
                    number: trial.number,
                    history: &history,
                    reports: &[],
                    state: Some(&state),
                    budget,
                },
                trial,
            );
            effects.extend(answer.effects);
            state = answer.state.unwrap_or(state);
        }
        (state, effects)
    }

    fn four() -> PopulationScheduler {
        PopulationScheduler {
            population: 4,
            ..PopulationScheduler::default()
        }
    }

    fn exploits(effects: &[Effect]) -> Vec<(u64, f64)> {
        let pair = |effect: &Effect| match effect {
            Effect::Exploit { source, params } => match params["lr"] {
                ParamValue::F64(lr) => (source.0, lr.0),
                ref other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        };
        effects.iter().map(pair).collect()
    }

    #[test]
    fn a_generation_turns_when_its_last_member_ended() {
        for (direction, sign) in [(Direction::Minimize, 1.0), (Direction::Maximize, -1.0)] {
            let mut scene = Scene::new(direction);
            let ended: Vec<Trial> = [3.0, 1.0, 4.0, 2.0]
                .iter()
                .map(|value| {
                    let lr = 0.01 * value;
                    scene.trial_with(Ended::Complete, &[(1, sign * value)], &params(lr, 3))
                })
                .collect();
            assert_eq!(play(&four(), &scene, &ended[..3], None).1, []);
            let (state, effects) = play(&four(), &scene, &ended, None);
            assert_eq!(state, serde_json::json!({ "number": 1, "ended": [] }));
            let exploits = exploits(&effects);
            // The best first, each from itself, and the worst from the best with another rate.
            assert_eq!(&exploits[..3], &[(1, 0.01), (3, 0.02), (0, 0.03)]);
            assert_eq!(exploits[3].0, 1);
            assert!((exploits[3].1 - 0.01).abs() > 1e-4, "{exploits:?}");
        }
    }

    #[test]
    fn being_shown_an_ending_twice_changes_nothing() {
        let mut scene = Scene::new(Direction::Minimize);
        let one = scene.trial_with(Ended::Complete, &[(1, 1.0)], &params(0.1, 3));
        let (state, effects) = play(&four(), &scene, &[one.clone(), one.clone(), one], None);
        assert_eq!(state["ended"], serde_json::json!([0]));
        assert_eq!(effects, []);
    }

    #[test]
    fn failed_members_are_replaced_and_a_generation_that_failed_whole_is_the_last() {
        let mut scene = Scene::new(Direction::Minimize);
        let mut ended: Vec<Trial> = (0..3)
            .map(|_| scene.trial_with(Ended::Failed, &[], &params(0.5, 3)))
            .collect();
        ended.push(scene.trial_with(Ended::Complete, &[(1, 9.0)], &params(0.1, 3)));
        let (_, effects) = play(&four(), &scene, &ended, None);
        assert_eq!(
            exploits(&effects).iter().map(|e| e.0).collect::<Vec<_>>(),
            [3, 3, 3, 3]
        );

        let mut scene = Scene::new(Direction::Minimize);
        let ended: Vec<Trial> = (0..4)
            .map(|_| scene.trial_with(Ended::Failed, &[], &params(0.5, 3)))
            .collect();
        assert_eq!(play(&four(), &scene, &ended, None).1, []);
    }

    #[test]
    fn no_more_are_created_than_the_budget_or_the_generations_allow() {
        let mut scene = Scene::new(Direction::Minimize);
        let ended: Vec<Trial> = (0..4)
            .map(|value| {
                scene.trial_with(Ended::Complete, &[(1, f64::from(value))], &params(0.1, 3))
            })
            .collect();
        assert_eq!(play(&four(), &scene, &ended, Some(4)).1.len(), 0);
        let effects = play(&four(), &scene, &ended, Some(6)).1;
        assert_eq!(
            exploits(&effects).iter().map(|e| e.0).collect::<Vec<_>>(),
            [0, 1]
        );
        assert_eq!(play(&four(), &scene, &ended, Some(100)).1.len(), 4);
        let only_one = PopulationScheduler {
            generations: Some(1),
            ..four()
        };
        assert_eq!(play(&only_one, &scene, &ended, None).1, []);
    }

    proptest! {
        #[test]
        fn what_is_explored_stays_in_its_range_and_mostly_moves(lr in 1e-4..1.0f64, depth in 1..=9i64, seed: u64) {
            let scheduler = PopulationScheduler { resample_probability: 0.0, ..four() };
            let mut rng = KeyedRng::new(seed, 0, "test");
            for param in params(lr, depth) {
                let new = scheduler.explore(&param.dist, &param.value, &mut rng);
                prop_assert!(param.dist.check_value(&new).is_ok(), "{:?}", new);
                let is_inside = !matches!(param.value, ParamValue::I64(1 | 9)) && (2e-4..0.8).contains(&lr);
                prop_assert!(!is_inside || new != param.value);
            }
        }

        #[test]
        fn one_to_a_half_of_any_population_is_replaced(
            population in 2..40u64, quantile in 0.0..1.0f64,
        ) {
            let scheduler = PopulationScheduler { population, quantile, ..PopulationScheduler::default() };
            let members = usize::try_from(population).unwrap();
            let cut = scheduler.cut(members);
            prop_assert!(cut >= 1 && cut <= (members / 2).max(1));
        }
    }
}
