//! Promise: what came of a command is told whole, up to where something else set the variable.

use omniloop_core::analysis::effects_of_with;
use omniloop_core::journal::FrameKind;
use serde_json::{Value, json};

use super::support::Disk;

fn story() -> Vec<(FrameKind, Value)> {
    vec![
        (
            FrameKind::Input,
            json!({"channel": "ui", "value": 1, "correlation_id": "c-1"}),
        ),
        (
            FrameKind::Mutation,
            json!({"name": "arm.gain", "old": 1, "new": 2, "source": "ui", "correlation_id": "c-1"}),
        ),
        (FrameKind::Telemetry, json!({"arm": {"gain": 1}})),
        (FrameKind::Telemetry, json!({"arm": {"gain": 2.0}})),
        (FrameKind::Telemetry, json!({"arm": {"gain": 2}})),
        (
            FrameKind::Control,
            json!({"command": "watch_trip", "name": "arm.gain"}),
        ),
        (
            FrameKind::Control,
            json!({"command": "watch_trip", "name": "other"}),
        ),
        (
            FrameKind::Guardrail,
            json!({"name": "arm.gain", "requested": 3, "applied": 2}),
        ),
        (
            FrameKind::Mutation,
            json!({"name": "arm.gain", "old": 2, "new": 5, "source": "cli", "correlation_id": "c-2"}),
        ),
        (
            FrameKind::Guardrail,
            json!({"name": "arm.gain", "requested": 9, "applied": 5}),
        ),
        (FrameKind::Telemetry, json!({"arm": {"gain": 2}})),
    ]
}

#[test]
fn a_change_shows_in_the_first_telemetry_with_its_value_and_meets_what_came_before_the_next_change()
{
    for rotate in [None, Some(3)] {
        let disk = Disk::new();
        disk.run("run.omni", &story(), rotate);
        let found = effects_of_with(&mut disk.open("run.omni"), "c-1").unwrap();
        let kinds: Vec<_> = found.records.iter().map(|record| record.kind).collect();
        assert_eq!(kinds, [FrameKind::Input, FrameKind::Mutation]);
        let [effect] = &found.effects[..] else {
            panic!("{:?}", found.effects)
        };
        assert_eq!(effect.name, "arm.gain");
        assert_eq!(effect.seen.map(|place| place.tick), Some(2));
        assert_eq!(effect.trips.len(), 1);
        assert_eq!(effect.guardrails.len(), 1);
        assert_eq!(effect.guardrails[0].payload["requested"], 3);
        assert_eq!(effect.ended.map(|place| place.tick), Some(3));
    }
}

#[test]
fn a_change_that_never_shows_says_so() {
    let disk = Disk::new();
    disk.run("run.omni", &story()[..3], None);
    let found = effects_of_with(&mut disk.open("run.omni"), "c-1").unwrap();
    assert_eq!(
        (found.effects[0].seen, found.effects[0].ended),
        (None, None)
    );
}

#[test]
fn an_id_that_no_record_has_has_no_effects() {
    let disk = Disk::new();
    disk.run("run.omni", &story(), None);
    let found = effects_of_with(&mut disk.open("run.omni"), "c").unwrap();
    assert!(found.records.is_empty() && found.effects.is_empty());
}
