//! The protocol as it is, within bounds: no state breaks a promise.
//!
//! Each test also asserts how many states there were at least, since a mistake that cuts the search short
//! would find no fault either.

use super::rules::{Cleanup, HeadRead, Rules};
use super::search::{Search, loses_or_shares};

fn assert_holds(rules: &Rules, states_min: usize) -> Search {
    let search = match Search::run(rules, loses_or_shares) {
        Ok(search) => search,
        Err(found) => panic!("{:?} after\n{}", found.fault, found.trace),
    };
    println!("{} states, {} steps", search.states(), search.steps);
    assert!(search.states() >= states_min, "{} states", search.states());
    search
}

fn assert_progress(search: &Search) {
    if let Err(stuck) = search.assert_progress() {
        panic!("one contender cannot publish after\n{}", stuck.trace);
    }
}

#[test]
fn no_stall_or_crash_of_three_contenders_loses_or_doubles_an_acknowledged_operation() {
    assert_holds(&Rules::PRODUCT, 11_800_000);
}

#[test]
fn no_stall_or_crash_in_a_series_of_leases_and_no_lying_answer_loses_or_doubles_an_operation() {
    let rules = Rules {
        contenders: 2,
        operations: 2,
        acquisitions: 3,
        generations: 4,
        lies: 1,
        ..Rules::PRODUCT
    };
    assert_holds(&rules, 8_200_000);
}

#[test]
fn a_contender_alone_can_publish_wherever_two_others_have_crashed() {
    let rules = Rules {
        generations: 2,
        ..Rules::PRODUCT
    };
    assert_progress(&assert_holds(&rules, 499_000));
}

#[test]
fn a_contender_alone_can_publish_wherever_in_a_series_of_leases_another_has_crashed() {
    let rules = Rules {
        contenders: 2,
        acquisitions: 3,
        generations: 4,
        lies: 1,
        ..Rules::PRODUCT
    };
    assert_progress(&assert_holds(&rules, 800_000));
}

#[test]
fn comparing_heads_and_late_cleaning_are_needed_only_because_listings_take_time() {
    let rules = Rules {
        head_read: HeadRead::AfterAcquiring,
        cleanup: Cleanup::AllButTheNewest,
        has_slow_listings: false,
        ..Rules::PRODUCT
    };
    let in_series = Rules {
        contenders: 2,
        operations: 2,
        acquisitions: 3,
        ..rules
    };
    assert_holds(&in_series, 520_000);
    let at_once = Rules {
        acquisitions: 1,
        ..rules
    };
    assert_holds(&at_once, 211_000);
}

#[test]
fn comparing_heads_is_needed_only_because_old_generations_are_removed() {
    let rules = Rules {
        contenders: 2,
        operations: 2,
        acquisitions: 3,
        generations: 4,
        head_read: HeadRead::AfterAcquiring,
        cleanup: Cleanup::Never,
        ..Rules::PRODUCT
    };
    assert_holds(&rules, 158_000);
}

#[test]
fn a_head_read_between_the_removal_of_the_tickets_and_the_next_generation_is_early_enough() {
    let rules = Rules {
        contenders: 2,
        operations: 2,
        acquisitions: 3,
        head_read: HeadRead::BetweenUnlinkingAndMaking,
        cleanup: Cleanup::AllButTheNewest,
        has_slow_listings: false,
        ..Rules::PRODUCT
    };
    assert_holds(&rules, 300_000);
}
