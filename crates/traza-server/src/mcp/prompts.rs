//! Ways to begin an investigation.

use serde_json::{Map, Value, json};

use super::clean;
use super::context::Context;
use super::overview::overview;
use super::resources::OVERVIEW_URI;
use super::rpc::RpcError;

/// How far back a prompt looks when it is not told.
const SINCE_DEFAULT: &str = "24h";

/// A prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prompt {
    DebugFailingSession,
    ExplainCostSpike,
    FindAgentLoops,
    TriageErrors,
}

impl Prompt {
    const ALL: [Self; 4] = [
        Self::DebugFailingSession,
        Self::ExplainCostSpike,
        Self::FindAgentLoops,
        Self::TriageErrors,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::DebugFailingSession => "debug_failing_session",
            Self::ExplainCostSpike => "explain_cost_spike",
            Self::FindAgentLoops => "find_agent_loops",
            Self::TriageErrors => "triage_errors",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::DebugFailingSession => "Why did this session fail?",
            Self::ExplainCostSpike => "Where did the money go?",
            Self::FindAgentLoops => "Do agents run in circles?",
            Self::TriageErrors => "What is failing?",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::DebugFailingSession => "From the sums of a session to the step that broke it.",
            Self::ExplainCostSpike => {
                "From a rise in tokens or cost to the day, model, service and sessions behind it."
            }
            Self::FindAgentLoops => "Sessions that repeat themselves, and the traces that show it.",
            Self::TriageErrors => {
                "The failures of a window, the worst first, with an example of each."
            }
        }
    }

    fn arguments(self) -> &'static [(&'static str, &'static str)] {
        const SINCE: (&str, &str) = (
            "since",
            "Where the window begins; 24h ago when it is left out.",
        );
        const SERVICE: (&str, &str) = ("service", "Only this service.");
        match self {
            Self::DebugFailingSession => &[
                (
                    "session_id",
                    "The session; the worst recent one when it is left out.",
                ),
                SINCE,
            ],
            Self::ExplainCostSpike => &[SINCE, ("until", "Where the window ends.")],
            Self::FindAgentLoops | Self::TriageErrors => &[SINCE, SERVICE],
        }
    }

    fn text(self, given: &Given<'_>) -> String {
        let since = given
            .text("since")
            .unwrap_or_else(|| SINCE_DEFAULT.to_owned());
        let within = format!("within since={since:?}");
        let service = given
            .text("service")
            .map_or_else(String::new, |service| format!(", only service={service:?}"));
        match self {
            Self::DebugFailingSession => {
                let which = match given.text("session_id") {
                    Some(id) => format!("Find out why the session {id:?} went wrong."),
                    None => format!(
                        "Find out why the worst session {within} went wrong. list_sessions with order_by=errors names it."
                    ),
                };
                format!(
                    "{which}\n\n1. Call diagnose_session. Take its verdict as it is: it has counted what reading spans would \
                     only guess.\n2. If it names a cause, open that trace with get_trace and look at the step and what is \
                     around it.\n3. If it names none, its 'undecided' lines tell which signal is missing; report that.\n4. Only \
                     if the failure is still not clear, call get_trace with include_content, and get_payload for a \
                     '$payload' that matters.\n\nReport what failed, which step it comes from and how sure that is, whether \
                     there is one cause or several, and the trace that shows it best."
                )
            }
            Self::ExplainCostSpike => {
                let until = given
                    .text("until")
                    .map_or_else(String::new, |until| format!(" and until={until:?}"));
                format!(
                    "Explain where tokens and money went {within}{until}.\n\n1. Call analyze_cost with group_by=day to find \
                     the days that stand out.\n2. For these days call it with group_by=model and group_by=service: what \
                     grew, the number of calls, the tokens per call, or the price?\n3. Call list_sessions with \
                     order_by=cost for the same window, and get_session for the first ones.\n4. Where one session stands \
                     out, diagnose_session tells whether its context grew without end.\n\nReport the day, the model, the \
                     service and the sessions with their shares, and say which amounts are estimates (~) or undercounts."
                )
            }
            Self::FindAgentLoops => format!(
                "Look for agents that run in circles {within}{service}.\n\n1. Call list_sessions with order_by=tokens, and \
                 again with order_by=errors.\n2. Call diagnose_session for those that stand out. It tells a retry storm, a \
                 context that grows without end and a step nested in itself from plain iteration.\n3. Open the trace of the \
                 clearest finding with get_trace.\n\nReport each loop with its shape, its evidence and its cost. Many calls \
                 alone are no loop."
            ),
            Self::TriageErrors => format!(
                "Find out what is failing {within}{service}.\n\n1. Call top_failures. Its shares are of all failures, not of \
                 the rows shown.\n2. Open the example of the first rows with get_trace.\n3. Call slowest_spans for the same \
                 window: what fails and what is slow often have one cause.\n4. Call top_failures with an earlier 'since' to \
                 see which of them are new.\n\nReport the groups in order, which are new and which are old, and the trace \
                 that shows the first one best."
            ),
        }
    }
}

/// The arguments of a prompt.
struct Given<'a>(Option<&'a Map<String, Value>>);

impl Given<'_> {
    /// One that is there and not empty, cut to the length of a name.
    fn text(&self, name: &str) -> Option<String> {
        let text = self
            .0?
            .get(name)?
            .as_str()
            .filter(|text| !text.is_empty())?;
        Some(clean::without_closing_tags(&clean::structured(text)).into_owned())
    }
}

/// `prompts/list`.
pub(super) fn list() -> Value {
    let entry = |prompt: Prompt| {
        let arguments = prompt.arguments().iter();
        let arguments: Vec<Value> = arguments
            .map(|(name, description)| json!({"name": name, "description": description, "required": false}))
            .collect();
        json!({
            "name": prompt.name(),
            "title": prompt.title(),
            "description": prompt.description(),
            "arguments": arguments,
        })
    };
    json!({"prompts": Prompt::ALL.map(entry)})
}

/// `prompts/get`: what to do, and what the store holds now.
pub(super) fn get(context: &Context<'_>, params: &Map<String, Value>) -> Result<Value, RpcError> {
    let name = params
        .get("name")
        .and_then(Value::as_str)
        .ok_or_else(|| RpcError::invalid_params("prompts/get needs a name"))?;
    let prompt = Prompt::ALL
        .into_iter()
        .find(|prompt| prompt.name() == name)
        .ok_or_else(|| {
            RpcError::invalid_params(format!("unknown prompt: {}", clean::name(name)))
        })?;
    let given = Given(params.get("arguments").and_then(Value::as_object));
    let overview = overview(context).map_err(|error| RpcError::internal(error.text()))?;
    let resource = overview.into_text_result(
        context.options.result_len_max,
        &|text| json!({"uri": OVERVIEW_URI, "mimeType": "text/plain", "text": text}),
    );
    Ok(json!({
        "description": prompt.description(),
        "messages": [
            {"role": "user", "content": {"type": "text", "text": prompt.text(&given)}},
            {"role": "user", "content": {"type": "resource", "resource": resource}},
        ],
    }))
}
