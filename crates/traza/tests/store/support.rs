//! Stores on the simulated disk, and spans for them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use durable::{Fs, ManualClock};
use durable_sim::SimFs;
use traza::json::{Object, Value};
use traza::span::{Event, Span};
use traza::store::{Filter, Query, Result, Store, StoreOptions, Upkeep};

pub(crate) const DIR: &str = "/store";

/// A store that does everything in the calling thread, so that its calls are the same every time.
pub(crate) fn open(fs: &SimFs, options: &StoreOptions) -> Result<Store> {
    let fs: Arc<dyn Fs> = Arc::new(fs.clone());
    let clock = Arc::new(ManualClock::new(1_750_000_000_000_000_000, 1_000));
    Store::open_with(fs, clock, Path::new(DIR), options.clone())
}

pub(crate) fn inline() -> StoreOptions {
    let mut options = StoreOptions::default();
    options.upkeep = Upkeep::Inline;
    options
}

/// Numbers that are the same in every run (`SplitMix64`).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[usize::try_from(self.below(from.len() as u64)).unwrap()]
    }
}

/// The identity of a span.
pub(crate) type Key = (String, String, String);

pub(crate) fn key(span: &Span) -> Key {
    (
        span.tenant.to_string(),
        span.trace_id.to_string(),
        span.span_id.to_string(),
    )
}

const WORDS: &[&str] = &["refund", "Booking", "cancel", "amber", "später", "x"];

/// A span out of few identities, so that many replace an earlier one. `version` tells them apart.
pub(crate) fn span(random: &mut Random, version: u64) -> Span {
    let start = 1_000 + random.below(50) * 10;
    let mut attributes = Object::from([("version".to_owned(), Value::from(version))]);
    if random.below(2) == 0 {
        let code = 200 + random.below(3) * 100;
        let code = match random.below(2) {
            0 => Value::from(code),
            _ => Value::from(code.to_string()),
        };
        attributes.insert("code".to_owned(), code);
    }
    if random.below(3) == 0 {
        let text = format!("{} {}\n{}", random.pick(WORDS), random.pick(WORDS), version);
        attributes.insert("text".to_owned(), Value::from(text));
    }
    if random.below(4) == 0 {
        let id = format!("s{}", random.below(3));
        attributes.insert("session.id".to_owned(), Value::from(id));
    }
    let events = match random.below(5) {
        0 => vec![Event {
            name: random.pick(WORDS).into(),
            timestamp_ns: start,
            attributes: Object::new(),
        }],
        _ => Vec::new(),
    };
    Span {
        trace_id: format!("trace-{}", random.below(12)).into(),
        span_id: format!("span-{}", random.below(6)).into(),
        tenant: random.pick(&["", "", "acme"]).into(),
        name: random.pick(&["chat", "tool", "http"]).into(),
        service: random.pick(&["bot", "gateway"]).into(),
        status: random.pick(&["ok", "error", ""]).into(),
        start_time_ns: start,
        end_time_ns: (start + random.below(100)).saturating_sub(5),
        attributes,
        events,
        ..Span::default()
    }
}

/// The version that [`span`] was given.
pub(crate) fn version(span: &Span) -> u64 {
    span.attributes.get("version").unwrap().as_u64().unwrap()
}

/// Every span of the store by its identity; no identity occurs twice.
pub(crate) fn everything(store: &Store) -> BTreeMap<Key, Arc<Span>> {
    let mut query = Query::new(Filter::default());
    query.limit = usize::MAX;
    let page = store.query(&query).unwrap();
    let count = page.spans.len();
    let all: BTreeMap<Key, Arc<Span>> = page
        .spans
        .into_iter()
        .map(|span| (key(&span), span))
        .collect();
    assert_eq!(all.len(), count, "an identity occurs twice");
    all
}
