//! The spans that no segment holds yet.

use std::cmp::Ordering;
use std::sync::Arc;

use rpds::{RedBlackTreeMapSync, RedBlackTreeSetSync};

use crate::span::Span;

/// Orders spans by what identifies them, a trace together.
#[derive(Clone, Debug)]
struct ByKey(Arc<Span>);

/// Orders spans as answers are ordered.
#[derive(Clone, Debug)]
struct InOrder(Arc<Span>);

/// The order of identities: trace id, tenant, span id.
fn by_key(a: &Span, b: &Span) -> Ordering {
    (&a.trace_id, &a.tenant, &a.span_id).cmp(&(&b.trace_id, &b.tenant, &b.span_id))
}

/// The stable order of answers: start, end, tenant, trace id, span id.
pub(crate) fn in_order(a: &Span, b: &Span) -> Ordering {
    order_key(a).cmp(&order_key(b))
}

/// What [`in_order`] compares.
pub(crate) type OrderKey<'a> = (u64, u64, &'a str, &'a str, &'a str);

pub(crate) fn order_key(span: &Span) -> OrderKey<'_> {
    (
        span.start_time_ns,
        span.end_time_ns,
        &span.tenant,
        &span.trace_id,
        &span.span_id,
    )
}

macro_rules! ordered {
    ($name:ident, $compare:ident) => {
        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                $compare(&self.0, &other.0).is_eq()
            }
        }
        impl Eq for $name {}
        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }
        impl Ord for $name {
            fn cmp(&self, other: &Self) -> Ordering {
                $compare(&self.0, &other.0)
            }
        }
    };
}
ordered!(ByKey, by_key);
ordered!(InOrder, in_order);

/// Spans of which each identity is there once. A clone is a snapshot, and takes no time: the versions share what they have
/// in common.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layer {
    /// Each span, and the place that its identity took when it first came.
    by_key: RedBlackTreeMapSync<ByKey, u64>,
    in_order: RedBlackTreeSetSync<InOrder>,
}

impl Layer {
    /// All spans in the order of answers.
    pub(crate) fn in_order(&self) -> impl DoubleEndedIterator<Item = &Arc<Span>> {
        self.in_order.iter().map(|span| &span.0)
    }

    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.by_key.size()
    }

    fn since(&self, first: InOrder) -> impl Iterator<Item = &Arc<Span>> {
        self.in_order.range(first..).map(|span| &span.0)
    }

    fn of_trace(&self, first: ByKey) -> impl Iterator<Item = &Arc<Span>> {
        self.by_key.range(first..).map(|(span, _)| &span.0)
    }

    fn place(&self, key: &ByKey) -> Option<u64> {
        self.by_key.get(key).copied()
    }

    fn version_of(&self, key: &ByKey) -> Option<&Arc<Span>> {
        self.by_key.get_key_value(key).map(|(span, _)| &span.0)
    }

    fn insert(&mut self, key: ByKey, place: u64) {
        self.remove(&key);
        self.in_order.insert_mut(InOrder(Arc::clone(&key.0)));
        self.by_key.insert_mut(key, place);
    }

    fn remove(&mut self, key: &ByKey) {
        if let Some(known) = self.version_of(key).cloned() {
            self.in_order.remove_mut(&InOrder(known));
            self.by_key.remove_mut(key);
        }
    }
}

/// The spans that were taken in and not sealed. A clone is a snapshot, and takes no time.
///
/// While some of them are being sealed, those are a layer of their own, so that they can be left behind all at once. Of
/// an identity that is in both layers the young version counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffer {
    young: Layer,
    sealing: Layer,
    /// How many identities are in both.
    in_both: usize,
    next_place: u64,
}

impl Buffer {
    pub(crate) fn len(&self) -> usize {
        (self.young.len() + self.sealing.len()).saturating_sub(self.in_both)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes a span in. One with the same identity is replaced and gives its place up.
    pub(crate) fn upsert(&mut self, span: Arc<Span>) {
        let key = ByKey(span);
        let place = self.young.place(&key).or_else(|| {
            let place = self.sealing.place(&key);
            self.in_both += usize::from(place.is_some());
            place
        });
        let place = place.unwrap_or_else(|| {
            self.next_place += 1;
            self.next_place
        });
        self.young.insert(key, place);
    }

    /// Takes a span out, unless it was replaced meanwhile.
    pub(crate) fn evict(&mut self, span: &Arc<Span>) {
        let is_same = self
            .version_of(span)
            .is_some_and(|now| Arc::ptr_eq(now, span));
        if is_same {
            let key = ByKey(Arc::clone(span));
            let is_in_both = self.young.place(&key).is_some() && self.sealing.place(&key).is_some();
            self.in_both -= usize::from(is_in_both);
            self.young.remove(&key);
            self.sealing.remove(&key);
        }
    }

    /// Sets all spans apart to be sealed, and answers them. While it is not [settled](Self::settle) or
    /// [thawed](Self::thaw), the buffer holds them nevertheless.
    pub(crate) fn freeze(&mut self) -> Layer {
        self.thaw();
        self.sealing = std::mem::take(&mut self.young);
        self.sealing.clone()
    }

    /// Leaves behind what was set apart: a segment holds it now.
    pub(crate) fn settle(&mut self) {
        self.sealing = Layer::default();
        self.in_both = 0;
    }

    /// Takes back what was set apart.
    pub(crate) fn thaw(&mut self) {
        if self.sealing.len() == 0 {
            return;
        }
        let young = std::mem::replace(&mut self.young, std::mem::take(&mut self.sealing));
        for (key, place) in &young.by_key {
            self.young.insert(key.clone(), *place);
        }
        self.in_both = 0;
    }

    /// The span with the identity of `span`, if it holds one.
    pub(crate) fn version_of(&self, span: &Span) -> Option<&Arc<Span>> {
        if self.is_empty() {
            return None;
        }
        let key = ByKey(Arc::new(Span {
            trace_id: span.trace_id.clone(),
            tenant: span.tenant.clone(),
            span_id: span.span_id.clone(),
            ..Span::default()
        }));
        let young = self.young.version_of(&key);
        young.or_else(|| self.sealing.version_of(&key))
    }

    /// The spans of a trace, of all tenants.
    pub(crate) fn trace<'a>(&'a self, trace_id: &'a str) -> impl Iterator<Item = &'a Arc<Span>> {
        let first = ByKey(Arc::new(Span {
            trace_id: trace_id.to_owned(),
            ..Span::default()
        }));
        let is_in_it = move |span: &&Arc<Span>| span.trace_id == trace_id;
        let young = self.young.of_trace(first.clone()).take_while(is_in_it);
        let sealing = self.sealing.of_trace(first).take_while(is_in_it);
        young.chain(sealing.filter(|span| self.counts(span)))
    }

    /// False for a span that is being sealed and was replaced meanwhile.
    fn counts(&self, sealing: &Arc<Span>) -> bool {
        self.in_both == 0 || self.young.place(&ByKey(Arc::clone(sealing))).is_none()
    }

    /// All spans in the order of answers.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = &Arc<Span>> {
        let sealing = self.sealing.in_order().filter(|span| self.counts(span));
        merged(self.young.in_order(), sealing, |a, b| {
            in_order(a, b).is_le()
        })
    }

    /// All spans, the last in the order of answers first.
    pub(crate) fn in_reverse(&self) -> impl Iterator<Item = &Arc<Span>> {
        let sealing = self.sealing.in_order().rev();
        let sealing = sealing.filter(|span| self.counts(span));
        merged(self.young.in_order().rev(), sealing, |a, b| {
            in_order(a, b).is_ge()
        })
    }

    /// The spans that start at `since` or later, in the order of answers.
    pub(crate) fn since(&self, since: u64) -> impl Iterator<Item = &Arc<Span>> {
        let first = InOrder(Arc::new(Span {
            start_time_ns: since,
            ..Span::default()
        }));
        let sealing = self.sealing.since(first.clone());
        let sealing = sealing.filter(|span| self.counts(span));
        merged(self.young.since(first), sealing, |a, b| {
            in_order(a, b).is_le()
        })
    }

    /// All spans in the order in which their identities first came.
    pub(crate) fn by_arrival(&self) -> Vec<&Arc<Span>> {
        let sealing = self.sealing.by_key.iter();
        let sealing = sealing.filter(|(span, _)| self.counts(&span.0));
        let mut spans: Vec<(&Arc<Span>, u64)> = self
            .young
            .by_key
            .iter()
            .chain(sealing)
            .map(|(span, place)| (&span.0, *place))
            .collect();
        spans.sort_unstable_by_key(|(_, place)| *place);
        spans.into_iter().map(|(span, _)| span).collect()
    }
}

/// Two sorted sequences as one; `is_first` tells whether an item of the first comes before one of the second.
fn merged<'a>(
    first: impl Iterator<Item = &'a Arc<Span>>,
    second: impl Iterator<Item = &'a Arc<Span>>,
    is_first: impl Fn(&Span, &Span) -> bool,
) -> impl Iterator<Item = &'a Arc<Span>> {
    let (mut first, mut second) = (first.peekable(), second.peekable());
    std::iter::from_fn(move || match (first.peek(), second.peek()) {
        (Some(a), Some(b)) if is_first(a, b) => first.next(),
        (_, Some(_)) => second.next(),
        _ => first.next(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(id: &str, start: u64) -> Arc<Span> {
        Arc::new(Span {
            trace_id: "t".to_owned(),
            span_id: id.to_owned(),
            start_time_ns: start,
            end_time_ns: start,
            ..Span::default()
        })
    }

    fn starts<'a>(spans: impl IntoIterator<Item = &'a Arc<Span>>) -> Vec<u64> {
        let spans = spans.into_iter();
        spans.map(|span| span.start_time_ns).collect()
    }

    /// `a` at 1, `b` at 5 and `c` at 3 are being sealed; then `b` was replaced and `d` came.
    fn half_sealed() -> (Buffer, Layer) {
        let mut buffer = Buffer::default();
        for (id, start) in [("a", 1), ("b", 5), ("c", 3)] {
            buffer.upsert(span(id, start));
        }
        let layer = buffer.freeze();
        buffer.upsert(span("b", 2));
        buffer.upsert(span("d", 4));
        (buffer, layer)
    }

    fn holds_all(buffer: &Buffer) {
        assert_eq!(buffer.len(), 4);
        assert_eq!(starts(buffer.in_order()), [1, 2, 3, 4]);
        assert_eq!(starts(buffer.in_reverse()), [4, 3, 2, 1]);
        assert_eq!(starts(buffer.since(2)), [2, 3, 4]);
        assert_eq!(starts(buffer.by_arrival()), [1, 2, 3, 4]);
        let mut of_trace = starts(buffer.trace("t"));
        of_trace.sort_unstable();
        assert_eq!(of_trace, [1, 2, 3, 4]);
        let version = buffer.version_of(&span("b", 0)).unwrap();
        assert_eq!(version.start_time_ns, 2);
    }

    #[test]
    fn what_is_being_sealed_is_still_there_in_its_last_version() {
        let (buffer, layer) = half_sealed();
        assert_eq!(starts(layer.in_order()), [1, 3, 5]);
        holds_all(&buffer);
    }

    #[test]
    fn what_was_sealed_is_left_behind_and_what_came_meanwhile_stays() {
        let (mut buffer, _) = half_sealed();
        buffer.settle();
        assert_eq!((buffer.len(), starts(buffer.in_order())), (2, vec![2, 4]));
        assert!(buffer.version_of(&span("a", 0)).is_none());
    }

    #[test]
    fn after_a_seal_that_failed_everything_can_be_sealed_again() {
        let (mut buffer, _) = half_sealed();
        buffer.thaw();
        holds_all(&buffer);
        assert_eq!(starts(buffer.freeze().in_order()), [1, 2, 3, 4]);
        holds_all(&buffer);
    }

    #[test]
    fn a_span_that_is_taken_out_uncovers_no_older_version() {
        let (mut buffer, layer) = half_sealed();
        let sealing = layer.in_order().last().unwrap();
        buffer.evict(sealing);
        holds_all(&buffer);
        let young = Arc::clone(buffer.version_of(sealing).unwrap());
        buffer.evict(&young);
        assert_eq!(starts(buffer.in_order()), [1, 3, 4]);
        assert_eq!(buffer.len(), 3);
    }
}
