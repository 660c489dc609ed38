//! Questions to settled stores, and their export. The servers take turns, question by question.

use std::io::Read as _;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Result;
use crate::corpus::Corpus;
use crate::figure::{Bar, Measured, float, quantile};
use crate::server::{Connection, Server};
use crate::spans::{Profile, RARE_WORDS, Random, rare_word};

/// A question that takes long is asked no longer than this.
const BUDGET: Duration = Duration::from_secs(4);
/// But so often at least.
const CALLS_MIN: usize = 10;
/// So often each store is exported.
const EXPORTS: usize = 3;

/// A kind of question.
struct Question<'c> {
    name: &'static str,
    /// What is asked, and how many spans have to come.
    ask: Box<dyn FnMut(usize) -> (String, Option<usize>) + 'c>,
    p50: Limit,
    p99: Option<Bar>,
}

/// What the p50 of a question has to reach.
#[derive(Clone, Copy)]
enum Limit {
    None,
    Of(Bar),
    /// So many ms beyond what an empty answer takes.
    BeyondTransport(f64),
}

/// Asks all servers; answers the figures of each.
pub(crate) fn measure(
    servers: &[Server],
    corpus: &Corpus,
    quick: bool,
) -> Result<Vec<Vec<Measured>>> {
    let calls = if quick { 20 } else { 300 };
    let connections: Vec<Connection> = servers.iter().map(Server::connect).collect();
    let mut figures = vec![Vec::new(); servers.len()];
    let mut transport = 0.0;
    for mut question in questions(corpus) {
        let mut millis = vec![Vec::new(); servers.len()];
        let mut spent = Duration::ZERO;
        for call in 0..calls {
            if spent > BUDGET && call >= CALLS_MIN {
                break;
            }
            let (target, wanted) = (question.ask)(call);
            for (connection, millis) in connections.iter().zip(&mut millis) {
                let started = Instant::now();
                let (_, answer) = connection.get_any(&target)?;
                let elapsed = started.elapsed();
                spent += elapsed;
                millis.push(elapsed.as_secs_f64() * 1e3);
                let answer: Value = serde_json::from_slice(&answer)?;
                let found = answer.get("spans").and_then(Value::as_array).map(Vec::len);
                if wanted.is_some() && found != wanted {
                    return Err(format!("{target}: {found:?} spans instead of {wanted:?}").into());
                }
            }
        }
        for (figures, millis) in figures.iter_mut().zip(&millis) {
            let [p50, p99] = [(1, 2), (99, 100)].map(|(part, of)| quantile(millis, part, of));
            let mut median = Measured::new(format!("{}, p50", question.name), "ms", p50);
            median.bar = match question.p50 {
                Limit::None => None,
                Limit::Of(bar) => Some(bar),
                Limit::BeyondTransport(most) => Some(Bar::AtMost(most + transport)),
            };
            let mut high = Measured::new(format!("{}, p99", question.name), "ms", p99);
            high.bar = question.p99;
            figures.extend([median, high]);
        }
        if question.name == EMPTY {
            transport = millis.first().map_or(0.0, |millis| quantile(millis, 1, 2));
        }
    }
    Ok(figures)
}

/// The first question, whose answer has nothing in it.
const EMPTY: &str = "an empty answer";

fn questions(corpus: &Corpus) -> Vec<Question<'_>> {
    let subjects = &corpus.subjects;
    let (common, unique) = match corpus.profile {
        Profile::Generic => ("host.name", "request.id"),
        Profile::Llm => ("gen_ai.tool.name", "gen_ai.tool.call.id"),
    };
    let values = |key: &str| -> Vec<String> {
        let values = subjects
            .iter()
            .filter_map(|span| span.attributes.get(key)?.as_str());
        values.map(str::to_owned).collect()
    };
    let (common_values, unique_values) = (values(common), values(unique));
    let first = subjects.first().map_or(0, |span| span.start_time_ns);
    let last = subjects.last().map_or(0, |span| span.start_time_ns);
    let window_ns = last.saturating_sub(first) / 100;
    let pick = |seed| {
        let mut random = Random::from_seed(seed);
        move || {
            let index = usize::try_from(random.below(subjects.len() as u64)).unwrap_or(0);
            subjects.get(index)
        }
    };
    let (mut of_trace, mut of_window) = (pick(11), pick(12));
    let filter = |key: &'static str, values: Vec<String>| {
        move |call: usize| {
            let value = values.get(call * 7 % values.len().max(1));
            let value = value.map_or("", String::as_str);
            (format!("/v1/spans?attr.{key}={value}&limit=100"), None)
        }
    };
    vec![
        Question {
            name: EMPTY,
            ask: Box::new(|_| ("/v1/traces/none".to_owned(), None)),
            p50: Limit::None,
            p99: None,
        },
        Question {
            name: "trace by id",
            ask: Box::new(move |_| {
                let id = of_trace().map_or("", |span| span.trace_id.as_str());
                (
                    format!("/v1/traces/{id}"),
                    corpus.trace_lens.get(id).copied(),
                )
            }),
            p50: Limit::Of(Bar::TimesAtMost(0.6)),
            p99: Some(Bar::AtMost(0.4)),
        },
        Question {
            name: "attribute, first 100",
            ask: Box::new(filter(common, common_values)),
            p50: Limit::Of(Bar::TimesAtMost(0.5)),
            p99: None,
        },
        Question {
            name: "attribute, unique value",
            ask: Box::new(filter(unique, unique_values)),
            p50: Limit::Of(Bar::TimesAtMost(0.5)),
            p99: None,
        },
        Question {
            name: "selective word, first 100",
            ask: Box::new(|call| {
                let word = rare_word(call as u64 % RARE_WORDS);
                let wanted = corpus.word_counts.get(&word).copied().unwrap_or(0).min(100);
                (format!("/v1/spans?content={word}&limit=100"), Some(wanted))
            }),
            p50: Limit::BeyondTransport(1.0),
            p99: None,
        },
        Question {
            name: "window of 1 %, first 100",
            ask: Box::new(move |_| {
                let since = of_window().map_or(0, |span| span.start_time_ns);
                let until = since + window_ns;
                (
                    format!("/v1/spans?since={since}&until={until}&limit=100"),
                    None,
                )
            }),
            p50: Limit::BeyondTransport(1.0),
            p99: None,
        },
        Question {
            name: "duration statistics",
            ask: Box::new(|_| ("/v1/stats/duration".to_owned(), None)),
            p50: Limit::BeyondTransport(5.0),
            p99: None,
        },
    ]
}

/// Exports all servers in turns; answers the best of each.
pub(crate) fn export(servers: &[Server], corpus: &Corpus) -> Result<Vec<Vec<Measured>>> {
    let mut best = vec![f64::INFINITY; servers.len()];
    for _ in 0..EXPORTS {
        for (server, best) in servers.iter().zip(&mut best) {
            let started = Instant::now();
            let mut stream = server.connect().stream("/v1/export")?;
            let mut piece = vec![0; 256 << 10];
            let mut rows = 0;
            loop {
                let len = stream.read(&mut piece)?;
                if len == 0 {
                    break;
                }
                let came = piece.get(..len).unwrap_or_default();
                rows += memchr::memchr_iter(b'\n', came).count();
            }
            *best = best.min(started.elapsed().as_secs_f64());
            if rows != corpus.spans {
                return Err(format!("the export has {rows} rows of {}", corpus.spans).into());
            }
        }
    }
    let figure = |seconds| {
        let rate = float(corpus.spans) / seconds;
        vec![Measured::new("export", "rows/s", rate).with(Bar::TimesAtLeast(3.0))]
    };
    Ok(best.into_iter().map(figure).collect())
}
