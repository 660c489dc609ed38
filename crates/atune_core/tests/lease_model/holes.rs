//! The protocol with one rule taken away: the search must find the hole that the rule closes.
//!
//! Each test prints its counterexample, one of the shortest that there are.

use super::protocol::Fault;
use super::rules::{Cleanup, HeadRead, MovesOut, Rules, TakesBack, Unlink};
use super::search::{Counterexample, Search, loses};

/// The protocol of the product, where listings are quick, to keep the counterexamples short.
const QUICK: Rules = Rules {
    has_slow_listings: false,
    ..Rules::PRODUCT
};

fn assert_loses(rules: &Rules, fault: Fault) {
    let Err(found) = Search::run(rules, loses) else {
        panic!("the search finds no hole");
    };
    assert_is(&found, fault);
}

fn assert_is(found: &Counterexample, fault: Fault) {
    println!("{:?} after\n{}", found.fault, found.trace);
    assert_eq!(found.fault, fault, "after\n{}", found.trace);
}

fn two(rules: Rules) -> Rules {
    Rules {
        contenders: 2,
        ..rules
    }
}

#[test]
fn the_search_finds_the_hole_of_fencing_by_the_rename_alone() {
    let rules = Rules {
        unlink: Unlink::Never,
        ..two(QUICK)
    };
    assert_loses(&rules, Fault::Overwritten);
}

#[test]
fn the_search_finds_the_hole_of_tickets_that_are_removed_after_the_next_generation_is_made() {
    let rules = Rules {
        unlink: Unlink::AfterMakingTheNext,
        ..QUICK
    };
    assert_loses(&rules, Fault::Overwritten);
}

#[test]
fn the_search_finds_the_hole_of_a_ticket_directory_that_two_owners_share() {
    let rules = Rules {
        shares_ticket_directory: true,
        moves_in: false,
        takes_back: TakesBack::Never,
        ..QUICK
    };
    assert_loses(&rules, Fault::Overwritten);
}

#[test]
fn the_search_finds_the_hole_of_acquiring_without_a_second_listing() {
    let rules = Rules {
        lists_again: false,
        ..two(QUICK)
    };
    assert_loses(&rules, Fault::Overwritten);
}

#[test]
fn the_search_finds_the_hole_of_a_head_that_is_read_before_the_first_listing_only() {
    let rules = Rules {
        head_read: HeadRead::BeforeListing,
        ..two(QUICK)
    };
    assert_loses(&rules, Fault::Overwritten);
}

#[test]
fn the_search_finds_the_hole_of_a_head_that_is_read_before_the_tickets_are_removed() {
    let rules = Rules {
        head_read: HeadRead::BeforeUnlinking,
        ..two(QUICK)
    };
    assert_loses(&rules, Fault::Overwritten);
}

#[test]
fn the_search_finds_the_hole_of_a_retry_that_does_not_look_into_the_head() {
    let rules = Rules {
        looks_before_retrying: false,
        lies: 1,
        ..two(QUICK)
    };
    assert_loses(&rules, Fault::Doubled);
}

#[test]
fn the_search_finds_the_hole_of_a_long_listing_while_others_clean_up() {
    let rules = Rules {
        head_read: HeadRead::AfterAcquiring,
        cleanup: Cleanup::AllButTheNewest,
        acquisitions: 3,
        ..two(Rules::PRODUCT)
    };
    assert_loses(&rules, Fault::Overwritten);
}

#[test]
fn comparing_heads_does_not_close_the_hole_of_a_long_listing_by_itself() {
    let rules = Rules {
        cleanup: Cleanup::AllButTheNewest,
        acquisitions: 3,
        ..two(Rules::PRODUCT)
    };
    assert_loses(&rules, Fault::Overwritten);
}

#[test]
fn cleaning_up_after_a_commit_only_does_not_close_the_hole_of_a_long_listing_by_itself() {
    let rules = Rules {
        head_read: HeadRead::AfterAcquiring,
        operations: 2,
        acquisitions: 3,
        ..two(Rules::PRODUCT)
    };
    assert_loses(&rules, Fault::Overwritten);
}

#[test]
fn the_search_finds_the_hole_of_directories_that_are_taken_back_before_anything_was_published() {
    let rules = Rules {
        takes_back: TakesBack::AllButTheNewest,
        acquisitions: 3,
        ..two(Rules::PRODUCT)
    };
    assert_loses(&rules, Fault::Overwritten);
}

#[test]
fn the_search_finds_the_hole_of_moving_out_although_the_head_has_changed() {
    let rules = Rules {
        moves_out: MovesOut::Always,
        vanishing: 1,
        operations: 2,
        acquisitions: 3,
        ..two(QUICK)
    };
    assert_loses(&rules, Fault::Overwritten);
}

#[test]
fn the_search_finds_that_a_leftover_stops_everybody_if_held_wins_over_fenced() {
    let rules = Rules {
        held_wins_a_tie: true,
        acquisitions: 3,
        ..two(QUICK)
    };
    let Ok(search) = Search::run(&rules, loses) else {
        panic!("operations are lost");
    };
    let Err(stuck) = search.assert_progress() else {
        panic!("the search finds nobody stuck");
    };
    assert_is(&stuck, Fault::Stuck);
}
