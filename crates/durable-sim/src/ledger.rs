//! What a workload asked for, and what it was promised.

use std::fmt::{self, Debug};

/// What was submitted and what was acknowledged, each in order.
#[derive(Clone, Debug)]
pub struct Ledger<T> {
    submitted: Vec<T>,
    acknowledged: Vec<T>,
}

impl<T> Default for Ledger<T> {
    fn default() -> Self {
        Self {
            submitted: Vec::new(),
            acknowledged: Vec::new(),
        }
    }
}

impl<T> Ledger<T> {
    /// Notes what is about to be written. To be called before the write: from then on a crash may
    /// leave it on the disk.
    pub fn submit(&mut self, item: T) {
        self.submitted.push(item);
    }

    /// Notes that `item` was promised to be durable. To be called after the promise.
    pub fn acknowledge(&mut self, item: T) {
        self.acknowledged.push(item);
    }

    /// Notes that all that was submitted so far was promised to be durable.
    pub fn acknowledge_all(&mut self)
    where
        T: Clone,
    {
        self.acknowledged.clone_from(&self.submitted);
    }

    /// What was submitted, in order.
    pub fn submitted(&self) -> &[T] {
        &self.submitted
    }

    /// What was acknowledged, in order.
    pub fn acknowledged(&self) -> &[T] {
        &self.acknowledged
    }
}

impl<T: PartialEq + Debug> Ledger<T> {
    /// The oracle of a log: `recovered` is the beginning of what was submitted, and at least what
    /// was acknowledged.
    pub fn check_prefix(&self, recovered: &[T]) -> Result<(), OracleBreak> {
        if !self.submitted.starts_with(recovered) {
            return self.broken("recovered is not the beginning of submitted", recovered);
        }
        if !recovered.starts_with(&self.acknowledged) {
            return self.broken("recovered does not begin with acknowledged", recovered);
        }
        Ok(())
    }

    /// The oracle where an error may leave a gap: acknowledged ⊆ recovered ⊆ submitted, each in the
    /// order of the next.
    pub fn check_in_order(&self, recovered: &[T]) -> Result<(), OracleBreak> {
        if !is_subsequence(recovered, &self.submitted) {
            return self.broken("recovered is not within submitted, in order", recovered);
        }
        if !is_subsequence(&self.acknowledged, recovered) {
            return self.broken("acknowledged is not within recovered, in order", recovered);
        }
        Ok(())
    }

    fn broken(&self, rule: &'static str, recovered: &[T]) -> Result<(), OracleBreak> {
        Err(OracleBreak {
            rule,
            detail: format!(
                "acknowledged={:?} recovered={recovered:?} submitted={:?}",
                self.acknowledged, self.submitted
            ),
        })
    }
}

fn is_subsequence<T: PartialEq>(part: &[T], whole: &[T]) -> bool {
    let mut rest = whole.iter();
    part.iter().all(|item| rest.any(|other| other == item))
}

/// What was recovered breaks a promise or was never written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OracleBreak {
    /// The rule that it breaks.
    pub rule: &'static str,
    detail: String,
}

impl fmt::Display for OracleBreak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.detail)
    }
}

impl std::error::Error for OracleBreak {}
