//! What is left of an erased subject, place by place: the answer to whom it concerns.

use std::path::Path;

use durable::{Fs, read_all};
use serde::{Serialize, Serializer};

use super::super::error::{During as _, Result};
use super::super::generation::Manifest;
use super::super::sealed::{Home, Sealed};
use super::super::{Shared, View, layout, pin};
use super::coverage::Coverage;
use super::scan;
use crate::logs::annotation::{self, Annotation};
use crate::logs::eval::record::ExampleBody;
use crate::logs::eval::{self, EvalState};
use crate::logs::file;
use crate::logs::tombstone::{Erasure, Subject};
use crate::payload::ContentAddress;
use crate::span::Span;
use crate::wal;

/// What was found of an erased subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Receipt {
    /// The erasure.
    pub erasure_id: u64,
    /// What was to be forgotten.
    #[serde(serialize_with = "as_object")]
    pub subject: Subject,
    /// When that was asked for, in nanoseconds since the Unix epoch.
    pub requested_unix_ns: u64,
    /// When this was looked for.
    pub verified_unix_ns: u64,
    /// The generation that first lacked the subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// True when the erasure was carried out.
    pub settled: bool,
    /// The places where the store could have something of it, always the same eleven.
    pub domains: Vec<Domain>,
    /// True when the erasure is settled and no place holds any of it.
    #[serde(rename = "result", serialize_with = "as_result")]
    pub is_erased: bool,
    /// True when nothing was found that only a person can judge.
    #[serde(rename = "conclusive")]
    pub is_conclusive: bool,
}

/// A place, and what was found there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Domain {
    /// Its name.
    #[serde(rename = "domain")]
    pub name: &'static str,
    /// What the place says to the question whether the subject is erased.
    #[serde(rename = "result")]
    pub standing: Standing,
    /// What was looked at, for people.
    pub detail: String,
    /// Records of spans that the erasure named: they came again, or have not gone yet.
    #[serde(skip_serializing_if = "is_zero")]
    pub re_delivered: u64,
    /// Records of the subject that the erasure did not name: they are new.
    #[serde(skip_serializing_if = "is_zero")]
    pub new_activity: u64,
    /// How often names of the subject stand in the bytes of files.
    #[serde(skip_serializing_if = "is_zero")]
    pub occurrences: u64,
    /// What was found, one by one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<String>,
}

/// What a place says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Nothing of the subject is here.
    Clear,
    /// Something of it is: it is not erased.
    HoldsData,
    /// Something is that may be of it.
    Attention,
    /// Something is, and has to be.
    RetainedByDesign,
}

impl Domain {
    fn new(name: &'static str, standing: Standing, detail: &str) -> Self {
        Self {
            name,
            standing,
            detail: detail.to_owned(),
            re_delivered: 0,
            new_activity: 0,
            occurrences: 0,
            items: Vec::new(),
        }
    }

    fn clear(name: &'static str, detail: &str) -> Self {
        Self::new(name, Standing::Clear, detail)
    }

    /// What raw bytes say decides nothing: names of the subject can stand there for another reason.
    fn scanned(name: &'static str, detail: &str, occurrences: u64) -> Self {
        let standing = if occurrences > 0 {
            Standing::Attention
        } else {
            Standing::Clear
        };
        Self {
            occurrences,
            ..Self::new(name, standing, detail)
        }
    }

    /// Adds a span that the erasure covers.
    fn found(&mut self, coverage: &Coverage, span: &Span) {
        if coverage.names(&span.tenant, &span.trace_id, &span.span_id) {
            self.re_delivered += 1;
            self.standing = Standing::HoldsData;
        } else {
            self.new_activity += 1;
        }
    }

    fn holds(&mut self, item: String) {
        self.standing = Standing::HoldsData;
        self.items.push(item);
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the serializer hands out references"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn as_object<S: Serializer>(subject: &Subject, serializer: S) -> Result<S::Ok, S::Error> {
    let object: serde_json::Value =
        serde_json::from_str(&subject.to_json()).map_err(serde::ser::Error::custom)?;
    object.serialize(serializer)
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the serializer hands out references"
)]
fn as_result<S: Serializer>(is_erased: &bool, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(if *is_erased { "erased" } else { "not-erased" })
}

/// Under the maintenance lock.
pub(super) fn of(shared: &Shared, erasure: &Erasure) -> Result<Receipt> {
    let check = Check {
        shared,
        view: shared.unmasked_view(),
        erasure,
        coverage: Coverage::of(erasure),
        needles: scan::needles(&erasure.scope.subject),
    };
    let domains = vec![
        check.buffer(),
        Domain::clear("live-tail", "the store keeps nothing for followers"),
        check.log()?,
        check.segments()?,
        check.annotations(),
        check.evals(),
        check.payloads()?,
        check.caches()?,
        check.pins()?,
        Domain::clear(
            "generations",
            "manifests list files, and say nothing of what is in them",
        ),
        Domain::new(
            "tombstone-log",
            Standing::RetainedByDesign,
            "the record of the erasure itself: the subject, the spans, the payloads",
        ),
    ];
    let settle = erasure.settle.as_ref();
    let is = |standing| move |domain: &Domain| domain.standing == standing;
    Ok(Receipt {
        erasure_id: erasure.id,
        subject: erasure.scope.subject.clone(),
        requested_unix_ns: erasure.requested_unix_ns,
        verified_unix_ns: shared.clock.wall_ns(),
        generation: settle.map(|settle| settle.generation),
        settled: settle.is_some(),
        is_erased: settle.is_some() && !domains.iter().any(is(Standing::HoldsData)),
        is_conclusive: !domains.iter().any(is(Standing::Attention)),
        domains,
    })
}

struct Check<'c> {
    shared: &'c Shared,
    view: View,
    erasure: &'c Erasure,
    coverage: Coverage,
    needles: Vec<String>,
}

impl Check<'_> {
    fn fs(&self) -> &dyn Fs {
        self.shared.fs()
    }

    fn dir(&self) -> &Path {
        &self.shared.home.dir
    }

    fn buffer(&self) -> Domain {
        let mut domain = Domain::clear("write-buffer", "every buffered span was compared");
        for span in self.view.buffer.in_order() {
            if self.coverage.covers(span) {
                domain.found(&self.coverage, span);
            }
        }
        domain
    }

    fn log(&self) -> Result<Domain> {
        let path = self.dir().join(wal::FILE_NAME);
        let count = scan::count_in(self.fs(), &path, &self.needles)?;
        let detail = "the bytes of the write-ahead log were searched for the names of the subject";
        Ok(Domain::scanned("write-ahead-log", detail, count))
    }

    fn segments(&self) -> Result<Domain> {
        let detail = "every record that the indexes propose was decoded and compared";
        let mut domain = Domain::clear("segments", detail);
        for sealed in self.view.segments.iter() {
            self.coverage
                .each_record_in(sealed, &mut |span| domain.found(&self.coverage, &span))?;
        }
        Ok(domain)
    }

    /// An annotation of a tenant that was made since then is new. Others carry nothing that tells new from old, and any of
    /// them fails.
    fn is_old(&self, annotation: &Annotation) -> bool {
        !matches!(self.coverage.subject, Subject::Tenant { .. })
            || annotation.timestamp_ns < self.erasure.requested_unix_ns
    }

    fn annotations(&self) -> Domain {
        let mut domain = Domain::clear("annotations", "every annotation was compared");
        for annotation in self.shared.logs.annotations().all() {
            if !self.coverage.drops_annotation(annotation) {
                continue;
            }
            if self.is_old(annotation) {
                let item = format!("{:?} of {}", annotation.name, annotation.timestamp_ns);
                domain.holds(item);
            } else {
                domain.new_activity += 1;
            }
        }
        domain
    }

    fn evals(&self) -> Domain {
        let evals = self.shared.logs.evals();
        let state = evals.state();
        match &self.coverage.subject {
            Subject::Tenant { .. } => {
                let detail = "datasets and experiments were looked for by their numbers";
                let mut domain = Domain::clear("eval-records", detail);
                for item in self.left_of_tenant(state) {
                    domain.holds(item);
                }
                domain
            }
            Subject::Payload { .. } => {
                let detail = "examples of datasets say what they refer to; the bytes are gone";
                let mut domain = Domain::clear("eval-records", detail);
                for (digest, body) in state.examples() {
                    if self.refers(body) {
                        domain.items.push(format!("example {digest}"));
                        domain.standing = Standing::RetainedByDesign;
                    }
                }
                domain
            }
            Subject::Trace { tenant, .. }
            | Subject::Span { tenant, .. }
            | Subject::Session { tenant, .. } => {
                let detail = "examples of the tenant were searched for copies of the subject";
                let mut domain = Domain::clear("eval-records", detail);
                for (digest, body) in examples_of(state, tenant) {
                    if self.is_copy(body, tenant) {
                        domain.items.push(format!("example {digest}"));
                        domain.standing = Standing::Attention;
                    }
                }
                domain
            }
        }
    }

    /// The datasets and experiments of an erased tenant that are there.
    fn left_of_tenant(&self, state: &EvalState) -> Vec<String> {
        let scope = &self.erasure.scope;
        let datasets = scope.eval_datasets.iter();
        let datasets = datasets.filter(|id| state.dataset(**id).is_some());
        let experiments = scope.eval_experiments.iter();
        let experiments = experiments.filter(|id| state.experiment(**id).is_some());
        datasets
            .map(|id| format!("dataset {id}"))
            .chain(experiments.map(|id| format!("experiment {id}")))
            .collect()
    }

    fn refers(&self, body: &ExampleBody) -> bool {
        let mut references = std::collections::BTreeSet::new();
        body.payload_references(&mut references);
        super::super::liveness::addresses(references).any(|address| self.coverage.erases(address))
    }

    /// True for an example that says it was taken from the subject, or that names it.
    fn is_copy(&self, body: &ExampleBody, tenant: &str) -> bool {
        let is_taken = body.provenance.as_ref().is_some_and(|from| {
            let is_trace = matches!(
                &self.coverage.subject,
                Subject::Trace { trace_id, .. } if *trace_id == from.trace_id
            );
            from.tenant == tenant
                && (is_trace || self.coverage.names(tenant, &from.trace_id, &from.span_id))
        });
        let text = body.to_json();
        is_taken || self.needles.iter().any(|needle| text.contains(needle))
    }

    fn payloads(&self) -> Result<Domain> {
        let detail = "every payload that the erasure accounts for was looked for";
        let mut domain = Domain::clear("payloads", detail);
        let live = self.shared.live_payloads()?;
        for address in &self.coverage.payloads {
            if !self.has_payload(self.dir(), *address)? {
                domain.items.push(format!("{address}: erased"));
            } else if let Some(holder) = live.holder(*address) {
                domain.items.push(format!("{address}: retained, {holder}"));
            } else {
                domain.holds(format!("{address}: there, and nothing refers to it"));
            }
        }
        Ok(domain)
    }

    fn has_payload(&self, dir: &Path, address: ContentAddress) -> Result<bool> {
        let path = dir.join(address.relative_path());
        self.fs().exists(&path).during("look for", &path)
    }

    fn caches(&self) -> Result<Domain> {
        let mut count = 0;
        for sealed in self.view.segments.iter() {
            let path = sealed.path();
            for sidecar in [layout::sidecar_path(path), layout::columns_path(path)] {
                count += scan::count_in(self.fs(), &sidecar, &self.needles)?;
            }
        }
        let detail = "the bytes of the sidecars were searched for the names of the subject";
        Ok(Domain::scanned("derived-caches", detail, count))
    }

    fn pins(&self) -> Result<Domain> {
        let mut domain = Domain::clear("pins", "segments, logs and payloads of every pin");
        for folder in pin::pin_folders(self.fs(), self.dir())? {
            let label = layout::file_name(&folder);
            match self.is_in_pin(&folder) {
                Ok(true) => domain.holds(format!("{label}: release it to let the subject go")),
                Ok(false) => {}
                Err(error) => {
                    let item = format!("{label}: cannot be read: {error}");
                    domain.items.push(item);
                    if domain.standing == Standing::Clear {
                        domain.standing = Standing::Attention;
                    }
                }
            }
        }
        Ok(domain)
    }

    /// True when the pin holds something of the subject that was there when the erasure was asked for, or came again. What a
    /// later pin has of the subject beside that is new.
    fn is_in_pin(&self, folder: &Path) -> Result<bool> {
        let fs = self.fs();
        let manifest = Manifest::read_file(fs, &folder.join(pin::MANIFEST_NAME))?;
        let settle = self.erasure.settle.as_ref();
        let is_later = settle.is_some_and(|settle| manifest.generation > settle.generation);
        for address in &self.coverage.payloads {
            let counts = self.coverage.erases(*address) && !is_later
                || !self.has_payload(self.dir(), *address)?;
            if counts && self.has_payload(folder, *address)? {
                return Ok(true);
            }
        }
        let home = Home {
            dir: folder.to_owned(),
            is_writable: false,
            ..self.shared.home.clone()
        };
        for (id, _) in layout::segments(fs, folder)? {
            let mut holds = false;
            self.coverage
                .each_record_in(&Sealed::open(&home, id)?, &mut |span| {
                    let is_named = self
                        .coverage
                        .names(&span.tenant, &span.trace_id, &span.span_id);
                    holds |= is_named || !is_later;
                })?;
            if holds {
                return Ok(true);
            }
        }
        self.is_in_pinned_logs(folder)
    }

    fn is_in_pinned_logs(&self, folder: &Path) -> Result<bool> {
        let path = folder.join(annotation::FILE_NAME);
        let annotations = file::scan(&path, &self.pinned(&path)?, &annotation::FORMAT)?;
        let mut annotations = annotations.records.iter();
        let holds =
            annotations.any(|each| self.coverage.drops_annotation(each) && self.is_old(each));
        let path = folder.join(eval::FILE_NAME);
        let records = file::scan(&path, &self.pinned(&path)?, &eval::FORMAT)?.records;
        let state = EvalState::replay(records);
        Ok(holds || !self.left_of_tenant(&state).is_empty())
    }

    /// The bytes of a log in a pin, which may have none.
    fn pinned(&self, path: &Path) -> Result<Vec<u8>> {
        match read_all(self.fs(), path, file::FILE_LEN_MAX) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            other => other.during("read", path),
        }
    }
}

/// The examples that a dataset of the tenant lists.
fn examples_of<'e>(
    state: &'e EvalState,
    tenant: &str,
) -> std::collections::BTreeMap<&'e str, &'e ExampleBody> {
    let datasets = state.datasets().filter(|dataset| dataset.tenant == tenant);
    datasets
        .flat_map(|dataset| state.versions(dataset.dataset_id))
        .flat_map(|version| &version.examples)
        .filter_map(|(_, digest)| Some((digest.as_str(), state.example(digest)?)))
        .collect()
}
