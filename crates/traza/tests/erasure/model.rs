//! Random histories with random erasures against a plain model.

use std::collections::BTreeMap;

use durable_sim::SimFs;
use proptest::prelude::*;
use traza::json::Value;
use traza::logs::tombstone::{SpanKey, Subject};
use traza::payload::reference;
use traza::span::Span;
use traza::store::{Filter, Query, Store};

use super::furnished::{address, key, options, span, with};
use super::support::{NOW, open};

const TEXTS: [&str; 2] = [
    "the first of two long texts",
    "the second of two long texts",
];

#[derive(Clone, Debug)]
enum Act {
    Ingest(Vec<Span>),
    Flush,
    Erase(Subject),
    Resume,
    Reopen,
    Compact,
}

fn spans() -> impl Strategy<Value = Span> {
    let parts = (
        0..2usize,
        0..3u64,
        0..2u64,
        0..3usize,
        0..4usize,
        any::<u64>(),
    );
    parts.prop_map(|(tenant, trace, id, session, text, version)| {
        let tenant = ["", "acme"][tenant];
        let mut made = span(tenant, &format!("t{trace}"), &format!("s{id}"), version);
        if session > 0 {
            made = with(made, "session.id", ["chat", "talk"][session - 1]);
        }
        match TEXTS.get(text) {
            Some(text) => with(made, "text", text),
            None => made,
        }
    })
}

fn subjects() -> impl Strategy<Value = Subject> {
    let parts = (0..5usize, 0..2usize, 0..3u64, 0..2u64, 0..2usize);
    parts.prop_map(|(kind, tenant, trace, id, other)| {
        let tenant = ["", "acme"][tenant].to_owned();
        let trace_id = format!("t{trace}");
        match kind {
            0 => Subject::Trace { trace_id, tenant },
            1 => Subject::Span {
                trace_id,
                span_id: format!("s{id}"),
                tenant,
            },
            2 => Subject::Session {
                session_id: ["chat", "talk"][other].to_owned(),
                tenant,
            },
            3 => Subject::Payload {
                reference: address(TEXTS[other]).to_string(),
            },
            _ => Subject::Tenant {
                tenant: "acme".to_owned(),
            },
        }
    })
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        5 => prop::collection::vec(spans(), 1..6).prop_map(Act::Ingest),
        2 => Just(Act::Flush),
        2 => subjects().prop_map(Act::Erase),
        1 => Just(Act::Resume),
        1 => Just(Act::Reopen),
        1 => Just(Act::Compact),
    ];
    prop::collection::vec(act, 1..25)
}

/// What a span has that a subject can be about.
fn text_of(span: &Span) -> Option<&str> {
    let object = span.attributes.get("text")?.as_object()?;
    object.get("erased").is_none().then_some(())?;
    object.get("$payload")?.as_str()
}

/// The last version of every span, and what is pending with the spans that it was found to cover.
#[derive(Default)]
struct Model {
    spans: BTreeMap<SpanKey, Span>,
    pending: Vec<(Subject, Vec<SpanKey>)>,
}

impl Model {
    fn is_in(subject: &Subject, span: &Span) -> bool {
        match subject {
            Subject::Trace { trace_id, tenant } => {
                span.tenant == *tenant && span.trace_id == *trace_id
            }
            Subject::Span {
                trace_id,
                span_id,
                tenant,
            } => span.tenant == *tenant && span.trace_id == *trace_id && span.span_id == *span_id,
            Subject::Session { session_id, tenant } => {
                let session = span.attributes.get("session.id").and_then(Value::as_str);
                span.tenant == *tenant && session == Some(session_id)
            }
            Subject::Payload { reference } => text_of(span) == Some(reference),
            Subject::Tenant { tenant } => span.tenant == *tenant,
        }
    }

    fn drops(&self, span: &Span) -> bool {
        self.pending.iter().any(|(subject, keys)| match subject {
            Subject::Payload { .. } => false,
            subject => Self::is_in(subject, span) || keys.contains(&key(span)),
        })
    }

    fn redacted(subject: &Subject, mut span: Span) -> Span {
        if matches!(subject, Subject::Payload { .. }) && Self::is_in(subject, &span) {
            let mut object = span.attributes["text"].as_object().unwrap().clone();
            object.remove("preview");
            object.insert("erased".to_owned(), Value::Bool(true));
            let object = Value::Object(object);
            span.attributes.insert("text".to_owned(), object);
        }
        span
    }

    fn ingest(&mut self, spans: &[Span]) {
        for span in spans {
            if self.drops(span) {
                continue;
            }
            let mut span = span.clone();
            if let Some(Value::String(text)) = span.attributes.get("text") {
                let object = reference(text, address(text));
                span.attributes.insert("text".to_owned(), object);
            }
            for (subject, _) in &self.pending {
                span = Self::redacted(subject, span);
            }
            self.spans.insert(key(&span), span);
        }
    }

    fn erase(&mut self, subject: Subject) {
        let covered = self.spans.values();
        let keys = covered.filter(|span| Self::is_in(&subject, span)).map(key);
        let keys = keys.collect();
        self.pending.push((subject, keys));
    }

    fn settle(&mut self) {
        let spans = std::mem::take(&mut self.spans).into_iter();
        let left: Vec<_> = spans.filter(|(_, span)| !self.drops(span)).collect();
        self.spans = left.into_iter().collect();
        for (subject, _) in self.pending.drain(..) {
            let spans = std::mem::take(&mut self.spans).into_iter();
            self.spans = spans
                .map(|(key, span)| (key, Self::redacted(&subject, span)))
                .collect();
        }
    }

    fn shown(&self) -> BTreeMap<SpanKey, String> {
        let is_hidden = |span: &Span| {
            self.drops(span) || self.pending.iter().any(|(s, _)| Self::is_in(s, span))
        };
        let spans = self.spans.iter().filter(|(_, span)| !is_hidden(span));
        spans
            .map(|(key, span)| (key.clone(), span.to_json()))
            .collect()
    }
}

fn shown(store: &Store) -> BTreeMap<SpanKey, String> {
    let mut query = Query::new(Filter::default());
    query.limit = usize::MAX;
    let spans = store.query(&query).unwrap().spans;
    spans
        .iter()
        .map(|span| (key(span), span.to_json()))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_histories_with_erasures_show_what_a_plain_model_shows(acts in acts()) {
        let fs = SimFs::new();
        let mut options = options();
        options.compaction = Some(traza::store::Compaction { fanout: 2, ..Default::default() });
        let mut store = open(&fs, &options).unwrap();
        let mut model = Model::default();
        for act in acts {
            match act {
                Act::Ingest(spans) => {
                    model.ingest(&spans);
                    store.ingest(spans).unwrap();
                }
                Act::Flush => drop(store.flush().unwrap()),
                Act::Compact => drop(store.compact().unwrap()),
                Act::Erase(subject) => {
                    model.erase(subject.clone());
                    store.erase(subject, NOW).unwrap();
                }
                Act::Resume => {
                    model.settle();
                    store.resume_erasures().unwrap();
                }
                Act::Reopen => {
                    drop(store);
                    store = open(&fs, &options).unwrap();
                }
            }
            prop_assert_eq!(shown(&store), model.shown());
        }
        store.resume_erasures().unwrap();
        model.settle();
        prop_assert_eq!(shown(&store), model.shown());
        for erasure in store.erasures() {
            prop_assert!(erasure.settle.is_some());
        }
    }
}
