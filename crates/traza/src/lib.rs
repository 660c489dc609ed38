//! Traza: an indexed store of OpenTelemetry spans of LLM and agent systems.
#![forbid(unsafe_code)]

pub mod content;
pub mod digest;
pub mod fuzzing;
pub mod histogram;
pub mod json;
pub mod llm;
pub mod logs;
pub mod migration;
pub mod otlp;
pub mod payload;
pub mod record;
pub mod rollup;
pub mod segment;
pub mod span;
pub mod store;
pub mod wal;
