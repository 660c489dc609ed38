//! The routes: what the router asks and the description of the API is made from. The first one that fits is taken.

use crate::api::{self, Answered, Call};

/// A route.
pub(crate) struct Route {
    /// With its case; `*` for every one.
    pub(crate) method: &'static str,
    /// `{name}` is one part of a path, `{name*}` all that follows.
    pub(crate) path: &'static str,
    /// True when it is not for credentials that are bound to a tenant.
    pub(crate) is_unbound: bool,
    pub(crate) query: Query,
    pub(crate) body: Body,
    /// The name of the shape of its answer.
    pub(crate) answer: &'static str,
    /// What it is for.
    pub(crate) about: &'static str,
    pub(crate) handler: for<'a> fn(&Call<'a>) -> Answered<'a>,
}

/// What a route makes of the query string.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Query {
    /// Nothing.
    Ignored,
    /// It takes these and refuses others.
    Only(&'static [&'static str]),
    /// The conditions on spans, and these.
    Spans(&'static [&'static str]),
    /// The same without a window of time.
    Live(&'static [&'static str]),
}

/// What a route makes of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// Nothing.
    Ignored,
    /// It has this shape.
    Json(&'static str),
    /// It may be left out.
    MaybeJson(&'static str),
    /// An export request of OTLP, as JSON or protobuf.
    Otlp,
}

const GET: Route = Route {
    method: "GET",
    path: "",
    is_unbound: false,
    query: Query::Ignored,
    body: Body::Ignored,
    answer: "",
    about: "",
    handler: api::healthy,
};
const POST: Route = Route {
    method: "POST",
    ..GET
};
const WINDOW_LIMIT_TENANT: &[&str] = &["since", "since_ns", "until", "until_ns", "limit", "tenant"];

pub(crate) const ROUTES: &[Route] = &[
    Route {
        path: "/healthz",
        answer: "Health",
        about: "Whether the process answers",
        handler: api::healthy,
        ..GET
    },
    Route {
        path: "/readyz",
        answer: "Health",
        about: "Whether the store takes spans in",
        handler: api::ready,
        ..GET
    },
    Route {
        path: "/v1/openapi.json",
        answer: "OpenApi",
        about: "This description",
        handler: super::openapi,
        ..GET
    },
    Route {
        path: "/v1/stats",
        is_unbound: true,
        answer: "Stats",
        about: "Counts of the store",
        handler: api::stats,
        ..GET
    },
    Route {
        path: "/v1/metrics",
        is_unbound: true,
        answer: "text",
        about: "Counters and times, for Prometheus",
        handler: api::metrics,
        ..GET
    },
    Route {
        path: "/v1/metrics.json",
        is_unbound: true,
        answer: "Metrics",
        about: "Counters and times, as JSON",
        handler: api::metrics_json,
        ..GET
    },
    Route {
        path: "/v1/spans",
        body: Body::Json("SpanBatch"),
        answer: "Ingested",
        about: "Takes spans in, all of them or none",
        handler: api::ingest_spans,
        ..POST
    },
    Route {
        path: "/v1/traces",
        body: Body::Otlp,
        answer: "OtlpResponse",
        about: "Takes an export request of OTLP in",
        handler: api::ingest_otlp,
        ..POST
    },
    Route {
        path: "/v1/spans",
        query: Query::Spans(&["sort", "limit", "cursor"]),
        answer: "SpanPage",
        about: "Spans that match, page by page",
        handler: api::spans,
        ..GET
    },
    Route {
        path: "/v1/traces/{trace_id*}",
        query: Query::Only(&["tenant"]),
        answer: "Trace",
        about: "A trace with its annotations",
        handler: api::trace,
        ..GET
    },
    Route {
        path: "/v1/export",
        query: Query::Spans(&["limit", "cursor"]),
        answer: "lines",
        about: "All spans that match, one JSON object a line",
        handler: api::export,
        ..GET
    },
    Route {
        path: "/v1/tail",
        query: Query::Live(&["cursor", "backfill", "limit", "sort"]),
        answer: "events",
        about: "Spans as they come in, as server-sent events",
        handler: api::tail,
        ..GET
    },
    Route {
        path: "/v1/sessions",
        query: Query::Only(WINDOW_LIMIT_TENANT),
        answer: "Sessions",
        about: "Sessions, the latest first",
        handler: api::sessions,
        ..GET
    },
    Route {
        path: "/v1/sessions/{session_id*}",
        query: Query::Only(&["tenant"]),
        answer: "Session",
        about: "A session with its traces",
        handler: api::session,
        ..GET
    },
    Route {
        path: "/v1/stats/llm",
        query: Query::Only(&[
            "group_by", "since", "since_ns", "until", "until_ns", "limit", "tenant",
        ]),
        answer: "LlmRows",
        about: "Tokens and cost of model calls, by model, provider, service, session or day",
        handler: api::llm,
        ..GET
    },
    Route {
        path: "/v1/stats/series",
        query: Query::Spans(&["buckets", "sort", "limit", "cursor"]),
        answer: "Series",
        about: "Sums and percentiles over time",
        handler: api::series,
        ..GET
    },
    Route {
        path: "/v1/stats/duration",
        query: Query::Spans(&["sort", "limit", "cursor"]),
        answer: "Durations",
        about: "How long the spans took",
        handler: api::durations,
        ..GET
    },
    Route {
        path: "/v1/stats/failures",
        query: Query::Spans(&["sort", "limit", "cursor"]),
        answer: "Failures",
        about: "Failed spans, grouped by service and name",
        handler: api::failures,
        ..GET
    },
    Route {
        path: "/v1/stats/slowest",
        query: Query::Spans(&["sort", "limit", "cursor"]),
        answer: "Spans",
        about: "The spans that took longest",
        handler: api::slowest,
        ..GET
    },
    Route {
        path: "/v1/tenants",
        answer: "Tenants",
        about: "What each tenant has",
        handler: api::tenants,
        ..GET
    },
    Route {
        path: "/v1/payloads/{reference*}",
        answer: "bytes",
        about: "The bytes of an offloaded payload",
        handler: api::payload,
        ..GET
    },
    Route {
        path: "/v1/annotations",
        body: Body::Json("NewAnnotation"),
        answer: "Recorded",
        about: "Records a judgment of a trace, a span, a session or an example",
        handler: api::annotate,
        ..POST
    },
    Route {
        path: "/v1/annotations",
        query: Query::Only(&[
            "trace_id",
            "span_id",
            "tenant",
            "session_id",
            "experiment_id",
            "example_id",
            "name",
            "source",
            "since",
            "since_ns",
            "until",
            "until_ns",
            "limit",
        ]),
        answer: "Annotations",
        about: "Judgments, the newest first",
        handler: api::annotations,
        ..GET
    },
    Route {
        path: "/v1/datasets",
        body: Body::Json("NewDataset"),
        answer: "DatasetCreated",
        about: "Creates a dataset",
        handler: api::create_dataset,
        ..POST
    },
    Route {
        path: "/v1/datasets",
        query: Query::Only(&["tenant"]),
        answer: "Datasets",
        about: "All datasets",
        handler: api::datasets,
        ..GET
    },
    Route {
        path: "/v1/datasets/{dataset_id}/versions/{version_id}/tombstone",
        body: Body::MaybeJson("NewTombstone"),
        answer: "Tombstoned",
        about: "Says that a version is not to be used any more",
        handler: api::tombstone_version,
        ..POST
    },
    Route {
        path: "/v1/datasets/{dataset_id}/versions",
        body: Body::Json("NewVersion"),
        answer: "VersionCreated",
        about: "Creates a version of a dataset",
        handler: api::create_version,
        ..POST
    },
    Route {
        path: "/v1/datasets/{dataset_id}/versions/{version_id}",
        answer: "Version",
        about: "A version with its examples",
        handler: api::version,
        ..GET
    },
    Route {
        path: "/v1/datasets/{dataset_id*}",
        answer: "Dataset",
        about: "A dataset",
        handler: api::dataset,
        ..GET
    },
    Route {
        path: "/v1/experiments",
        body: Body::Json("NewExperiment"),
        answer: "ExperimentCreated",
        about: "Creates an experiment over a version",
        handler: api::create_experiment,
        ..POST
    },
    Route {
        path: "/v1/experiments",
        query: Query::Only(&["dataset_id", "tenant"]),
        answer: "Experiments",
        about: "All experiments",
        handler: api::experiments,
        ..GET
    },
    Route {
        path: "/v1/experiments/diff",
        query: Query::Only(&["base", "candidate"]),
        answer: "ExperimentDiff",
        about: "How the scores of two experiments compare",
        handler: api::diff,
        ..GET
    },
    Route {
        path: "/v1/experiments/{experiment_id}/runs",
        body: Body::Json("NewRun"),
        answer: "Recorded",
        about: "Records that an experiment went through an example",
        handler: api::add_run,
        ..POST
    },
    Route {
        path: "/v1/experiments/{experiment_id}/runs",
        answer: "Runs",
        about: "The runs of an experiment",
        handler: api::runs,
        ..GET
    },
    Route {
        path: "/v1/experiments/{experiment_id}/scores",
        query: Query::Only(&["limit"]),
        answer: "Scores",
        about: "The scores of an experiment, the newest first",
        handler: api::scores,
        ..GET
    },
    Route {
        path: "/v1/experiments/{experiment_id}/summary",
        answer: "ExperimentSummary",
        about: "What the scores of an experiment add up to",
        handler: api::summary,
        ..GET
    },
    Route {
        path: "/v1/experiments/{experiment_id*}",
        answer: "Experiment",
        about: "An experiment",
        handler: api::experiment,
        ..GET
    },
    Route {
        path: "/v1/flush",
        is_unbound: true,
        answer: "Flushed",
        about: "Seals what is buffered",
        handler: api::flush,
        ..POST
    },
    Route {
        path: "/v1/checkpoint",
        is_unbound: true,
        answer: "Checkpoint",
        about: "Publishes a generation",
        handler: api::checkpoint,
        ..POST
    },
    Route {
        path: "/v1/verify",
        is_unbound: true,
        answer: "Verified",
        about: "Digests every file of the live generation anew",
        handler: api::verify,
        ..GET
    },
    Route {
        path: "/v1/backups/{label}/release",
        is_unbound: true,
        answer: "Released",
        about: "Gives a backup up",
        handler: api::unpin,
        ..POST
    },
    Route {
        path: "/v1/backups/{label*}",
        is_unbound: true,
        answer: "Backup",
        about: "Keeps the present generation as a backup",
        handler: api::pin,
        ..POST
    },
    Route {
        path: "/v1/erasures",
        body: Body::Json("NewErasure"),
        answer: "Erasure",
        about: "Erases something, and answers when it is gone",
        handler: api::erase,
        ..POST
    },
    Route {
        path: "/v1/erasures",
        answer: "Erasures",
        about: "All erasures, the oldest first",
        handler: api::erasures,
        ..GET
    },
    Route {
        path: "/v1/erasures/{erasure_id}/verify",
        answer: "Receipt",
        about: "Looks for what an erasure covers in every place",
        handler: api::receipt,
        ..GET
    },
    Route {
        path: "/v1/erasures/{erasure_id*}",
        answer: "Erasure",
        about: "An erasure",
        handler: api::erasure,
        ..GET
    },
    Route {
        method: "*",
        path: "/v1/mcp",
        about: "",
        handler: api::mcp,
        ..GET
    },
    Route {
        path: "/v1/test-panic",
        about: "",
        handler: api::panic_now,
        ..GET
    },
];
