//! Answers in the order of durations: how many matches are sorted, whatever the limit.

use durable_sim::SimFs;
use traza::json::{Object, Value};
use traza::span::Span;
use traza::store::{Filter, Query, SORT_MAX, Sort, StoreError};

use super::support::{inline, open};

/// The spans with these numbers; number `n` takes a thousand and `n` nanoseconds.
fn spans(numbers: std::ops::Range<usize>) -> Vec<Span> {
    numbers
        .map(|number| {
            let start = number as u64;
            Span {
                trace_id: format!("trace-{}", number / 10).into(),
                span_id: number.to_string().into(),
                name: "n".into(),
                service: "s".into(),
                start_time_ns: start,
                end_time_ns: 2 * start + 1_000,
                attributes: Object::from([("kind".to_owned(), Value::from("a"))]),
                ..Span::default()
            }
        })
        .collect()
}

/// From columns, and from the spans themselves: no column tells about an attribute.
fn questions() -> [Query; 2] {
    let mut by_attribute = Filter::default();
    let wanted = ("kind".to_owned(), Value::from("a"));
    by_attribute.attributes.push(wanted);
    [Filter::default(), by_attribute].map(|filter| {
        let mut query = Query::new(filter);
        query.limit = 2;
        query.sort = Some(Sort::DurationDescending);
        query
    })
}

#[test]
fn two_hundred_thousand_matches_are_sorted_and_one_more_is_refused() {
    let store = open(&SimFs::new(), &inline()).unwrap();
    for start in (0..SORT_MAX).step_by(5_000) {
        store.ingest(spans(start..start + 5_000)).unwrap();
    }
    for query in questions() {
        let found = store.query(&query).unwrap().spans;
        let numbers: Vec<u64> = found.iter().map(|span| span.start_time_ns).collect();
        assert_eq!(numbers, [199_999, 199_998]);
    }
    store.ingest(spans(SORT_MAX..SORT_MAX + 1)).unwrap();
    for query in questions() {
        let refused = store.query(&query).unwrap_err();
        assert!(
            matches!(refused, StoreError::TooManyToSort { max: SORT_MAX }),
            "{refused}"
        );
    }
    let slowest = store.snapshot().slowest(&Filter::default(), 1).unwrap();
    assert_eq!(slowest[0].start_time_ns, 200_000, "slowest has no ceiling");
}
