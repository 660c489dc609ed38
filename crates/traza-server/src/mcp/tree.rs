//! The spans of a session or trace by their parents, whatever these say.

use std::collections::HashMap;
use std::sync::Arc;

use traza::span::Span;

/// Who is whose child. A span whose parent is not there is a root, and so is one span of every cycle: each span is in the
/// forest once.
pub(super) struct Forest {
    children: Vec<Vec<usize>>,
    roots: Vec<usize>,
}

/// A step of the way through a forest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// To a span, at this depth; a root is at 0.
    Enter(usize, usize),
    /// Behind a span and all below it.
    Leave(usize),
}

impl Forest {
    /// The forest of `spans`, by their places; children and roots are in the order of `spans`.
    pub(super) fn of(spans: &[Arc<Span>]) -> Self {
        let mut places: HashMap<(&str, &str, &str), usize> = HashMap::new();
        for (place, span) in spans.iter().enumerate() {
            places.insert((&span.tenant, &span.trace_id, &span.span_id), place);
        }
        let parent_of = |span: &Span| {
            let parent = span.parent_span_id.as_deref()?;
            places
                .get(&(span.tenant.as_str(), span.trace_id.as_str(), parent))
                .copied()
        };
        let parents: Vec<Option<usize>> = spans.iter().map(|span| parent_of(span)).collect();
        let mut forest = Self {
            children: vec![Vec::new(); spans.len()],
            roots: Vec::new(),
        };
        let is_root = roots(&parents);
        for (place, parent) in parents.iter().enumerate() {
            let siblings = parent
                .filter(|_| !is_root.get(place).copied().unwrap_or(true))
                .and_then(|parent| forest.children.get_mut(parent));
            siblings.unwrap_or(&mut forest.roots).push(place);
        }
        forest
    }

    /// The children of a span.
    pub(super) fn children(&self, place: usize) -> &[usize] {
        self.children.get(place).map_or(&[], Vec::as_slice)
    }

    /// Visits every span, parents before their children.
    pub(super) fn walk(&self, mut visit: impl FnMut(Step)) {
        let mut waiting: Vec<Step> = self
            .roots
            .iter()
            .rev()
            .map(|root| Step::Enter(*root, 0))
            .collect();
        while let Some(step) = waiting.pop() {
            visit(step);
            if let Step::Enter(place, depth) = step {
                waiting.push(Step::Leave(place));
                let below = self.children(place).iter().rev();
                waiting.extend(below.map(|child| Step::Enter(*child, depth + 1)));
            }
        }
    }
}

/// Which spans begin a tree: those without a parent, and the first of each cycle of parents.
fn roots(parents: &[Option<usize>]) -> Vec<bool> {
    let mut is_root = vec![false; parents.len()];
    // By which climb a span was reached.
    let mut reached: Vec<Option<usize>> = vec![None; parents.len()];
    for climb in 0..parents.len() {
        let mut at = climb;
        loop {
            match reached.get_mut(at) {
                Some(mark @ None) => *mark = Some(climb),
                // Back on its own way: a cycle, of which the earliest span becomes the root.
                Some(Some(mark)) if *mark == climb => {
                    if let Some(root) = is_root.get_mut(first_of_cycle(parents, at)) {
                        *root = true;
                    }
                    break;
                }
                _ => break,
            }
            let Some(parent) = parents.get(at).copied().flatten() else {
                if let Some(root) = is_root.get_mut(at) {
                    *root = true;
                }
                break;
            };
            at = parent;
        }
    }
    is_root
}

fn first_of_cycle(parents: &[Option<usize>], start: usize) -> usize {
    let mut first = start;
    let mut at = start;
    while let Some(parent) = parents.get(at).copied().flatten() {
        at = parent;
        first = first.min(at);
        if at == start {
            break;
        }
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn span(id: usize, parent: Option<usize>) -> Arc<Span> {
        Arc::new(Span {
            trace_id: "t".into(),
            span_id: id.to_string().into(),
            parent_span_id: parent.map(|parent| parent.to_string()).map(Into::into),
            ..Span::default()
        })
    }

    fn depths(parents: &[Option<usize>]) -> Vec<(usize, usize)> {
        let spans: Vec<Arc<Span>> = parents
            .iter()
            .enumerate()
            .map(|(id, parent)| span(id, *parent))
            .collect();
        let mut found = Vec::new();
        Forest::of(&spans).walk(|step| {
            if let Step::Enter(place, depth) = step {
                found.push((place, depth));
            }
        });
        found
    }

    #[test]
    fn orphans_self_parents_and_cycles_are_roots() {
        assert_eq!(
            depths(&[None, Some(0), Some(1), Some(0)]),
            [(0, 0), (1, 1), (2, 2), (3, 1)]
        );
        assert_eq!(depths(&[Some(9), Some(0)]), [(0, 0), (1, 1)]);
        assert_eq!(depths(&[Some(0), Some(0)]), [(0, 0), (1, 1)]);
        assert_eq!(
            depths(&[Some(1), Some(2), Some(1)]),
            [(1, 0), (0, 1), (2, 1)]
        );
    }

    proptest! {
        #[test]
        fn every_span_is_drawn_once_for_any_parents(parents in proptest::collection::vec(proptest::option::of(0..12_usize), 0..10)) {
            let mut drawn: Vec<usize> = depths(&parents).into_iter().map(|(place, _)| place).collect();
            drawn.sort_unstable();
            prop_assert_eq!(drawn, (0..parents.len()).collect::<Vec<_>>());
        }
    }
}
