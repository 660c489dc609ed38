//! A store with something of every kind, and what is left of it after each erasure.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use durable::{Fs as _, read_all};
use durable_sim::{BoxError, SimFs};
use traza::json::{Object, Value};
use traza::logs::tombstone::{SpanKey, Subject};
use traza::payload::{ContentAddress, live_references, reference};
use traza::segment::Segment;
use traza::span::Span;
use traza::store::analytics::{Group, Scope};
use traza::store::{AnnotationFilter, Filter, Query, Store, StoreOptions};
use traza::wal;

use super::evals::version_of;
use super::support::{DIR, NOW, annotation, inline};

pub(crate) const SHARED: &str = "a text that two traces share";
pub(crate) const OWN: &str = "a text of one span only";
pub(crate) const OF_TENANT: &str = "a text of the tenant only";

pub(crate) fn options() -> StoreOptions {
    let mut options = inline();
    options.payload_threshold = Some(16);
    options
}

pub(crate) fn address(text: &str) -> ContentAddress {
    ContentAddress::of(text.as_bytes())
}

pub(crate) fn span(tenant: &str, trace_id: &str, span_id: &str, version: u64) -> Span {
    Span {
        trace_id: trace_id.into(),
        span_id: span_id.into(),
        tenant: tenant.into(),
        name: "work".into(),
        service: "bot".into(),
        start_time_ns: NOW,
        end_time_ns: NOW + 5,
        attributes: Object::from([("version".to_owned(), Value::from(version))]),
        ..Span::default()
    }
}

pub(crate) fn with(mut span: Span, key: &str, value: &str) -> Span {
    span.attributes.insert(key.to_owned(), Value::from(value));
    span
}

/// The spans that arrive one after the other: three batches that are sealed, and one that is not.
pub(crate) fn batches() -> [Vec<Span>; 4] {
    let in_room = |span| with(span, "session.id", "chat-room");
    [
        vec![
            with(span("", "trace-one", "span-a", 1), "text", SHARED),
            with(span("", "trace-one", "span-b", 1), "text", OWN),
            with(span("acme", "trace-one", "span-a", 1), "text", OF_TENANT),
            in_room(span("", "trace-two", "left-the-room", 1)),
            span("", "trace-two", "entered-the-room", 1),
            in_room(span("", "trace-two", "in-the-room", 1)),
        ],
        vec![
            span("", "trace-two", "left-the-room", 2),
            with(span("", "trace-three", "span-x", 1), "text", SHARED),
        ],
        vec![span("acme", "trace-four", "span-y", 1)],
        vec![
            in_room(span("", "trace-two", "entered-the-room", 2)),
            span("", "trace-five", "span-z", 1),
        ],
    ]
}

const ANNOTATIONS: [&str; 6] = [
    r#"{"trace_id":"trace-one","name":"of the trace","value":1,"timestamp_ns":1}"#,
    r#"{"trace_id":"trace-one","tenant":"acme","name":"of acme","value":1,"timestamp_ns":1}"#,
    r#"{"trace_id":"trace-two","span_id":"left-the-room","name":"of the span","value":1,"timestamp_ns":1}"#,
    r#"{"trace_id":"trace-two","span_id":"in-the-room","name":"of a span there","value":1,"timestamp_ns":1}"#,
    r#"{"session_id":"chat-room","name":"of the session","value":1,"timestamp_ns":1}"#,
    r#"{"trace_id":"trace-five","name":"of another trace","value":1,"timestamp_ns":1}"#,
];

pub(crate) fn furnish(store: &Store) {
    let [first, second, third, last] = batches();
    for sealed in [first, second, third] {
        store.ingest(sealed).unwrap();
        store.flush().unwrap();
    }
    for json in ANNOTATIONS {
        store.annotate(annotation(json)).unwrap();
    }
    for (tenant, text) in [("", SHARED), ("acme", OF_TENANT)] {
        let dataset_id = store.create_dataset(tenant, "cases", NOW).unwrap();
        let examples = [("one", reference(text, address(text)))];
        let version = version_of(dataset_id, examples);
        let created = store.create_version(version, |_| Ok(()), NOW).unwrap();
        store
            .create_experiment(dataset_id, &created.version_id, "", None, NOW)
            .unwrap();
    }
    store.ingest(last).unwrap();
}

/// An erasure, and what it means for the furnished store.
pub(crate) struct Case {
    pub(crate) subject: Subject,
    /// The spans that go, or that keep a marker.
    pub(crate) spans: &'static [[&'static str; 3]],
    /// The names of the annotations that go.
    pub(crate) annotations: &'static [&'static str],
    /// The texts whose files go.
    pub(crate) texts: &'static [&'static str],
}

impl Case {
    pub(crate) fn is_payload(&self) -> bool {
        matches!(self.subject, Subject::Payload { .. })
    }

    fn covers(&self, span: &Span) -> bool {
        let key = [&span.tenant, &span.trace_id, &span.span_id].map(traza::json::Text::as_str);
        self.spans.contains(&key)
    }

    /// True for a record that must not be on the disk any more.
    fn is_doomed(&self, span: &Span) -> bool {
        if self.is_payload() {
            let doomed = address(SHARED).to_string();
            return live_references(span).any(|reference| reference == doomed);
        }
        let was_there = matches!(self.subject, Subject::Session { .. })
            && span.attributes.contains_key("session.id");
        was_there || self.covers(span)
    }
}

pub(crate) fn cases() -> [Case; 5] {
    let default = String::new;
    [
        Case {
            subject: Subject::Trace {
                trace_id: "trace-one".into(),
                tenant: default(),
            },
            spans: &[["", "trace-one", "span-a"], ["", "trace-one", "span-b"]],
            annotations: &["of the trace"],
            texts: &[OWN],
        },
        Case {
            subject: Subject::Span {
                trace_id: "trace-two".into(),
                span_id: "left-the-room".into(),
                tenant: default(),
            },
            spans: &[["", "trace-two", "left-the-room"]],
            annotations: &["of the span"],
            texts: &[],
        },
        Case {
            subject: Subject::Session {
                session_id: "chat-room".into(),
                tenant: default(),
            },
            spans: &[
                ["", "trace-two", "in-the-room"],
                ["", "trace-two", "entered-the-room"],
            ],
            annotations: &["of the session", "of a span there"],
            texts: &[],
        },
        Case {
            subject: Subject::Payload {
                reference: address(SHARED).to_string(),
            },
            spans: &[["", "trace-one", "span-a"], ["", "trace-three", "span-x"]],
            annotations: &[],
            texts: &[SHARED],
        },
        Case {
            subject: Subject::Tenant {
                tenant: "acme".into(),
            },
            spans: &[
                ["acme", "trace-one", "span-a"],
                ["acme", "trace-four", "span-y"],
            ],
            annotations: &["of acme"],
            texts: &[OF_TENANT],
        },
    ]
}

/// What answers show of the spans.
pub(crate) type Visible = BTreeMap<SpanKey, String>;

pub(crate) fn key(span: &Span) -> SpanKey {
    SpanKey {
        tenant: span.tenant.to_string(),
        trace_id: span.trace_id.to_string(),
        span_id: span.span_id.to_string(),
    }
}

/// Every span that questions over all spans and over each trace show; both show the same.
pub(crate) fn visible(store: &Store) -> Visible {
    let mut query = Query::new(Filter::default());
    query.limit = usize::MAX;
    let page = store.query(&query).unwrap();
    let shown: Visible = page.spans.iter().map(|s| (key(s), s.to_json())).collect();
    assert_eq!(shown.len(), page.spans.len(), "an identity occurs twice");
    let spans = batches().into_iter().flatten();
    for trace_id in spans.map(|s| s.trace_id).collect::<BTreeSet<_>>() {
        let spans = store.get_trace(&trace_id, None).unwrap();
        let of_trace: Visible = spans.iter().map(|s| (key(s), s.to_json())).collect();
        let wanted = shown.iter().filter(|(key, _)| key.trace_id == trace_id);
        assert!(of_trace.iter().eq(wanted), "a trace shows something else");
    }
    shown
}

/// How many spans each way of counting finds; all ways find the same.
pub(crate) fn counted(store: &Store) -> u64 {
    let snapshot = store.snapshot();
    let every = Filter::default();
    let listed = snapshot.spans(&every).map(Result::unwrap).count() as u64;
    let by_service = snapshot
        .llm(Group::Service, &Scope::default(), usize::MAX)
        .unwrap()
        .iter()
        .map(|row| row.counters.spans)
        .sum::<u64>();
    let by_tenant = snapshot
        .tenants(None)
        .unwrap()
        .iter()
        .map(|each| each.spans)
        .sum::<u64>();
    let counts = [
        snapshot.durations(&every).unwrap().count(),
        snapshot.slowest(&every, 1_000).unwrap().len() as u64,
        by_service,
        by_tenant,
    ];
    assert_eq!(counts, [listed; 4]);
    listed
}

/// What the furnished store shows while the erasure is pending, and when it is settled.
pub(crate) fn expected(case: &Case, is_settled: bool) -> Visible {
    let mut newest: BTreeMap<SpanKey, Span> = BTreeMap::new();
    for mut span in batches().into_iter().flatten() {
        if let Some(Value::String(text)) = span.attributes.get("text") {
            let text = text.clone();
            let mut object = reference(&text, address(&text));
            if case.is_payload() && text == SHARED {
                object = Value::Object(Object::from([
                    (
                        "$payload".to_owned(),
                        Value::from(address(&text).to_string()),
                    ),
                    ("bytes".to_owned(), Value::from(text.len() as u64)),
                    ("erased".to_owned(), Value::Bool(true)),
                ]));
            }
            span.attributes.insert("text".to_owned(), object);
        }
        newest.insert(key(&span), span);
    }
    let stays = |span: &Span| !case.covers(span) || (case.is_payload() && is_settled);
    newest.retain(|_, span| stays(span));
    let shown = newest.into_iter();
    shown.map(|(key, span)| (key, span.to_json())).collect()
}

/// The names of all annotations that are shown, as recorded; without `also`, which a test adds.
pub(crate) fn annotations(store: &Store) -> BTreeSet<String> {
    let found = store.annotations(&AnnotationFilter::default()).into_iter();
    found.map(|each| each.name).collect()
}

pub(crate) fn expected_annotations(case: &Case) -> BTreeSet<String> {
    let all = ANNOTATIONS.iter().map(|json| annotation(json).name);
    all.filter(|name| !case.annotations.contains(&name.as_str()))
        .collect()
}

/// What answers show is right for a pending or settled erasure, or for none.
pub(crate) fn check_answers(store: &Store, case: &Case, is_settled: bool) -> Result<(), BoxError> {
    let (shown, wanted) = (visible(store), expected(case, is_settled));
    let is_right = if case.is_payload() && !is_settled {
        // A span comes back as soon as it has its marker.
        let redacted = expected(case, true);
        wanted.keys().all(|key| shown.contains_key(key))
            && shown
                .iter()
                .all(|(key, json)| redacted.get(key) == Some(json))
    } else {
        shown == wanted
    };
    if !is_right {
        return Err(format!("spans: {shown:#?}").into());
    }
    let count = counted(store);
    if count != shown.len() as u64 {
        return Err(format!("{count} spans are counted").into());
    }
    let mut shown = annotations(store);
    shown.remove("added");
    if shown != expected_annotations(case) {
        return Err(format!("annotations: {shown:?}").into());
    }
    let datasets = store.read_evals(|evals| evals.datasets().count());
    let left = if matches!(case.subject, Subject::Tenant { .. }) {
        1
    } else {
        2
    };
    if datasets != left {
        return Err(format!("{datasets} datasets").into());
    }
    for text in [SHARED, OWN, OF_TENANT] {
        let is_shown = store.payload(address(text))?.is_some();
        let is_gone = case.texts.contains(&text);
        // While it is pending, shared ones are withheld as well. Those of a tenant are once they are noted, which is before the
        // erasure is acknowledged.
        let is_noted = is_settled || !matches!(case.subject, Subject::Tenant { .. });
        if (is_gone && is_shown && is_noted) || (is_settled && is_shown == is_gone) {
            return Err(format!("payload {text:?}: shown={is_shown}").into());
        }
    }
    Ok(())
}

/// Nothing of the subject is in the files of the store, but in those of pins and in the log of erasures.
pub(crate) fn check_files(fs: &SimFs, case: &Case) -> Result<(), BoxError> {
    let dir = Path::new(DIR);
    for path in fs.read_dir(dir)? {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.extension().is_some_and(|end| end == "seg") {
            for record in Segment::open(fs, &path)?.scan() {
                let span = Span::from_json(record?.payload())?;
                if case.is_doomed(&span) {
                    return Err(format!("{name} holds {:?}", key(&span)).into());
                }
            }
        }
        let needle: &[u8] = match &case.subject {
            Subject::Session { session_id, .. } => session_id.as_bytes(),
            Subject::Tenant { tenant } => tenant.as_bytes(),
            _ => continue,
        };
        let is_file = fs.metadata(&path)?.kind == durable::FileKind::File;
        if is_file && name != "tombstones.jsonl" {
            let bytes = read_all(fs, &path, 1 << 20)?;
            if bytes.windows(needle.len()).any(|window| window == needle) {
                return Err(format!("{name} has the bytes of the subject").into());
            }
        }
    }
    let log = fs.open(&dir.join(wal::FILE_NAME))?;
    let mut logged = Vec::new();
    wal::scan(log.as_ref(), &mut |frame| {
        logged.extend(Span::batch_from_json(frame.payload).unwrap());
        Ok(())
    })?;
    if logged.iter().any(|span| case.is_doomed(span)) {
        return Err("the log holds the subject".into());
    }
    for text in case.texts {
        if fs.exists(&dir.join(address(text).relative_path()))? {
            return Err(format!("the file of {text:?} is there").into());
        }
    }
    Ok(())
}
