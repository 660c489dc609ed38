//! Looks for identifiers in the raw bytes of files, whatever those mean.

use std::io;
use std::path::Path;

use durable::Fs;
use memchr::memmem::Finder;

use super::super::error::{During as _, Result};
use crate::json::Value;
use crate::logs::tombstone::Subject;

const READ_LEN: usize = 1 << 18;
/// A shorter id of a span is found everywhere.
const SPAN_ID_MIN: usize = 8;

/// What the bytes of a file that knows of the subject contain.
pub(super) fn needles(subject: &Subject) -> Vec<String> {
    let texts = match subject {
        Subject::Span {
            trace_id, span_id, ..
        } if span_id.len() >= SPAN_ID_MIN => vec![trace_id, span_id],
        Subject::Trace { trace_id, .. } | Subject::Span { trace_id, .. } => vec![trace_id],
        Subject::Session { session_id, .. } => vec![session_id],
        Subject::Payload { reference } => vec![reference],
        Subject::Tenant { tenant } => vec![tenant],
    };
    let mut needles = Vec::new();
    for text in texts {
        needles.push(text.clone());
        let escaped = inner_json(text);
        if escaped != *text {
            needles.push(escaped);
        }
    }
    needles
}

/// The text as it stands within a JSON string.
fn inner_json(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    let inner = quoted.strip_prefix('"').and_then(|t| t.strip_suffix('"'));
    inner.unwrap_or_default().to_owned()
}

/// How often the needles stand in a file; 0 when there is none.
pub(super) fn count_in(fs: &dyn Fs, path: &Path, needles: &[String]) -> Result<u64> {
    let file = match fs.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        other => other.during("open", path)?,
    };
    let finders: Vec<Finder<'_>> = needles.iter().map(Finder::new).collect();
    let longest = needles.iter().map(String::len).max().unwrap_or(0);
    // What may be the beginning of a needle is looked at again together with what follows.
    let mut window: Vec<u8> = Vec::new();
    let mut piece = vec![0; READ_LEN];
    let mut offset = 0;
    let mut count = 0;
    loop {
        let len = file.read_at(offset, &mut piece).during("read", path)?;
        if len == 0 {
            return Ok(count);
        }
        offset += len as u64;
        let seen = window.len();
        window.extend_from_slice(piece.get(..len).unwrap_or_default());
        for finder in &finders {
            let ends = finder
                .find_iter(&window)
                .map(|start| start + finder.needle().len());
            count += ends.filter(|end| *end > seen).count() as u64;
        }
        let kept = longest.saturating_sub(1).min(window.len());
        window.drain(..window.len() - kept);
    }
}
