//! Annotations as they are written, checked, looked up and dropped.

use traza::json::Value;
use traza::logs::annotation::{Annotation, AnnotationFault, Annotations, AppendError, Subject};
use traza::logs::file::LineFault;

use crate::disk::{at, bytes, fixture, lines, with};

fn read(line: &str) -> Annotation {
    Annotation::from_json(line.as_bytes()).unwrap()
}

#[test]
fn lines_of_a_released_version_are_written_again_byte_for_byte() {
    for line in lines(&fixture("annotations.jsonl")) {
        let annotation = read(&line);
        assert_eq!(annotation.to_json(), line);
        annotation.subject().unwrap();
    }
}

#[test]
fn names_and_numbers_get_their_canonical_spelling_and_unknown_members_go() {
    let line =
        r#" { "value" : {"b":1E2,"a":-0}, "later":[1], "name":"\u0041", "$tenant":"acme" } "#;
    assert_eq!(
        read(line).to_json(),
        r#"{"trace_id":"","span_id":"","tenant":"acme","name":"A","value":{"a":-0.0,"b":100.0},"source":"","comment":"","timestamp_ns":0}"#
    );
}

#[test]
fn a_line_of_another_shape_is_refused_and_names_the_member() {
    let fault = |line: &str| Annotation::from_json(line.as_bytes()).unwrap_err();
    assert_eq!(
        fault(r#"{"name":"a"}"#),
        LineFault::Missing { field: "value" }
    );
    assert_eq!(
        fault(r#"{"value":1}"#),
        LineFault::Missing { field: "name" }
    );
    for (line, member) in [
        (r#"{"name":null,"value":1}"#, "name"),
        (
            r#"{"name":"a","value":1,"timestamp_ns":1.0}"#,
            "timestamp_ns",
        ),
        (
            r#"{"name":"a","value":1,"experiment_id":-1}"#,
            "experiment_id",
        ),
        (r#"{"name":"a","value":1,"tenant":7}"#, "tenant"),
    ] {
        assert!(
            matches!(fault(line), LineFault::Shape { field, .. } if field == member),
            "{line}"
        );
    }
    let twice = |field: &str| LineFault::Twice {
        field: field.to_owned(),
    };
    assert_eq!(fault(r#"{"name":"a","value":1,"name":"b"}"#), twice("name"));
    assert_eq!(
        fault(r#"{"name":"a","value":1,"tenant":"a","$tenant":"a"}"#),
        twice("tenant")
    );
    assert!(matches!(fault("[]"), LineFault::Json(_)));
    assert!(matches!(
        fault(r#"{"name":"a","value":1} {}"#),
        LineFault::Json(_)
    ));
}

#[test]
fn exactly_one_shape_of_subject_is_valid() {
    use AnnotationFault::{
        EmptyName, HalfScore, NoSubject, SessionAndMore, SpanWithoutTrace, Tenant,
    };
    let trace_id = "t";
    let score = Ok(Subject::Score {
        experiment_id: 3,
        example_id: "e",
    });
    for (members, wanted) in [
        (r#""trace_id":"t""#, Ok(Subject::Trace { trace_id })),
        (
            r#""trace_id":"t","span_id":"s""#,
            Ok(Subject::Span {
                trace_id,
                span_id: "s",
            }),
        ),
        (
            r#""session_id":"c""#,
            Ok(Subject::Session { session_id: "c" }),
        ),
        (r#""experiment_id":3,"example_id":"e""#, score),
        (
            r#""experiment_id":3,"example_id":"e","trace_id":"t","span_id":"s""#,
            score,
        ),
        ("", Err(NoSubject)),
        (r#""span_id":"s""#, Err(SpanWithoutTrace)),
        (r#""experiment_id":3"#, Err(HalfScore)),
        (r#""example_id":"e","trace_id":"t""#, Err(HalfScore)),
        (r#""session_id":"c","trace_id":"t""#, Err(SessionAndMore)),
        (
            r#""session_id":"c","experiment_id":3,"example_id":"e""#,
            Err(SessionAndMore),
        ),
        (r#""trace_id":"t","tenant":"Acme""#, Err(Tenant)),
    ] {
        let comma = if members.is_empty() { "" } else { "," };
        let annotation = read(&format!(r#"{{"name":"a","value":null{comma}{members}}}"#));
        assert_eq!(annotation.subject(), wanted, "{members}");
    }
    assert_eq!(
        read(r#"{"name":"","value":1,"trace_id":"t"}"#).subject(),
        Err(EmptyName)
    );
}

#[test]
fn lookups_find_what_a_plain_filter_finds() {
    let (fs, path) = at(&with(&fixture("annotations.jsonl")));
    let (annotations, healed) = Annotations::open(fs, path).unwrap();
    assert_eq!(healed, None);
    let plain = |keep: &dyn Fn(&Annotation) -> bool| {
        let kept: Vec<_> = annotations.all().iter().filter(|a| keep(a)).collect();
        assert!(!kept.is_empty());
        kept
    };
    let (trace, span) = ("37a9ddabfbe755fac0428d6551929fa7", "42412566d9ac0d43");
    assert_eq!(
        annotations.of_trace(trace).collect::<Vec<_>>(),
        plain(&|a| a.trace_id == trace)
    );
    assert_eq!(
        annotations.of_span(trace, span).collect::<Vec<_>>(),
        plain(&|a| a.span_id == span)
    );
    let session = "chat-00002";
    assert_eq!(
        annotations.of_session(session).collect::<Vec<_>>(),
        plain(&|a| a.session_id == session)
    );
    assert_eq!(
        annotations.scores(1).collect::<Vec<_>>(),
        plain(&|a| a.experiment_id == Some(1))
    );
    assert_eq!(
        annotations.scores_of(1, "ex-2").collect::<Vec<_>>(),
        plain(&|a| a.example_id == "ex-2")
    );
    assert_eq!(
        annotations
            .of_trace("")
            .chain(annotations.of_session(""))
            .count(),
        0
    );
    assert_eq!(annotations.scores(2).count(), 0);
}

#[test]
fn appending_and_dropping_change_the_file_and_the_lookups_alike() {
    let sim = with(&fixture("annotations.jsonl"));
    let (fs, path) = at(&sim);
    let (mut annotations, _) = Annotations::open(fs, path).unwrap();
    let new = read(r#"{"name":"n","value":{"x":1},"session_id":"new"}"#);
    annotations.append(new.clone()).unwrap();
    assert_eq!(annotations.of_session("new").collect::<Vec<_>>(), [&new]);

    let mut bad = new.clone();
    bad.name.clear();
    let before = bytes(&sim);
    let refused = annotations.append(bad);
    assert!(matches!(
        refused,
        Err(AppendError::Fault(AnnotationFault::EmptyName))
    ));
    assert_eq!(annotations.drop_where(|_| false).unwrap(), 0);
    assert_eq!(bytes(&sim), before, "nothing changed");

    let numbers = |a: &Annotation| matches!(a.value, Value::Number(_));
    let kept: Vec<_> = annotations
        .all()
        .iter()
        .filter(|a| !numbers(a))
        .cloned()
        .collect();
    let count = annotations.all().len() - kept.len();
    assert_eq!(annotations.drop_where(numbers).unwrap(), count);
    assert_eq!(annotations.all(), kept);
    assert_eq!(annotations.of_session("new").count(), 1);
    annotations.append(new.clone()).unwrap();
    let (fs, path) = at(&sim);
    let (again, _) = Annotations::open(fs, path).unwrap();
    assert_eq!(again.all(), annotations.all());
    assert_eq!(again.all().len(), kept.len() + 1);
}
