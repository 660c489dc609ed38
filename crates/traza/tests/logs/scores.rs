//! What scores add up to. The numbers are those that the released peer answers to the same scores.

use traza::json::Value;
use traza::logs::annotation::Annotation;
use traza::logs::eval::scores::{Numbers, ScoreDiff, ScoreSummary, compare, summarise};

/// `example name value time trace` per line.
fn scores(experiment_id: u64, lines: &str) -> Vec<Annotation> {
    let score = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        Annotation {
            trace_id: fields.get(4).copied().unwrap_or_default().to_owned(),
            span_id: String::new(),
            tenant: String::new(),
            session_id: String::new(),
            experiment_id: Some(experiment_id),
            example_id: fields[0].to_owned(),
            name: fields[1].to_owned(),
            value: Value::parse(fields[2].as_bytes()).unwrap(),
            source: String::new(),
            comment: String::new(),
            timestamp_ns: fields[3].parse().unwrap(),
        }
    };
    lines.trim().lines().map(score).collect()
}

fn base() -> Vec<Annotation> {
    scores(
        1,
        r#"
        a q 0.1 5
        a q 0.9 3
        b q 0.3 5 t1
        b q 0.4 5 t2
        c q "0.7" 5
        d q true 5
        e q null 5
        f q 2 5
        a label "x" 1
        b label "y" 1
        c label {"k":[1,2]} 1
        a ok true 1
        b ok false 1
        c ok 1 1
        a only1 1 1"#,
    )
}

fn candidate() -> Vec<Annotation> {
    scores(
        2,
        r#"
        a q 0.2 5
        b q 0.4 5
        c q 0.7 5
        d q 1 5
        e q null 9
        a label "x" 2
        b label "z" 2
        c label {"k":[1,2]} 2
        d label "n" 2
        a ok false 1
        b ok true 1
        c ok true 1
        f zz 1e300 1
        e zz 1e300 1
        d zz -3 1"#,
    )
}

fn summary(
    name: &str,
    examples: usize,
    numbers: Option<[f64; 5]>,
    rate: Option<f64>,
) -> ScoreSummary {
    ScoreSummary {
        name: name.to_owned(),
        examples,
        numbers: numbers.map(|[mean, min, max, p50, p95]| Numbers {
            mean,
            min,
            max,
            p50,
            p95,
        }),
        true_rate: rate,
    }
}

#[test]
fn scores_are_summed_by_name_and_one_of_each_example_counts() {
    let third = 2.0 / 3.0;
    assert_eq!(
        summarise(&base()),
        [
            summary("label", 3, None, None),
            summary("ok", 3, Some([third, 0.0, 1.0, 1.0, 1.0]), Some(0.5)),
            summary("only1", 1, Some([1.0; 5]), None),
            summary("q", 6, Some([0.875, 0.1, 2.0, 1.0, 2.0]), Some(1.0)),
        ]
    );
    assert_eq!(
        summarise(&candidate()),
        [
            summary("label", 4, None, None),
            summary("ok", 3, Some([third, 0.0, 1.0, 1.0, 1.0]), Some(third)),
            summary("q", 5, Some([0.575, 0.2, 1.0, 0.7, 1.0]), None),
            summary(
                "zz",
                3,
                Some([2e300 / 3.0, -3.0, 1e300, 1e300, 1e300]),
                None
            ),
        ]
    );
    let huge = scores(1, "a q 1.7e308 1\nb q 1.7e308 1");
    let mean = summarise(&huge)[0].numbers.unwrap().mean;
    assert!((mean - 1.7e308).abs() < 1e293, "{mean}");
    let equal = scores(1, "a q 1 1\na q 2 1");
    assert_eq!(summarise(&equal), [summary("q", 1, Some([2.0; 5]), None)]);
    assert_eq!(summarise(&[]), []);
}

#[test]
fn two_experiments_are_compared_example_by_example() {
    let diffs = compare(&base(), &candidate());
    let names = |names: &[&str]| -> Vec<String> { names.iter().map(|n| (*n).to_owned()).collect() };
    let [label, ok, only1, q, zz] = diffs.as_slice() else {
        panic!("{diffs:?}");
    };
    assert_eq!(
        *label,
        ScoreDiff {
            name: "label".to_owned(),
            changed: names(&["b"]),
            only_candidate: names(&["d"]),
            unchanged: 2,
            ..ScoreDiff::default()
        }
    );
    assert_eq!(
        (&ok.improved, &ok.regressed),
        (&names(&["b"]), &names(&["a"]))
    );
    assert_eq!((ok.unchanged, ok.delta()), (1, Some(0.0)));
    assert_eq!(
        (&only1.only_base, only1.mean_base),
        (&names(&["a"]), Some(1.0))
    );
    assert_eq!((only1.mean_candidate, only1.delta()), (None, None));
    assert_eq!((&q.improved, &q.regressed), (&names(&["a"]), &names(&[])));
    // A text is no number, and true is 1.
    assert_eq!((&q.changed, q.unchanged), (&names(&["c"]), 3));
    assert_eq!(q.delta(), Some(-0.300_000_000_000_000_04));
    assert_eq!(zz.only_candidate, names(&["d", "e", "f"]));
    for same in compare(&base(), &base()) {
        let lists = [&same.improved, &same.regressed, &same.changed];
        assert!(lists.iter().all(|list| list.is_empty()), "{same:?}");
        assert!(same.delta().is_none_or(|delta| delta == 0.0));
    }
}
