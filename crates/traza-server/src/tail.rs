//! The live tail: the last spans that were taken in, in the order in which they were acknowledged.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use traza::span::Span;

/// A place in the stream of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The process: when it started, in nanoseconds since the Unix epoch.
    pub(crate) epoch: u64,
    /// The next span that is wanted, counted from the first one of the process.
    pub(crate) sequence: u64,
}

impl Place {
    pub(crate) fn from_token(token: &str) -> Option<Self> {
        let number = |text: &str| {
            let is_decimal = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            is_decimal.then(|| text.parse().ok()).flatten()
        };
        let (epoch, sequence) = token.split_once('.')?;
        Some(Self {
            epoch: number(epoch)?,
            sequence: number(sequence)?,
        })
    }

    pub(crate) fn to_token(self) -> String {
        format!("{}.{}", self.epoch, self.sequence)
    }
}

/// The spans that are kept.
#[derive(Debug)]
pub(crate) struct Ring {
    epoch: u64,
    spans_max: usize,
    bytes_max: usize,
    kept: Mutex<Kept>,
    added: Condvar,
}

#[derive(Debug, Default)]
struct Kept {
    spans: VecDeque<(Arc<Span>, usize)>,
    bytes: usize,
    /// The place behind the newest span.
    head: u64,
    is_closed: bool,
}

impl Kept {
    fn oldest(&self) -> u64 {
        self.head - self.spans.len() as u64
    }
}

/// What is at a place.
#[derive(Debug, PartialEq)]
pub(crate) enum Found {
    /// These spans, and where the next ones are.
    Spans(Vec<Arc<Span>>, u64),
    /// So many were there and are not kept any more.
    Gap(u64),
    /// Nothing came in the time.
    Nothing,
    /// The server stops.
    Closed,
}

/// So many are looked through at a time, so that a slow reader does not hold up those who take spans in.
const STEP: usize = 1_024;

impl Ring {
    pub(crate) fn new(epoch: u64, spans_max: usize, bytes_max: usize) -> Self {
        Self {
            epoch,
            spans_max: spans_max.max(1),
            bytes_max: bytes_max.max(1),
            kept: Mutex::default(),
            added: Condvar::new(),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Adds acknowledged spans. The newest one is always kept.
    pub(crate) fn add(&self, spans: &[Arc<Span>]) {
        let sized: Vec<(Arc<Span>, usize)> = spans
            .iter()
            .map(|span| (Arc::clone(span), size(span)))
            .collect();
        let mut kept = self.kept();
        for (span, size) in sized {
            kept.bytes += size;
            kept.head += 1;
            kept.spans.push_back((span, size));
            while kept.spans.len() > 1
                && (kept.spans.len() > self.spans_max || kept.bytes > self.bytes_max)
            {
                if let Some((_, size)) = kept.spans.pop_front() {
                    kept.bytes -= size;
                }
            }
        }
        drop(kept);
        self.added.notify_all();
    }

    /// Takes what `doomed` names out of what is kept; places stay what they are.
    pub(crate) fn blank(&self, doomed: impl Fn(&Span) -> bool) {
        let mut kept = self.kept();
        let mut freed = 0;
        for (span, size) in &mut kept.spans {
            if *size > 0 && doomed(span) {
                freed += *size;
                *span = Arc::default();
                *size = 0;
            }
        }
        kept.bytes -= freed;
    }

    /// Shows everything that is kept to `visit`.
    pub(crate) fn each(&self, mut visit: impl FnMut(&Span)) {
        for (span, size) in &self.kept().spans {
            if *size > 0 {
                visit(span);
            }
        }
    }

    /// How many spans and bytes are kept.
    pub(crate) fn usage(&self) -> (usize, usize) {
        let kept = self.kept();
        (kept.spans.len(), kept.bytes)
    }

    /// The place so many spans behind the newest one.
    pub(crate) fn behind_head(&self, backfill: u64) -> u64 {
        let kept = self.kept();
        kept.head.saturating_sub(backfill).max(kept.oldest())
    }

    /// Ends all readers.
    pub(crate) fn close(&self) {
        self.kept().is_closed = true;
        self.added.notify_all();
    }

    /// What is at a place, once something is, at most after `at_most`.
    pub(crate) fn read(&self, sequence: u64, at_most: Duration) -> Found {
        let kept = self.kept();
        let is_quiet = |kept: &mut Kept| kept.head == sequence && !kept.is_closed;
        let (kept, _) = self
            .added
            .wait_timeout_while(kept, at_most, is_quiet)
            .unwrap_or_else(PoisonError::into_inner);
        if kept.is_closed {
            return Found::Closed;
        }
        if sequence == kept.head {
            return Found::Nothing;
        }
        let oldest = kept.oldest();
        if sequence > kept.head || sequence < oldest {
            return Found::Gap(oldest.saturating_sub(sequence));
        }
        let skipped = usize::try_from(sequence - oldest).unwrap_or(usize::MAX);
        let spans: Vec<Arc<Span>> = kept
            .spans
            .iter()
            .skip(skipped)
            .take(STEP)
            .map(|(span, _)| Arc::clone(span))
            .collect();
        let next = sequence + spans.len() as u64;
        Found::Spans(spans, next)
    }
}

/// About what a span takes in memory.
fn size(span: &Span) -> usize {
    let texts = span.trace_id.len() + span.span_id.len() + span.name.len() + span.service.len();
    let mut size = size_of::<Span>() + texts + span.status.len() + span.tenant.len();
    for object in std::iter::once(&span.attributes)
        .chain(span.events.iter().map(|event| &event.attributes))
        .chain(span.links.iter().map(|link| &link.attributes))
        .chain(std::iter::once(&span.unknown))
    {
        size += object_size(object);
    }
    size
}

fn object_size(object: &traza::json::Object) -> usize {
    object
        .iter()
        .map(|(name, value)| name.len() + value_size(value))
        .sum()
}

fn value_size(value: &traza::json::Value) -> usize {
    use traza::json::Value;
    let inner = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(value_size).sum(),
        Value::Object(members) => object_size(members),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    size_of::<Value>() + inner
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(id: &str) -> Arc<Span> {
        Arc::new(Span {
            trace_id: "t".into(),
            span_id: id.into(),
            ..Span::default()
        })
    }

    fn ids(found: Found) -> (Vec<String>, u64) {
        match found {
            Found::Spans(spans, next) => {
                (spans.iter().map(|s| s.span_id.to_string()).collect(), next)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn spans_are_read_from_a_place_in_the_order_of_admission() {
        let ring = Ring::new(1, 10, 1 << 20);
        ring.add(&[span("a"), span("b")]);
        ring.add(&[span("c")]);
        let read = ring.read(1, Duration::ZERO);
        assert_eq!(ids(read), (vec!["b".to_owned(), "c".to_owned()], 3));
        assert_eq!(ring.read(3, Duration::ZERO), Found::Nothing);
        assert_eq!(ring.behind_head(2), 1);
        assert_eq!(ring.behind_head(u64::MAX), 0);
    }

    #[test]
    fn what_is_not_kept_any_more_is_a_gap_of_so_many() {
        let ring = Ring::new(1, 2, 1 << 20);
        ring.add(&["a", "b", "c", "d", "e"].map(span));
        assert_eq!(ring.read(1, Duration::ZERO), Found::Gap(2));
        assert_eq!(ring.read(9, Duration::ZERO), Found::Gap(0));
        assert_eq!(ring.behind_head(100), 3);
    }

    #[test]
    fn bytes_bound_it_too_but_the_newest_stays() {
        let ring = Ring::new(1, 100, 1);
        ring.add(&["a", "b"].map(span));
        assert_eq!(ring.usage().0, 1);
        assert_eq!(ids(ring.read(1, Duration::ZERO)), (vec!["b".to_owned()], 2));
    }

    #[test]
    fn what_is_erased_is_blank_and_keeps_its_place() {
        let ring = Ring::new(1, 10, 1 << 20);
        ring.add(&["a", "b"].map(span));
        ring.blank(|span| span.span_id == "a");
        assert_eq!(
            ids(ring.read(0, Duration::ZERO)),
            (vec![String::new(), "b".to_owned()], 2)
        );
    }

    #[test]
    fn a_token_is_two_numbers() {
        let place = Place::from_token("12.3").unwrap();
        assert_eq!(
            place,
            Place {
                epoch: 12,
                sequence: 3
            }
        );
        assert_eq!(place.to_token(), "12.3");
        for wrong in ["", "1", "1.", ".1", "1.2.3", "+1.2", "x.1"] {
            assert_eq!(Place::from_token(wrong), None, "{wrong}");
        }
    }
}
