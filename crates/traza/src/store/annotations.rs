//! Judgments: recorded beside the spans, and found again by what they are about.

use std::sync::Arc;

use super::error::Result;
use super::{Shared, Store};
use crate::logs::annotation::{Annotation, Annotations, AppendError, Subject};

/// What became of an annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Annotated {
    /// It is recorded, durably.
    Recorded,
    /// What it is about is being erased: it was not recorded.
    Suppressed,
}

/// Conditions on an annotation; all of them must hold. The default takes every one.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AnnotationFilter {
    /// Naming this trace, also by one of its spans or in a score.
    pub trace_id: Option<String>,
    /// Naming a span of this id.
    pub span_id: Option<String>,
    /// Of this tenant; `Some("")` is the default one, `None` all.
    pub tenant: Option<String>,
    /// About this session.
    pub session_id: Option<String>,
    /// A score of this experiment.
    pub experiment_id: Option<u64>,
    /// A score of an example with this id.
    pub example_id: Option<String>,
    /// With this name.
    pub name: Option<String>,
    /// From a source that begins like this.
    pub source_prefix: Option<String>,
    /// Made then or later, in nanoseconds since the Unix epoch.
    pub since: Option<u64>,
    /// Made then or earlier.
    pub until: Option<u64>,
    /// So many at most.
    pub limit: Option<usize>,
}

impl AnnotationFilter {
    /// True when all conditions hold.
    pub fn matches(&self, annotation: &Annotation) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == found)
        };
        let source = self.source_prefix.as_deref().unwrap_or_default();
        is(&self.trace_id, &annotation.trace_id)
            && is(&self.span_id, &annotation.span_id)
            && is(&self.tenant, &annotation.tenant)
            && is(&self.session_id, &annotation.session_id)
            && is(&self.example_id, &annotation.example_id)
            && is(&self.name, &annotation.name)
            && (self.experiment_id.is_none() || self.experiment_id == annotation.experiment_id)
            && annotation.source.starts_with(source)
            && self
                .since
                .is_none_or(|time| annotation.timestamp_ns >= time)
            && self
                .until
                .is_none_or(|time| annotation.timestamp_ns <= time)
    }

    /// The annotations that may match, in the order of recording: by the index that the filter has something for.
    fn candidates<'a>(
        &'a self,
        all: &'a Annotations,
    ) -> Box<dyn Iterator<Item = &'a Annotation> + 'a> {
        if let Some(trace_id) = self.trace_id.as_deref().filter(|id| !id.is_empty()) {
            Box::new(all.of_trace(trace_id))
        } else if let Some(session_id) = self.session_id.as_deref().filter(|id| !id.is_empty()) {
            Box::new(all.of_session(session_id))
        } else if let Some(experiment_id) = self.experiment_id {
            Box::new(all.scores(experiment_id))
        } else {
            Box::new(all.all().iter())
        }
    }
}

impl Store {
    /// Records a judgment. What it is about need not exist, but for the experiment and the example of a score, which
    /// must be of its tenant. Equal ones are recorded again. A time of 0 stays 0, and is long ago for the retention.
    ///
    /// # Errors
    /// [`StoreError::Annotation`](super::StoreError::Annotation) for one that is not valid or cannot be written,
    /// [`StoreError::Eval`](super::StoreError::Eval) for a score of no such example. It is not recorded then; a write
    /// that failed may come to light after a crash.
    ///
    /// # Durability
    /// [`Annotated::Recorded`] survives a power loss, whatever
    /// [`StoreOptions::durability`](super::StoreOptions::durability) says of spans.
    pub fn annotate(&self, annotation: Annotation) -> Result<Annotated> {
        self.shared.check_writable()?;
        let _gate = self.shared.gate();
        let logs = &self.shared.logs;
        let subject = annotation.subject().map_err(AppendError::Fault)?;
        if self.shared.view().mask.hides_annotation(&annotation) {
            return Ok(Annotated::Suppressed);
        }
        if let Subject::Score {
            experiment_id,
            example_id,
        } = subject
        {
            logs.evals()
                .check_score(&annotation.tenant, experiment_id, example_id)?;
        }
        logs.annotations().append(annotation)?;
        Ok(Annotated::Recorded)
    }

    /// The annotations that match, the newest first; those of one time by tenant, trace, span, example and name.
    pub fn annotations(&self, filter: &AnnotationFilter) -> Vec<Annotation> {
        let mut found = self.shared.annotations(filter);
        found.sort_by(|a, b| {
            let newest_first = b.timestamp_ns.cmp(&a.timestamp_ns);
            newest_first.then_with(|| tie(a).cmp(&tie(b)))
        });
        found.truncate(filter.limit.unwrap_or(usize::MAX));
        found
    }

    /// All annotations that name the trace, in the order in which they were recorded. Of all tenants, or of one;
    /// `Some("")` is the default one.
    pub fn trace_annotations(&self, trace_id: &str, tenant: Option<&str>) -> Vec<Annotation> {
        self.shared.annotations(&AnnotationFilter {
            trace_id: Some(trace_id.to_owned()),
            tenant: tenant.map(str::to_owned),
            ..AnnotationFilter::default()
        })
    }
}

/// What orders annotations of one time.
fn tie(annotation: &Annotation) -> [&str; 5] {
    [
        &annotation.tenant,
        &annotation.trace_id,
        &annotation.span_id,
        &annotation.example_id,
        &annotation.name,
    ]
}

impl Shared {
    /// Those that match, in the order of recording.
    pub(super) fn annotations(&self, filter: &AnnotationFilter) -> Vec<Annotation> {
        let mask = Arc::clone(&self.view().mask);
        let annotations = self.logs.annotations();
        let candidates = filter.candidates(&annotations);
        candidates
            .filter(|annotation| filter.matches(annotation) && !mask.hides_annotation(annotation))
            .cloned()
            .collect()
    }
}
