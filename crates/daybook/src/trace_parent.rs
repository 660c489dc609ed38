//! A trace for the spans of a command, as W3C Trace Context spells it.

use durable::digest::hex;
use rustix::rand::{GetRandomFlags, getrandom};

/// The trace that the spans of a command belong to.
#[derive(Debug)]
pub(crate) struct TraceParent {
    /// The trace, in hexadecimal.
    pub(crate) id: String,
    span: String,
}

impl TraceParent {
    /// A new trace.
    pub(crate) fn new() -> Self {
        let mut bytes = [0; 24];
        // Short only before the system has any randomness at all; then two trials may share a trace.
        getrandom(&mut bytes, GetRandomFlags::empty()).ok();
        // Zeros alone are no identity.
        if let Some(last) = bytes.last_mut() {
            *last |= 1;
        }
        let (id, span) = bytes.split_at_mut(16);
        if let Some(last) = id.last_mut() {
            *last |= 1;
        }
        Self {
            id: hex(id),
            span: hex(span),
        }
    }

    /// As W3C Trace Context spells it: version 00, sampled.
    pub(crate) fn text(&self) -> String {
        format!("00-{}-{}-01", self.id, self.span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_parent_has_the_spelling_of_the_standard() {
        let (one, other) = (TraceParent::new(), TraceParent::new());
        assert_ne!(one.id, other.id);
        let parent = one.text();
        let parts: Vec<&str> = parent.split('-').collect();
        assert_eq!(
            parts.iter().map(|part| part.len()).collect::<Vec<_>>(),
            [2, 32, 16, 2]
        );
        assert!(
            parts
                .iter()
                .all(|part| part.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f')))
        );
    }
}
