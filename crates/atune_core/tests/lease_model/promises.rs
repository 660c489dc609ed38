//! The protocol as it is, within bounds: no state breaks a promise.
//!
//! Each test also asserts how many states there were at least, since a mistake that cuts the search short
//! would find no fault either.

use super::rules::{Cleanup, HeadRead, Rules, TakesBack};
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
    assert_holds(&Rules::PRODUCT, 12_000_000);
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
    assert_holds(&rules, 8_160_000);
}

#[test]
fn a_directory_that_is_used_again_while_two_others_stall_in_it_loses_or_doubles_no_operation() {
    let rules = Rules {
        operations: 2,
        acquisitions: 3,
        acquisitions_in_all: 3,
        ..Rules::PRODUCT
    };
    assert_holds(&rules, 3_110_000);
}

#[test]
fn a_ticket_folder_of_three_contenders_that_vanishes_costs_a_lease_and_no_operation() {
    let rules = Rules {
        generations: 2,
        vanishing: 1,
        ..Rules::PRODUCT
    };
    assert_holds(&rules, 2_360_000);
}

#[test]
fn a_ticket_folder_that_vanishes_in_a_series_of_leases_costs_a_lease_and_no_operation() {
    let rules = Rules {
        contenders: 2,
        operations: 2,
        acquisitions: 3,
        vanishing: 1,
        ..Rules::PRODUCT
    };
    assert_holds(&rules, 2_940_000);
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
    assert_progress(&assert_holds(&rules, 1_246_000));
}

#[test]
fn comparing_heads_and_late_cleaning_are_needed_only_because_listings_take_time() {
    let rules = Rules {
        head_read: HeadRead::AfterAcquiring,
        cleanup: Cleanup::AllButTheNewest,
        takes_back: TakesBack::AllButTheNewest,
        has_slow_listings: false,
        ..Rules::PRODUCT
    };
    let in_series = Rules {
        contenders: 2,
        operations: 2,
        acquisitions: 3,
        ..rules
    };
    assert_holds(&in_series, 569_000);
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
        takes_back: TakesBack::Never,
        ..Rules::PRODUCT
    };
    assert_holds(&rules, 121_000);
}

#[test]
fn a_head_read_between_the_removal_of_the_tickets_and_the_next_generation_is_early_enough() {
    let rules = Rules {
        contenders: 2,
        operations: 2,
        acquisitions: 3,
        head_read: HeadRead::BetweenUnlinkingAndMaking,
        cleanup: Cleanup::AllButTheNewest,
        takes_back: TakesBack::AllButTheNewest,
        has_slow_listings: false,
        ..Rules::PRODUCT
    };
    assert_holds(&rules, 591_000);
}
