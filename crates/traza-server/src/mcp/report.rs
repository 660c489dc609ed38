//! An answer under construction, and its fitting into the limit.
//!
//! Stored text is in rows only, and rows are written inside the block that says what they are. When the whole result would be
//! longer than its limit, rows are left out, each from the text and from the structured half together.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::clean::{BLOCK_CLOSE, BLOCK_OPEN, PREAMBLE, prefix, without_closing_tags};

/// What is said when not even one row fits.
const NOTHING_FITS: &str = "Truncated: nothing of this answer fits into the server's --mcp-max-result-bytes. Narrow the question";

/// Makes a result of the text and the structured half.
type Wrap<'w> = dyn Fn(&str, Option<Map<String, Value>>) -> Value + 'w;

/// A part of the answer that holds stored text.
#[derive(Clone, Debug, Default)]
struct Row {
    /// Some lines; empty for one that is in the structured half only.
    text: String,
    /// Those with the lowest ranks stay when not all fit.
    rank: usize,
    /// Its place in the structured half: the name of a list, and the item.
    item: Option<(&'static str, Value)>,
    /// Where an answer that ends here goes on.
    resume: Option<String>,
}

/// The structured half.
#[derive(Clone, Debug, Default)]
struct Structured {
    fields: Map<String, Value>,
    /// The fields when nothing else fits: their values are of a bounded size.
    bare: Map<String, Value>,
    lists: Vec<&'static str>,
    /// A field that says how many items a list has.
    counted: Option<(&'static str, &'static str)>,
}

/// An answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Report {
    head: String,
    rows: Vec<Row>,
    notes: Vec<String>,
    structured: Option<Structured>,
    /// There may be more behind the last row.
    is_page: bool,
    advice: &'static str,
}

impl Report {
    /// An answer that begins with `head`, which holds no stored text. `advice` says what to narrow when it is too long, as
    /// `with 'since'`.
    pub(super) fn new(head: impl Into<String>, advice: &'static str) -> Self {
        Self {
            head: head.into(),
            advice,
            ..Self::default()
        }
    }

    /// Adds lines with stored text, of which every part went through [`super::clean`].
    pub(super) fn row(&mut self, text: impl Into<String>) {
        let rank = self.rows.len();
        self.ranked(text, rank);
    }

    /// Adds lines that are left out after those of lower ranks. All ranks together are those from 0 to the number of rows.
    pub(super) fn ranked(&mut self, text: impl Into<String>, rank: usize) {
        self.rows.push(Row {
            text: text.into(),
            rank,
            ..Row::default()
        });
    }

    /// Puts `item` beside the last row into a list of the structured half.
    pub(super) fn item(&mut self, list: &'static str, item: Value) {
        if let Some(row) = self.rows.last_mut() {
            row.item = Some((list, item));
        }
    }

    /// Says how an answer whose last row is the last one so far goes on.
    pub(super) fn resume(&mut self, token: String) {
        if let Some(row) = self.rows.last_mut() {
            row.resume = Some(token);
        }
    }

    /// There may be more rows than these.
    pub(super) fn is_page(&mut self) {
        self.is_page = true;
    }

    /// Adds a remark below the rows, without stored text.
    pub(super) fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// Gives it a structured half with these lists, and with `fields`, whose values are of a bounded size when
    /// `bare` is not given.
    pub(super) fn structure(
        &mut self,
        lists: &[&'static str],
        fields: Map<String, Value>,
        bare: Option<Map<String, Value>>,
    ) {
        self.structured = Some(Structured {
            bare: bare.unwrap_or_else(|| fields.clone()),
            fields,
            lists: lists.to_vec(),
            counted: None,
        });
    }

    /// Adds a field of a bounded size to the structured half.
    pub(super) fn field(&mut self, name: &str, value: Value) {
        if let Some(structured) = &mut self.structured {
            structured.bare.insert(name.to_owned(), value.clone());
            structured.fields.insert(name.to_owned(), value);
        }
    }

    /// Keeps the number of items of a list in a field.
    pub(super) fn count_items(&mut self, list: &'static str, field: &'static str) {
        if let Some(structured) = &mut self.structured {
            structured.counted = Some((list, field));
        }
    }

    /// The result of a tool: at most `len_max` bytes of JSON.
    pub(super) fn into_tool_result(self, len_max: usize) -> Value {
        self.fit(len_max, &tool_result)
    }

    /// True when no row has to be left out of the result of a tool.
    pub(super) fn fits(&self, len_max: usize) -> bool {
        let rows = self.rows.len();
        json_len(&tool_result(&self.text(rows), self.structured(rows))) <= len_max
    }

    /// The text alone, in a result that `wrap` makes of it.
    pub(super) fn into_text_result(self, len_max: usize, wrap: &dyn Fn(&str) -> Value) -> Value {
        self.fit(len_max, &|text, _| wrap(text))
    }

    fn fit(&self, len_max: usize, wrap: &Wrap<'_>) -> Value {
        let with = |kept| wrap(&self.text(kept), self.structured(kept));
        let fits = |result: &Value| json_len(result) <= len_max;
        let whole = with(self.rows.len());
        if fits(&whole) {
            return whole;
        }
        let mut best = with(0);
        if !fits(&best) {
            return self.bare(len_max, wrap);
        }
        // `low` rows fit, and `high` do not.
        let (mut low, mut high) = (0, self.rows.len());
        while high - low > 1 {
            let middle = low.midpoint(high);
            let result = with(middle);
            if fits(&result) {
                best = result;
                low = middle;
            } else {
                high = middle;
            }
        }
        best
    }

    /// The answer when nothing fits but what it must have.
    fn bare(&self, len_max: usize, wrap: &Wrap<'_>) -> Value {
        let structured = || {
            self.structured.as_ref().map(|structured| {
                let mut fields = structured.bare.clone();
                for list in &structured.lists {
                    fields.insert((*list).to_owned(), json!([]));
                }
                if let Some((_, field)) = structured.counted {
                    fields.insert(field.to_owned(), json!(0));
                }
                fields
            })
        };
        let text = format!("{NOTHING_FITS} {}.", self.advice);
        let result = wrap(&text, structured());
        let over = json_len(&result).saturating_sub(len_max);
        if over == 0 {
            return result;
        }
        // It has no character that JSON spells longer.
        wrap(prefix(&text, text.len().saturating_sub(over)), structured())
    }

    fn text(&self, kept: usize) -> String {
        let is_cut = kept < self.rows.len();
        let mut out = self.head.clone();
        out.push('\n');
        let shown: Vec<&Row> = self.rows.iter().filter(|row| row.rank < kept).collect();
        if shown.iter().any(|row| !row.text.is_empty()) {
            write!(out, "\n{PREAMBLE}\n{BLOCK_OPEN}\n").ok();
            for row in &shown {
                if !row.text.is_empty() {
                    out.push_str(&without_closing_tags(&row.text));
                    out.push('\n');
                }
            }
            out.push_str(BLOCK_CLOSE);
            out.push('\n');
        }
        if is_cut {
            write!(out, "\nTruncated: {kept} of {} rows shown, since all of them, with their structured content, do not fit into \
                 the server's --mcp-max-result-bytes. Narrow {}.\n",
                self.rows.len(),
                self.advice).ok();
        }
        if is_cut || self.is_page {
            let last = shown.iter().max_by_key(|row| row.rank);
            if let Some(token) = last.and_then(|row| row.resume.as_ref()) {
                write!(out, "\nMore may match. Cursor: {token}\n").ok();
            }
        }
        for note in &self.notes {
            write!(out, "\n{note}\n").ok();
        }
        out
    }

    fn structured(&self, kept: usize) -> Option<Map<String, Value>> {
        let structured = self.structured.as_ref()?;
        let mut fields = structured.fields.clone();
        for list in &structured.lists {
            let items = self.rows.iter().filter(|row| row.rank < kept);
            let items: Vec<Value> = items
                .filter_map(|row| row.item.as_ref())
                .filter(|(name, _)| name == list)
                .map(|(_, item)| item.clone())
                .collect();
            if let Some((_, field)) = structured.counted.filter(|(name, _)| name == list) {
                fields.insert(field.to_owned(), json!(items.len()));
            }
            fields.insert((*list).to_owned(), Value::Array(items));
        }
        Some(fields)
    }
}

fn tool_result(text: &str, structured: Option<Map<String, Value>>) -> Value {
    let mut result = json!({"content": [{"type": "text", "text": text}], "isError": false});
    if let (Some(structured), Some(result)) = (structured, result.as_object_mut()) {
        result.insert("structuredContent".to_owned(), Value::Object(structured));
    }
    result
}

/// The result of a tool that could not answer: at most `len_max` bytes of JSON.
pub(super) fn error_result(text: &str, len_max: usize) -> Value {
    let wrap = |text: &str| json!({"content": [{"type": "text", "text": text}], "isError": true});
    let mut kept = text;
    loop {
        let result = wrap(kept);
        let over = json_len(&result).saturating_sub(len_max);
        if over == 0 || kept.is_empty() {
            return result;
        }
        // A byte takes at most six in JSON, so that this ends after a few rounds.
        kept = prefix(kept, kept.len().saturating_sub(over.div_ceil(6)));
    }
}

fn json_len(value: &Value) -> usize {
    value.to_string().len()
}
