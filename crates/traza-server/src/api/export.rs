//! `GET /v1/export`: all matching spans, line by line.

use std::io::Write;

use traza::store::SnapshotView;

use super::{Answered, Call};
use crate::http::{Answer, Chunks, Refusal};
use crate::parameters::SpanQuestion;

const COMPLETE: &str = "X-Traza-Export-Complete";
const COUNT: &str = "X-Traza-Export-Count";

pub(crate) fn export<'a>(call: &Call<'a>) -> Answered<'a> {
    let question = SpanQuestion::read(call.query(), call.caller(), &[])?;
    if question.sort.is_some() {
        return Err(Refusal::bad_request(
            "an export is in the order of starts; sort does not apply to it",
        ));
    }
    // Not within the deadline of questions: it takes as long as the client reads.
    let view = call.server.store.snapshot();
    Ok(Answer::Streamed(Box::new(move |to| {
        write(&view, &question, to)
    })))
}

fn write(view: &SnapshotView, question: &SpanQuestion, to: &mut dyn Write) -> std::io::Result<()> {
    let trailer = format!("{COMPLETE}, {COUNT}");
    let fields = [("Transfer-Encoding", "chunked"), ("Trailer", &trailer)];
    let mut chunks = Chunks::begin(to, "application/x-ndjson", &fields)?;
    let limit = question.limit.unwrap_or(usize::MAX);
    let mut sent = 0_u64;
    let mut is_complete = true;
    let mut line = String::new();
    for span in view.spans(&question.filter).take(limit) {
        let span = match span {
            Ok(span) => span,
            Err(error) => {
                log::error!("an export broke off: {}", crate::http::chain(&error));
                is_complete = false;
                break;
            }
        };
        line.clear();
        span.write(&mut line);
        line.push('\n');
        chunks.chunk(line.as_bytes())?;
        sent += 1;
    }
    let complete = if is_complete { "true" } else { "false" };
    chunks.end(&[(COMPLETE, complete), (COUNT, &sent.to_string())])
}
