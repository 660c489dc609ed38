//! Exports of spans that other tools read.

use arrow_array::{Array as _, RecordBatch, StringArray, UInt64Array};
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Value, json};

use crate::support::{Scratch, lines};

/// A store of these spans.
fn store(spans: &[Value]) -> Scratch {
    let scratch = Scratch::new();
    let text: Vec<String> = spans.iter().map(Value::to_string).collect();
    scratch.write("in.jsonl", text.join("\n").as_bytes());
    scratch
        .daybook(&["trace", "ingest", "s", "in.jsonl"])
        .expect(0);
    scratch
}

fn span(number: u64) -> Value {
    let status = match number % 3 {
        0 => "",
        1 => "ok",
        _ => "error",
    };
    json!({
        "trace_id": format!("{:032x}", number / 4), "span_id": format!("{number:016x}"),
        "parent_span_id": (!number.is_multiple_of(4)).then(|| format!("{:016x}", number - number % 4)),
        "name": "chat", "service": if number.is_multiple_of(2) { "bot" } else { "tools" },
        "$tenant": if number.is_multiple_of(5) { "acme" } else { "" },
        "status": status,
        "start_time_ns": 1_000 + number, "end_time_ns": 3_000 + number,
        "attributes": {"tokens": number, "cost": 0.5, "none": null, "tags": ["a", {"b": [true, -1]}]},
        "events": [{"name": "first \"token\"", "timestamp_ns": 2_000, "attributes": {"n": 1}}],
        "links": [{"trace_id": "0a", "span_id": "0b", "attributes": {}}],
    })
}

fn exported(scratch: &Scratch, store: &str) -> Vec<Value> {
    let mut spans = lines(&scratch.daybook(&["trace", "export", store]).expect(0).out);
    spans.sort_by_key(|span| span["span_id"].to_string());
    spans
}

fn rows(bytes: Vec<u8>) -> Vec<RecordBatch> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(bytes)).unwrap();
    reader.build().unwrap().map(Result::unwrap).collect()
}

fn texts<'b>(batch: &'b RecordBatch, column: &str) -> &'b StringArray {
    let column = batch.column_by_name(column).unwrap();
    column.as_any().downcast_ref().unwrap()
}

fn numbers<'b>(batch: &'b RecordBatch, column: &str) -> &'b UInt64Array {
    let column = batch.column_by_name(column).unwrap();
    column.as_any().downcast_ref().unwrap()
}

#[test]
fn a_parquet_file_has_a_row_for_each_span_with_what_the_table_has() {
    // More than a page.
    let spans: Vec<Value> = (0..5_000).map(span).collect();
    let scratch = store(&spans);
    let args = ["trace", "export", "s", "--format", "parquet"];
    let told = scratch
        .daybook(&[&args[..], &["-o", "out.parquet"]].concat())
        .expect(0);
    assert_eq!(told.err, "daybook: 5000 spans written to out.parquet\n");
    let batches = rows(scratch.read("out.parquet"));
    let count: usize = batches.iter().map(RecordBatch::num_rows).sum();
    assert_eq!(count, 5_000);
    let table = scratch
        .daybook(&["trace", "export", "s", "--format", "csv"])
        .expect(0)
        .out;
    let mut table = csv::Reader::from_reader(table.as_bytes());
    let titles = table.headers().unwrap().clone();
    let mut table = table.records().map(Result::unwrap);
    for batch in &batches {
        let schema = batch.schema();
        let names: Vec<&String> = schema.fields().iter().map(|field| field.name()).collect();
        assert_eq!(names, titles.iter().collect::<Vec<_>>());
        for row in 0..batch.num_rows() {
            let wanted = table.next().unwrap();
            for (title, wanted) in titles.iter().zip(&wanted) {
                if title.ends_with("_ns") {
                    assert_eq!(numbers(batch, title).value(row).to_string(), wanted);
                } else {
                    assert_eq!(texts(batch, title).value(row), wanted, "{title}");
                }
            }
            let parents = texts(batch, "parent_span_id");
            assert_eq!(parents.is_null(row), wanted[3].is_empty());
        }
    }
    // What cannot be read back does not count.
    let refused = scratch.daybook(&args).expect(2);
    assert!(refused.err.contains("--output"), "{}", refused.err);
    let none = ["--service", "nobody", "-o", "none.parquet"];
    scratch.daybook(&[&args[..], &none].concat()).expect(0);
    assert!(rows(scratch.read("none.parquet")).is_empty());
    let names = ["in.jsonl", "none.parquet", "out.parquet", "s"];
    assert_eq!(scratch.names().len(), names.len(), "{:?}", scratch.names());
}

#[test]
fn requests_of_open_telemetry_are_taken_in_again_as_the_same_spans() {
    let spans: Vec<Value> = (0..5_000).map(span).collect();
    let scratch = store(&spans);
    let args = ["trace", "export", "s", "--format", "otlp-json"];
    let told = scratch
        .daybook(&[&args[..], &["-o", "out.jsonl"]].concat())
        .expect(0);
    assert_eq!(told.err, "daybook: 5000 spans written to out.jsonl\n");
    for request in lines(&String::from_utf8(scratch.read("out.jsonl")).unwrap()) {
        assert!(request["resourceSpans"].is_array());
    }
    scratch
        .daybook(&["trace", "ingest", "copy", "out.jsonl"])
        .expect(0);
    assert_eq!(exported(&scratch, "copy"), exported(&scratch, "s"));
    let printed = scratch.daybook(&args).expect(0);
    assert_eq!(printed.out.as_bytes(), scratch.read("out.jsonl"));
}

#[test]
fn what_open_telemetry_has_no_place_for_is_told() {
    let mut odd = span(1);
    odd["status"] = json!("timeout");
    odd["kind"] = json!("client");
    let scratch = store(&[odd]);
    let args = ["trace", "export", "s", "--format", "otlp-json"];
    let told = scratch.daybook(&args).expect(0);
    assert_eq!(told.out.lines().count(), 1);
    assert!(told.err.contains("1 × status other than"), "{}", told.err);
    assert!(told.err.contains("1 × set of members"), "{}", told.err);
    let mut nameless = span(2);
    nameless["span_id"] = json!("root");
    scratch.write("more.jsonl", nameless.to_string().as_bytes());
    scratch
        .daybook(&["trace", "ingest", "s", "more.jsonl"])
        .expect(0);
    let refused = scratch
        .daybook(&[&args[..], &["-o", "out.jsonl"]].concat())
        .expect(2);
    assert!(refused.err.contains("span_id \"root\""), "{}", refused.err);
    assert!(!scratch.has("out.jsonl"));
}
