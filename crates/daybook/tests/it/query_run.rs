//! `query-run` finds the ticks at which a condition holds.

use crate::support::Scratch;

/// A run in which the loss rises while the rate falls, rotated after ten records.
fn told(scratch: &Scratch) {
    let script = r#"i=1; while [ $i -le 30 ]; do echo "{\"loss\":$i,\"opt\":{\"lr\":$((30-i))}}"; i=$((i+1)); done
        echo '{"loss":NaN}'; echo 'no object'"#;
    scratch.record(&["--rotate", "10"], script).expect(0);
}

#[test]
fn the_ticks_are_shown_with_the_variables_of_the_condition() {
    let scratch = Scratch::new();
    told(&scratch);
    let ran = scratch
        .daybook(&["query-run", "run.omni", "loss > 20 and opt.lr > 7"])
        .expect(0);
    let lines: Vec<_> = ran.out.lines().collect();
    assert_eq!(lines.len(), 2, "{}", ran.out);
    assert!(lines[0].starts_with("tick 21 "), "{}", lines[0]);
    assert!(lines[1].ends_with("  loss=22  opt.lr=8"), "{}", lines[1]);
    assert!(
        ran.err.contains("it holds for 2 of 31 records"),
        "{}",
        ran.err
    );
}

#[test]
fn json_is_one_document_with_whole_payloads_and_the_count_of_all() {
    let scratch = Scratch::new();
    told(&scratch);
    let query = [
        "query-run",
        "run.omni",
        "loss >= 10",
        "--json",
        "--limit",
        "3",
    ];
    let found = scratch.daybook(&query).expect(0).json();
    assert_eq!(
        (&found["matched"], &found["shown"]),
        (&21.into(), &3.into())
    );
    assert_eq!(found["looked_at"], 31);
    let ticks: Vec<_> = found["records"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| &r["tick"])
        .collect();
    assert_eq!(ticks, [10, 11, 12]);
    assert_eq!(found["records"][0]["payload"]["opt"]["lr"], 20);
    let none = ["query-run", "run.omni", "loss > 1000", "--json"];
    let found = scratch.daybook(&none).expect(0).json();
    assert_eq!(found["records"].as_array().unwrap().len(), 0);
}

#[test]
fn kinds_ticks_and_counting_narrow_it_down() {
    let scratch = Scratch::new();
    told(&scratch);
    let count = |args: &[&str]| {
        let mut all = vec!["query-run", "run.omni", "--count"];
        all.extend(args);
        scratch.daybook(&all).expect(0).out.trim().to_owned()
    };
    assert_eq!(count(&["loss > 0"]), "30");
    assert_eq!(count(&["is_nan(loss)"]), "1");
    assert_eq!(count(&["loss > 0", "--ticks", "11..20"]), "10");
    assert_eq!(count(&["command = 'log'", "--kind", "control"]), "1");
    assert_eq!(
        count(&[
            "kind in ('control', 'telemetry')",
            "--kind",
            "control",
            "--kind",
            "telemetry"
        ]),
        "32"
    );
}

#[test]
fn what_is_no_condition_is_told_and_damage_is_no_shorter_answer() {
    let scratch = Scratch::new();
    told(&scratch);
    let odd = scratch
        .daybook(&["query-run", "run.omni", "loss >"])
        .expect(2);
    assert!(
        odd.err.contains("the condition is not understood"),
        "{}",
        odd.err
    );
    scratch.change("run.1.omni", |bytes| bytes[80] ^= 1);
    scratch
        .daybook(&["query-run", "run.omni", "loss > 1"])
        .expect(1);
}
