//! `GET /v1/tail`: spans as they come in, as server-sent events.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use traza::json::write_string;
use traza::span::Span;

use super::{Answered, Call};
use crate::http::{Answer, Chunks, Refusal};
use crate::parameters::{Parameters, SpanQuestion};
use crate::render::write_spans;
use crate::server::Server;
use crate::tail::{Found, Place};

pub(crate) fn tail<'a>(call: &Call<'a>) -> Answered<'a> {
    let known = Parameters::parse(call.query());
    for key in ["since", "since_ns", "until", "until_ns"] {
        if known.text(key).is_some() {
            return Err(Refusal::bad_request(format!(
                "{key} does not apply to a tail"
            )));
        }
    }
    let mut question = SpanQuestion::read(call.query(), call.caller(), &["cursor", "backfill"])?;
    // It is taken and has never narrowed a tail: a session is a matter of all spans of a store.
    question.filter.session = None;
    let rest = question.rest();
    let place = match rest.text("cursor") {
        Some(token) => {
            let text = "cursor is not a token this server issued";
            Some(Place::from_token(token).ok_or_else(|| Refusal::bad_request(text))?)
        }
        None => None,
    };
    let follower = Follower {
        server: call.server,
        limit: question.limit.unwrap_or(100).max(1),
        backfill: rest.number("backfill")?.unwrap_or(200),
        question,
    };
    Ok(Answer::Streamed(Box::new(move |to| {
        follower.follow(place, to)
    })))
}

struct Follower<'s> {
    server: &'s Server,
    question: SpanQuestion,
    limit: usize,
    backfill: u64,
}

impl Follower<'_> {
    fn follow(&self, place: Option<Place>, to: &mut dyn Write) -> io::Result<()> {
        let ring = &self.server.tail;
        // Whatever comes in while the head is written is behind this place.
        let edge = ring.behind_head(self.backfill);
        let fields = [
            ("Cache-Control", "no-cache"),
            ("X-Accel-Buffering", "no"),
            ("Transfer-Encoding", "chunked"),
        ];
        let mut chunks = Chunks::begin(to, "text/event-stream", &fields)?;
        let mut next = match place {
            Some(place) if place.epoch == ring.epoch() => place.sequence,
            Some(_) => {
                self.gap(&mut chunks, None)?;
                edge
            }
            None => self.first(&mut chunks, edge)?,
        };
        let heartbeat = self.server.options.tail_heartbeat;
        loop {
            let waited = Instant::now();
            match self.server.tail.read(next, heartbeat) {
                Found::Spans(spans, behind) => {
                    next = self.frames(&mut chunks, spans, behind)?;
                }
                Found::Gap(missed) => {
                    // Before it is said: what comes in meanwhile is not left out.
                    let edge = ring.behind_head(self.backfill);
                    self.gap(&mut chunks, Some(missed))?;
                    next = edge;
                }
                Found::Nothing if waited.elapsed() >= heartbeat => {
                    chunks.chunk(b": tick\n\n")?;
                    chunks.flush()?;
                }
                Found::Nothing => {}
                Found::Closed => return chunks.end(&[]),
            }
        }
    }

    /// The frame that a client without a place gets at once, be it empty.
    fn first(&self, chunks: &mut Chunks<'_>, edge: u64) -> io::Result<u64> {
        if let Found::Spans(spans, next) = self.server.tail.read(edge, Duration::ZERO) {
            return self.frames(chunks, spans, next);
        }
        self.frame(chunks, &[], edge)?;
        Ok(edge)
    }

    /// Shows what of `spans` is wanted; `next` is the place behind the last of them.
    fn frames(&self, chunks: &mut Chunks<'_>, spans: Vec<Arc<Span>>, next: u64) -> io::Result<u64> {
        let store = &self.server.store;
        let wanted: Vec<(u64, Arc<Span>)> = (next - spans.len() as u64..)
            .zip(spans)
            .filter(|(_, span)| !span.trace_id.is_empty() && self.is_wanted(span))
            .filter(|(_, span)| !store.hides(span))
            .collect();
        let frames = wanted.len().div_ceil(self.limit).max(1);
        for number in 0..frames {
            let of_frame = wanted.iter().skip(number * self.limit).take(self.limit);
            let (places, spans): (Vec<u64>, Vec<Arc<Span>>) = of_frame.cloned().unzip();
            let is_last = number + 1 == frames;
            let behind = places.last().map_or(next, |place| place + 1);
            self.frame(chunks, &spans, if is_last { next } else { behind })?;
        }
        Ok(next)
    }

    fn is_wanted(&self, span: &Span) -> bool {
        self.question.filter.matches(span)
    }

    fn frame(&self, chunks: &mut Chunks<'_>, spans: &[Arc<Span>], next: u64) -> io::Result<()> {
        let place = Place {
            epoch: self.server.tail.epoch(),
            sequence: next,
        };
        let mut frame = String::from("event: spans\ndata: {\"cursor\":");
        write_string(&place.to_token(), &mut frame);
        frame.push_str(",\"spans\":");
        write_spans(spans, &mut frame);
        frame.push_str("}\n\n");
        chunks.chunk(frame.as_bytes())?;
        chunks.flush()
    }

    fn gap(&self, chunks: &mut Chunks<'_>, missed: Option<u64>) -> io::Result<()> {
        self.server.metrics.tail_gap();
        let missed = missed.map_or_else(|| "null".to_owned(), |missed| missed.to_string());
        chunks.chunk(format!("event: gap\ndata: {{\"missed\":{missed}}}\n\n").as_bytes())?;
        chunks.flush()
    }
}
