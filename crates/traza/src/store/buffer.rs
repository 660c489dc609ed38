//! The spans that no segment holds yet.

mod layer;
mod run;

use std::cmp::Ordering;
use std::hash::BuildHasher as _;
use std::sync::Arc;

use foldhash::fast::RandomState;

pub(crate) use self::layer::Layer;
use self::layer::merged;
use self::run::{Key, Run};
use crate::span::Span;

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
    /// Seeds the hashes of identities, so that nobody can choose ids of one hash.
    seed: RandomState,
}

impl Buffer {
    pub(crate) fn len(&self) -> usize {
        (self.young.len() + self.sealing.len()).saturating_sub(self.in_both)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// About how many bytes the spans take in memory that came since the last ones were set apart to be sealed.
    pub(crate) fn young_memory_len(&self) -> usize {
        self.young.memory_len()
    }

    /// About how many bytes all spans take in memory.
    pub(crate) fn memory_len(&self) -> usize {
        self.young.memory_len() + self.sealing.memory_len()
    }

    /// Takes spans in, in their order. One with the identity of another replaces it, and is where that was in the order in
    /// which they came.
    pub(crate) fn upsert_all(&mut self, spans: impl IntoIterator<Item = Arc<Span>>) {
        let mut next_place = self.next_place;
        let spans = spans.into_iter().map(|span| {
            next_place += 1;
            let key = self.key(&span);
            (key.trace, key.id, span)
        });
        let mut run = Run::of(spans, self.next_place);
        self.next_place = next_place;
        for entry in run.entries_mut() {
            if let Some(young) = self.young.entry(entry.key()) {
                entry.place = young.place;
            } else if let Some(sealing) = self.sealing.entry(entry.key()) {
                entry.place = sealing.place;
                self.in_both += 1;
            }
        }
        self.young.insert(Arc::new(run));
    }

    /// Takes spans out, but for those that were replaced meanwhile.
    pub(crate) fn evict_all(&mut self, spans: impl IntoIterator<Item = Arc<Span>>) {
        let is_same = |span: &Arc<Span>| {
            self.version_of(span)
                .is_some_and(|now| Arc::ptr_eq(now, span))
        };
        let spans = spans.into_iter().filter(is_same).map(|span| {
            let key = self.key(&span);
            (key.trace, key.id, span)
        });
        let run = Run::of(spans, 0);
        let is_in_both = |key| self.young.entry(key).is_some() && self.sealing.entry(key).is_some();
        let in_both = run.entries().iter().filter(|e| is_in_both(e.key())).count();
        self.in_both -= in_both;
        self.young.remove_all(&run);
        self.sealing.remove_all(&run);
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
        for run in young.into_runs() {
            self.young.insert(run);
        }
        self.in_both = 0;
    }

    /// The span with the identity of `span`, if it holds one.
    pub(crate) fn version_of(&self, span: &Span) -> Option<&Arc<Span>> {
        if self.is_empty() {
            return None;
        }
        let key = self.key(span);
        let entry = self.young.entry(key).or_else(|| self.sealing.entry(key));
        entry.map(|entry| &entry.span)
    }

    fn key<'s>(&self, span: &'s Span) -> Key<'s> {
        Key {
            trace: self.seed.hash_one(&span.trace_id),
            id: self.seed.hash_one((&span.tenant, &span.span_id)),
            span,
        }
    }

    /// The spans of a trace, of all tenants, in no particular order.
    pub(crate) fn trace<'a>(&'a self, trace_id: &'a str) -> impl Iterator<Item = &'a Arc<Span>> {
        let hash = self.seed.hash_one(trace_id);
        let sealing = self.sealing.of_trace(hash).filter(|span| self.counts(span));
        let spans = self.young.of_trace(hash).chain(sealing);
        spans.filter(move |span| span.trace_id == trace_id)
    }

    /// False for a span that is being sealed and was replaced meanwhile.
    fn counts(&self, sealing: &Span) -> bool {
        self.in_both == 0 || self.young.entry(self.key(sealing)).is_none()
    }

    /// All spans in the order of answers.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = &Arc<Span>> {
        self.since(0)
    }

    /// All spans, the last in the order of answers first.
    pub(crate) fn in_reverse(&self) -> impl Iterator<Item = &Arc<Span>> {
        let sealing = self.sealing.in_reverse().filter(|span| self.counts(span));
        let young: Box<dyn Iterator<Item = _>> = Box::new(self.young.in_reverse());
        merged([young, Box::new(sealing)].into_iter(), |a, b| {
            in_order(b, a)
        })
    }

    /// The spans that start at `since` or later, in the order of answers.
    pub(crate) fn since(&self, since: u64) -> impl Iterator<Item = &Arc<Span>> {
        let sealing = self.sealing.since(since).filter(|span| self.counts(span));
        let young: Box<dyn Iterator<Item = _>> = Box::new(self.young.since(since));
        merged([young, Box::new(sealing)].into_iter(), in_order)
    }

    /// All spans in the order in which their identities first came.
    pub(crate) fn by_arrival(&self) -> Vec<&Arc<Span>> {
        let sealing = self.sealing.entries();
        let sealing = sealing.filter(|entry| self.counts(&entry.span));
        let mut entries: Vec<_> = self.young.entries().chain(sealing).collect();
        entries.sort_unstable_by_key(|entry| entry.place);
        entries.into_iter().map(|entry| &entry.span).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn span(id: &str, start: u64) -> Arc<Span> {
        Arc::new(Span {
            trace_id: "t".into(),
            span_id: id.into(),
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
        buffer.upsert_all([span("a", 1), span("b", 5), span("c", 3)]);
        let layer = buffer.freeze();
        buffer.upsert_all([span("b", 2), span("d", 4)]);
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
        buffer.evict_all([Arc::clone(sealing)]);
        holds_all(&buffer);
        let young = Arc::clone(buffer.version_of(sealing).unwrap());
        buffer.evict_all([young]);
        assert_eq!(starts(buffer.in_order()), [1, 3, 4]);
        assert_eq!(buffer.len(), 3);
    }

    /// A buffer as it could be with all the time in the world: of each identity the place and the version.
    #[derive(Clone, Debug, Default)]
    struct Model {
        young: BTreeMap<String, (u64, u64)>,
        sealing: BTreeMap<String, (u64, u64)>,
        next: u64,
    }

    impl Model {
        fn upsert(&mut self, id: &str, start: u64) {
            self.next += 1;
            let known = self.young.get(id).or_else(|| self.sealing.get(id));
            let place = known.map_or(self.next, |(place, _)| *place);
            self.young.insert(id.to_owned(), (place, start));
        }

        fn all(&self) -> BTreeMap<String, (u64, u64)> {
            let mut all = self.sealing.clone();
            all.extend(self.young.clone());
            all
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Upsert(Vec<(u8, u64)>),
        Evict(Vec<u8>),
        Freeze,
        Settle,
        Thaw,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => vec((0u8..60, 0u64..9), 0..30).prop_map(Step::Upsert),
            4 => (0u8..60, 0u64..9).prop_map(|one| Step::Upsert([one].into())),
            1 => vec(0u8..60, 0..5).prop_map(Step::Evict),
            1 => Just(Step::Freeze),
            1 => Just(Step::Settle),
            1 => Just(Step::Thaw),
        ]
    }

    const TRACES: [&str; 5] = ["t0", "t1", "t2", "t3", "t4"];

    fn in_trace(number: u8, start: u64) -> Arc<Span> {
        Arc::new(Span {
            trace_id: TRACES[usize::from(number) % TRACES.len()].into(),
            ..Span::clone(&span(&id_of(number), start))
        })
    }

    fn id_of(number: u8) -> String {
        format!("s{number}")
    }

    fn known(spans: &[&Arc<Span>]) -> Vec<(String, u64)> {
        let known = |span: &&Arc<Span>| (span.span_id.to_string(), span.start_time_ns);
        spans.iter().map(known).collect()
    }

    fn assert_same(buffer: &Buffer, model: &Model) {
        let all = model.all();
        assert_eq!(buffer.len(), all.len());
        let mut ordered: Vec<_> = buffer.in_order().collect();
        assert!(ordered.is_sorted_by(|a, b| in_order(a, b).is_lt()));
        let late = ordered.iter().copied();
        let late: Vec<_> = late.filter(|span| span.start_time_ns >= 4).collect();
        assert_eq!(known(&buffer.since(4).collect::<Vec<_>>()), known(&late));
        let mut of_traces: Vec<_> = TRACES.iter().flat_map(|t| buffer.trace(t)).collect();
        of_traces.sort_by(|a, b| in_order(a, b));
        assert_eq!(known(&of_traces), known(&ordered));
        ordered.reverse();
        assert_eq!(
            known(&buffer.in_reverse().collect::<Vec<_>>()),
            known(&ordered)
        );
        let arrived = all.iter().map(|(id, (place, start))| (place, id, start));
        let mut arrived: Vec<_> = arrived.collect();
        arrived.sort_unstable();
        let arrived = arrived
            .into_iter()
            .map(|(_, id, start)| (id.clone(), *start));
        assert_eq!(known(&buffer.by_arrival()), arrived.collect::<Vec<_>>());
    }

    proptest! {
        #[test]
        fn a_buffer_holds_what_a_map_of_the_same_spans_holds(steps in vec(step(), 0..60)) {
            let (mut buffer, mut model) = (Buffer::default(), Model::default());
            for step in steps {
                let (before, seen) = (buffer.clone(), model.clone());
                match step {
                    Step::Upsert(spans) => {
                        buffer.upsert_all(spans.iter().map(|(id, start)| in_trace(*id, *start)));
                        for (id, start) in spans {
                            model.upsert(&id_of(id), start);
                        }
                    }
                    Step::Evict(ids) => {
                        let found = ids.iter().filter_map(|id| buffer.version_of(&in_trace(*id, 0)));
                        let found: Vec<_> = found.cloned().collect();
                        // Another version of the same is not the one that is there.
                        let others = ids.iter().map(|id| in_trace(*id, 0));
                        buffer.evict_all(found.into_iter().chain(others));
                        for id in ids {
                            model.young.remove(&id_of(id));
                            model.sealing.remove(&id_of(id));
                        }
                    }
                    Step::Freeze => {
                        let layer = buffer.freeze();
                        model.sealing = model.all();
                        model.young.clear();
                        prop_assert_eq!(layer.len(), model.sealing.len());
                        prop_assert_eq!(layer.in_order().count(), model.sealing.len());
                    }
                    Step::Settle => {
                        buffer.settle();
                        model.sealing.clear();
                    }
                    Step::Thaw => {
                        buffer.thaw();
                        model.young = model.all();
                        model.sealing.clear();
                    }
                }
                assert_same(&buffer, &model);
                // What was seen before has not changed.
                assert_same(&before, &seen);
            }
        }
    }
}
