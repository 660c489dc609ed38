//! Who survives: fronts first, and within the last one that fits in part those in the emptiest places.

use std::cmp::Ordering;

use super::reference::Niches;
use crate::rng::KeyedRng;

/// One trial among others.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// The trial's number.
    pub(crate) number: u64,
    /// Its values, all to be minimised.
    pub(crate) values: Vec<f64>,
    /// How far it misses its constraints: 0 when all are met.
    pub(crate) violation: f64,
}

/// A place among the population.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    /// The front, from 0 for the best.
    front: usize,
    /// How much room there is around it in its front.
    room: f64,
}

impl Standing {
    /// Whether this one is to be preferred: in a better front, or in the same with more room.
    pub(crate) fn is_before(&self, other: &Self) -> bool {
        let by_room = || other.room.total_cmp(&self.room);
        self.front.cmp(&other.front).then_with(by_room) == Ordering::Less
    }
}

/// How the last front is thinned out.
pub(crate) enum Thinning<'a> {
    /// Those with the most room around them stay (NSGA-II).
    Crowding,
    /// Those of the least populated reference directions stay (NSGA-III).
    Directions(&'a Niches, &'a mut KeyedRng),
}

/// Constrained domination: feasible members are before infeasible ones, of which the lesser violation is.
fn beats(a: &Member, b: &Member) -> bool {
    match (a.violation > 0.0, b.violation > 0.0) {
        (false, true) => true,
        (true, false) => false,
        (true, true) => a.violation < b.violation,
        (false, false) => crate::study::dominates(&a.values, &b.values),
    }
}

/// The members in fronts: places in the list, the best front first.
fn fronts(members: &[Member]) -> Vec<Vec<usize>> {
    let mut left: Vec<(usize, &Member)> = members.iter().enumerate().collect();
    let mut fronts = Vec::new();
    while !left.is_empty() {
        let is_beaten =
            |(_, member): &(usize, &Member)| left.iter().any(|(_, other)| beats(other, member));
        let (rest, front): (Vec<_>, Vec<_>) = left.iter().copied().partition(is_beaten);
        fronts.push(front.into_iter().map(|(at, _)| at).collect());
        left = rest;
    }
    fronts
}

/// The room around each member of a front: the sum, over the objectives, of the distance between its
/// neighbours, as a share of the whole; endless at the ends.
fn rooms(members: &[Member], front: &[usize]) -> Vec<f64> {
    let mut rooms = vec![0.0; front.len()];
    let values = |nth: usize| {
        front
            .get(nth)
            .and_then(|at| members.get(*at))
            .map(|m| &m.values)
    };
    for objective in 0..values(0).map_or(0, Vec::len) {
        let value = |nth: usize| {
            let value = values(nth).and_then(|values| values.get(objective));
            value.copied().unwrap_or(f64::INFINITY)
        };
        let mut order: Vec<usize> = (0..front.len()).collect();
        order.sort_by(|a, b| value(*a).total_cmp(&value(*b)));
        let (Some(first), Some(last)) = (order.first(), order.last()) else {
            continue;
        };
        let width = value(*last) - value(*first);
        for end in [*first, *last] {
            if let Some(room) = rooms.get_mut(end) {
                *room = f64::INFINITY;
            }
        }
        for triple in order.windows(3) {
            if let [before, at, after] = triple
                && let Some(room) = rooms.get_mut(*at)
                && width > 0.0
                && width.is_finite()
            {
                *room += (value(*after) - value(*before)) / width;
            }
        }
    }
    rooms
}

/// Where each member stands among all.
pub(crate) fn standings(members: &[Member]) -> Vec<Standing> {
    let worst = Standing {
        front: usize::MAX,
        room: 0.0,
    };
    let mut standings = vec![worst; members.len()];
    for (front, places) in fronts(members).iter().enumerate() {
        for (at, room) in places.iter().zip(rooms(members, places)) {
            if let Some(standing) = standings.get_mut(*at) {
                *standing = Standing { front, room };
            }
        }
    }
    standings
}

/// The numbers of the `count` members that survive, ascending.
pub(crate) fn survivors(members: &[Member], count: usize, thinning: Thinning<'_>) -> Vec<u64> {
    let mut chosen: Vec<usize> = Vec::with_capacity(count);
    let mut last = Vec::new();
    for front in fronts(members) {
        if chosen.len() + front.len() > count {
            last = front;
            break;
        }
        chosen.extend(front);
    }
    let wanted = count - chosen.len();
    match thinning {
        Thinning::Crowding => {
            let rooms = rooms(members, &last);
            let mut ranked: Vec<(f64, usize)> = rooms.into_iter().zip(last).collect();
            ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            chosen.extend(ranked.into_iter().take(wanted).map(|(_, at)| at));
        }
        Thinning::Directions(niches, rng) => niches.fill(members, &mut chosen, last, wanted, rng),
    }
    let numbers = chosen.iter().filter_map(|at| members.get(*at));
    let mut numbers: Vec<u64> = numbers.map(|member| member.number).collect();
    numbers.sort_unstable();
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(number: u64, values: &[f64], violation: f64) -> Member {
        Member {
            number,
            values: values.to_vec(),
            violation,
        }
    }

    #[test]
    fn fronts_come_before_room_and_feasible_ones_before_all_others() {
        let members = [
            member(0, &[9.0, 9.0], 0.0),
            member(1, &[0.0, 0.0], 2.0),
            member(2, &[0.0, 0.0], 1.0),
            member(3, &[1.0, 2.0], 0.0),
            member(4, &[2.0, 1.0], 0.0),
        ];
        let kept = |count| survivors(&members, count, Thinning::Crowding);
        assert_eq!(kept(2), [3, 4]);
        assert_eq!(kept(3), [0, 3, 4]);
        assert_eq!(kept(4), [0, 2, 3, 4]);
        assert_eq!(kept(9), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn the_ends_of_a_front_and_its_lonely_members_stay() {
        let places = [0.0, 0.1, 0.12, 0.14, 0.6, 1.0];
        let members: Vec<Member> = (0..)
            .zip(places)
            .map(|(number, x)| member(number, &[x, 1.0 - x], 0.0))
            .collect();
        assert_eq!(survivors(&members, 3, Thinning::Crowding), [0, 4, 5]);
        let standings = standings(&members);
        assert!(standings[4].is_before(&standings[2]));
        assert!(!standings[2].is_before(&standings[4]));
    }

    #[test]
    fn of_one_objective_the_least_values_survive() {
        let members: Vec<Member> = (0..)
            .zip([5.0, 1.0, f64::INFINITY, 3.0, 1.0])
            .map(|(number, value)| member(number, &[value], 0.0))
            .collect();
        assert_eq!(survivors(&members, 3, Thinning::Crowding), [1, 3, 4]);
    }
}
