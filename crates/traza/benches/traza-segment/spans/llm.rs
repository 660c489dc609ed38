//! Conversations with agents that call models and tools.

use std::collections::VecDeque;

use traza::json::{Number, Object, Value};
use traza::span::{Event, Link, Span};

use super::{BASE_NS, MS, Random, Text, Traces, put, rounded};

const MODELS: [(&str, &str); 4] = [
    ("openai", "gpt-4o"),
    ("openai", "gpt-4o-mini"),
    ("anthropic", "claude-sonnet-4"),
    ("mistral", "mistral-large"),
];
const TOOLS: [&str; 4] = [
    "lookup_order",
    "search_docs",
    "convert_currency",
    "get_weather",
];
const SESSION_KEYS: [&str; 3] = [
    "session.id",
    "gen_ai.conversation.id",
    "traceloop.association.properties.session_id",
];
/// Lengths of the system prompts, which repeat word for word.
const SYSTEM_LENS: [u64; 4] = [300, 700, 1500, 3500];
const TEXT_LEN_MIN: u64 = 200;
const TEXT_LEN_MAX: u64 = 20_000;

pub(super) struct Conversations {
    random: Random,
    text: Text,
    systems: Vec<String>,
    now: u64,
    number: u64,
}

/// What all spans of a conversation share.
struct Conversation {
    number: u64,
    session: String,
    system: String,
    provider: &'static str,
    model: &'static str,
}

impl Conversation {
    fn put_session(&self, attributes: &mut Object) {
        let key = usize::try_from(self.number % 3)
            .ok()
            .and_then(|index| SESSION_KEYS.get(index));
        put(
            attributes,
            key.copied().unwrap_or_default(),
            self.session.as_str(),
        );
    }
}

impl Conversations {
    pub(super) fn new(mut random: Random) -> Self {
        let text = Text::new(&mut random, 400);
        let system = |(index, len): (usize, &u64)| {
            format!(
                "You are assistant {index}. {}",
                text.make(&mut random, *len)
            )
        };
        let systems = SYSTEM_LENS.iter().enumerate().map(system).collect();
        Self {
            random,
            text,
            systems,
            now: BASE_NS,
            number: 0,
        }
    }

    fn turn(&mut self, conversation: &Conversation, out: &mut VecDeque<Span>) {
        self.now += self.random.skewed(2 * MS, 4_000 * MS, 1.0);
        let mut attributes = Object::new();
        put(&mut attributes, "traceloop.span.kind", "workflow");
        put(&mut attributes, "traceloop.workflow.name", "support");
        conversation.put_session(&mut attributes);
        let mut root = Span {
            trace_id: self.random.hex(16).into(),
            span_id: self.random.hex(8).into(),
            name: "support.workflow".into(),
            start_time_ns: self.now,
            status: "ok".into(),
            service: "assistant".into(),
            attributes,
            ..Span::default()
        };
        let mut now = self.now;
        let mut body = Vec::new();
        for _ in 0..self.random.between(1, 3) {
            now += self.random.between(1, 30) * MS;
            let chat = self.chat(conversation, &root, now);
            now = chat.end_time_ns;
            let tool = self
                .random
                .chance(0.6)
                .then(|| self.tool(&root, &chat, now));
            body.push(chat);
            if let Some(tool) = tool {
                now = tool.end_time_ns;
                body.push(tool);
            }
        }
        root.end_time_ns = now;
        out.push_back(root);
        out.extend(body);
    }

    fn chat(&mut self, conversation: &Conversation, root: &Span, start: u64) -> Span {
        let random = &mut self.random;
        let end = start + random.skewed(80 * MS, 9_000 * MS, 1.2);
        let prompt_len = random.skewed(TEXT_LEN_MIN, TEXT_LEN_MAX, 2.0);
        let prompt = self.text.make(random, prompt_len);
        let answer_len = random.skewed(TEXT_LEN_MIN, TEXT_LEN_MAX, 2.0);
        let answer = self.text.make(random, answer_len);
        let input_tokens = (conversation.system.len() + prompt.len()) as u64 / 4;
        let output_tokens = answer.len() as u64 / 4;
        let failed = random.chance(0.04);
        let mut attributes = Object::new();
        let provider_key = if conversation.number % 2 == 1 {
            "gen_ai.provider.name"
        } else {
            "gen_ai.system"
        };
        put(&mut attributes, provider_key, conversation.provider);
        put(&mut attributes, "gen_ai.operation.name", "chat");
        put(&mut attributes, "gen_ai.request.model", conversation.model);
        let temperature = match random.below(4) {
            0 => Value::from(0u64),
            1 => Value::Number(Number::Float(0.2)),
            2 => Value::Number(Number::Float(0.7)),
            _ => Value::Number(Number::Float(1.0)),
        };
        put(&mut attributes, "gen_ai.request.temperature", temperature);
        put(
            &mut attributes,
            "gen_ai.request.max_tokens",
            random.pick_number(&[256, 1024, 4096]),
        );
        put(&mut attributes, "traceloop.span.kind", "llm");
        conversation.put_session(&mut attributes);
        if random.chance(0.5) {
            let model = format!("{}-2025-06-01", conversation.model);
            put(&mut attributes, "gen_ai.response.model", model);
        }
        for (key, value) in [
            ("gen_ai.prompt.0.role", "system"),
            ("gen_ai.prompt.0.content", conversation.system.as_str()),
            ("gen_ai.prompt.1.role", "user"),
            ("gen_ai.prompt.1.content", prompt.as_str()),
            ("gen_ai.completion.0.role", "assistant"),
            ("gen_ai.completion.0.content", answer.as_str()),
        ] {
            put(&mut attributes, key, value);
        }
        if !failed {
            put_usage(
                &mut attributes,
                conversation.number,
                input_tokens,
                output_tokens,
            );
        }
        let mut first = Object::new();
        put(&mut first, "index", 0u64);
        let timestamp_ns = start + (end - start) / 5;
        let mut events = vec![Event {
            name: "first_token".into(),
            timestamp_ns,
            attributes: first,
        }];
        if failed {
            let mut attributes = Object::new();
            put(&mut attributes, "exception.type", "RateLimited");
            put(
                &mut attributes,
                "exception.message",
                self.text.make(random, 60),
            );
            events.push(Event {
                name: "exception".into(),
                timestamp_ns: end,
                attributes,
            });
        }
        Span {
            trace_id: root.trace_id.clone(),
            span_id: random.hex(8).into(),
            parent_span_id: Some(root.span_id.clone()),
            name: format!("{}.chat", conversation.provider).into(),
            start_time_ns: start,
            end_time_ns: end,
            status: if failed { "error" } else { "ok" }.into(),
            service: root.service.clone(),
            attributes,
            events,
            ..Span::default()
        }
    }

    fn tool(&mut self, root: &Span, chat: &Span, start: u64) -> Span {
        let random = &mut self.random;
        let tool = random.pick(&TOOLS);
        let query_len = random.between(20, 80);
        let arguments = Value::Object(Object::from([
            (
                "query".to_owned(),
                Value::from(self.text.make(random, query_len)),
            ),
            ("n".to_owned(), Value::from(random.below(9))),
        ]));
        let result_len = random.skewed(60, 4000, 2.0);
        let mut attributes = Object::new();
        put(&mut attributes, "traceloop.span.kind", "tool");
        put(&mut attributes, "gen_ai.operation.name", "execute_tool");
        put(&mut attributes, "gen_ai.tool.name", tool);
        put(
            &mut attributes,
            "gen_ai.tool.call.id",
            format!("call_{}", random.hex(6)),
        );
        put(&mut attributes, "tool.arguments", arguments.to_string());
        put(
            &mut attributes,
            "tool.result",
            self.text.make(random, result_len),
        );
        let mut relation = Object::new();
        put(&mut relation, "relation", "called-by");
        Span {
            trace_id: root.trace_id.clone(),
            span_id: random.hex(8).into(),
            parent_span_id: Some(root.span_id.clone()),
            name: format!("{tool}.tool").into(),
            start_time_ns: start,
            end_time_ns: start + random.skewed(MS, 700 * MS, 1.0),
            status: "ok".into(),
            service: "tools".into(),
            attributes,
            links: vec![Link {
                trace_id: chat.trace_id.clone(),
                span_id: chat.span_id.clone(),
                attributes: relation,
            }],
            ..Span::default()
        }
    }
}

/// Token counts: some systems send them as text.
#[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
fn put_usage(attributes: &mut Object, number: u64, input: u64, output: u64) {
    if number.is_multiple_of(4) {
        put(attributes, "gen_ai.usage.prompt_tokens", input.to_string());
        put(
            attributes,
            "gen_ai.usage.completion_tokens",
            output.to_string(),
        );
    } else {
        put(attributes, "gen_ai.usage.input_tokens", input);
        put(attributes, "gen_ai.usage.output_tokens", output);
    }
    if !number.is_multiple_of(5) {
        put(
            attributes,
            "llm.cost_usd",
            rounded(input as f64 * 2.5e-6 + output as f64 * 1e-5, 8),
        );
    }
}

impl Traces for Conversations {
    fn next_trace(&mut self, out: &mut VecDeque<Span>) {
        self.number += 1;
        let pick = |count: usize, number: u64| usize::try_from(number % count as u64).unwrap_or(0);
        let system = self.systems.get(pick(self.systems.len(), self.number));
        let model = self.random.below(MODELS.len() as u64);
        let (provider, model) = MODELS
            .get(pick(MODELS.len(), model))
            .copied()
            .unwrap_or_default();
        let conversation = Conversation {
            number: self.number,
            session: format!("chat-{:05}", self.number),
            system: system.cloned().unwrap_or_default(),
            provider,
            model,
        };
        for _ in 0..self.random.between(1, 4) {
            self.turn(&conversation, out);
        }
    }
}
