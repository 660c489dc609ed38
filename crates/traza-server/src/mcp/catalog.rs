//! The tools: what they are called, what they take, who may use them.

use serde_json::{Value, json};

use super::context::Context;
use super::schema;
use super::tools;

/// A tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    DescribeStore,
    SearchSpans,
    GetTrace,
    ListSessions,
    GetSession,
    DiagnoseSession,
    TopFailures,
    SlowestSpans,
    AnalyzeCost,
    GetPayload,
    RecordAnnotation,
    PromoteFailures,
}

impl Tool {
    const ALL: [Self; 12] = [
        Self::DescribeStore,
        Self::SearchSpans,
        Self::GetTrace,
        Self::ListSessions,
        Self::GetSession,
        Self::DiagnoseSession,
        Self::TopFailures,
        Self::SlowestSpans,
        Self::AnalyzeCost,
        Self::GetPayload,
        Self::RecordAnnotation,
        Self::PromoteFailures,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::DescribeStore => "describe_store",
            Self::SearchSpans => "search_spans",
            Self::GetTrace => "get_trace",
            Self::ListSessions => "list_sessions",
            Self::GetSession => "get_session",
            Self::DiagnoseSession => "diagnose_session",
            Self::TopFailures => "top_failures",
            Self::SlowestSpans => "slowest_spans",
            Self::AnalyzeCost => "analyze_cost",
            Self::GetPayload => "get_payload",
            Self::RecordAnnotation => "record_annotation",
            Self::PromoteFailures => "promote_failures_to_dataset",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// For a tool that changes the store, the flag that allows it, and whether it is set.
    fn switch(self, context: &Context<'_>) -> Option<(&'static str, bool)> {
        match self {
            Self::RecordAnnotation => Some(("--mcp-annotations", context.options.annotations)),
            Self::PromoteFailures => Some(("--mcp-promote", context.options.promote)),
            _ => None,
        }
    }

    /// Why the caller cannot use it; `None` when it can.
    pub(super) fn refusal(self, context: &Context<'_>) -> Option<String> {
        let (flag, is_on) = self.switch(context)?;
        let name = self.name();
        if !is_on {
            return Some(format!(
                "{name} is off: the server was started without {flag}"
            ));
        }
        (!context.caller.may_write)
            .then(|| format!("{name} changes the store, and this token has no rw scope"))
    }

    fn title(self) -> &'static str {
        match self {
            Self::DescribeStore => "What the store holds",
            Self::SearchSpans => "Search spans",
            Self::GetTrace => "Open a trace",
            Self::ListSessions => "List sessions",
            Self::GetSession => "Open a session",
            Self::DiagnoseSession => "Find out why a session went wrong",
            Self::TopFailures => "Most frequent failures",
            Self::SlowestSpans => "Slowest spans",
            Self::AnalyzeCost => "Tokens and cost",
            Self::GetPayload => "Read an offloaded text",
            Self::RecordAnnotation => "Record a judgment",
            Self::PromoteFailures => "Make a dataset of a session's failures",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::DescribeStore => {
                "Tells what is here: size, days, services, models, providers and what sessions are named by. Ask it first: \
                 names differ between stores, and a guessed one gives an empty answer that looks like good news."
            }
            Self::SearchSpans => {
                "Finds spans that meet all conditions, a page at a time. For 'how many', 'which most' and 'how much' the \
                 tools that look at all spans are better: top_failures, slowest_spans, analyze_cost."
            }
            Self::GetTrace => {
                "Shows a trace as a tree of parents and children, with durations, models, tokens and cost, and the judgments \
                 recorded on it. Texts only with include_content."
            }
            Self::ListSessions => {
                "Lists sessions, ranked over all of them: the most recent first, or the dearest, or those with most errors \
                 or tokens."
            }
            Self::GetSession => {
                "Shows the sums of a session and its traces in the order of their starts."
            }
            Self::DiagnoseSession => {
                "Works out how a session ended, which step the failure comes from, and which steps repeat and how: a retry \
                 storm, a context that grows without end, a step nested in itself, declared retries, or plain iteration. It \
                 says what is missing when it cannot decide. Better than reading the spans."
            }
            Self::TopFailures => {
                "Groups all failed spans by service, operation and status, the most frequent first, each with times and an \
                 example. Shares are of all matches, not of the rows shown."
            }
            Self::SlowestSpans => "The longest of all matching spans, however many match.",
            Self::AnalyzeCost => {
                "Adds up tokens and cost by model, provider, service, session or day, the dearest first; on request also \
                 over time."
            }
            Self::GetPayload => {
                "Reads a text that was too long to stay in its span. Where a value shows a '$payload', pass what stands \
                 there."
            }
            Self::RecordAnnotation => {
                "Records a judgment about a trace or a span. It is always signed 'agent:mcp', so that nobody takes it for a \
                 person's."
            }
            Self::PromoteFailures => {
                "Makes the steps that a diagnosis implicates into examples of a dataset, for regression tests. It takes a \
                 session and works the steps out itself. The same session again changes nothing."
            }
        }
    }

    fn input(self) -> Value {
        match self {
            Self::DescribeStore => schema::object(&[], &[]),
            Self::SearchSpans => tools::search::schema(),
            Self::GetTrace => tools::trace::schema(),
            Self::ListSessions => tools::sessions::list_schema(),
            Self::GetSession => schema::object(
                &[("session_id", schema::text("The session."))],
                &["session_id"],
            ),
            Self::DiagnoseSession => tools::diagnose::schema(),
            Self::TopFailures | Self::SlowestSpans => schema::object(&schema::filter(10, 50), &[]),
            Self::AnalyzeCost => tools::cost::schema(),
            Self::GetPayload => tools::payload::schema(),
            Self::RecordAnnotation => tools::annotate::schema(),
            Self::PromoteFailures => tools::promote::schema(),
        }
    }

    fn output(self) -> Option<Value> {
        match self {
            Self::ListSessions => Some(schema::sessions()),
            Self::DiagnoseSession => Some(schema::diagnosis()),
            Self::AnalyzeCost => Some(schema::cost()),
            _ => None,
        }
    }

    fn entry(self, context: &Context<'_>) -> Value {
        let mut annotations =
            json!({"readOnlyHint": self.switch(context).is_none(), "openWorldHint": false});
        if let (Some(_), Some(hints)) = (self.switch(context), annotations.as_object_mut()) {
            hints.insert("destructiveHint".to_owned(), json!(false));
            hints.insert("idempotentHint".to_owned(), json!(false));
        }
        let mut entry = json!({
            "name": self.name(),
            "title": self.title(),
            "description": self.description(),
            "inputSchema": self.input(),
            "annotations": annotations,
        });
        if let (Some(output), Some(entry)) = (self.output(), entry.as_object_mut()) {
            entry.insert("outputSchema".to_owned(), output);
        }
        entry
    }
}

/// The tools that the caller can use.
pub(super) fn list(context: &Context<'_>) -> Value {
    let usable = Tool::ALL
        .into_iter()
        .filter(|tool| tool.refusal(context).is_none());
    let tools: Vec<Value> = usable.map(|tool| tool.entry(context)).collect();
    json!({ "tools": tools })
}
