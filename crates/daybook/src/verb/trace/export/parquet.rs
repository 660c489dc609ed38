//! Spans as a Parquet file, written in bounded row groups and read back before it counts.

use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{StringBuilder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use traza::span::Span;

use super::Pages;
use super::text::{Parts, TITLES, duration_ns};
use crate::failure::Failure;
use crate::new_file::NewFile;
use crate::parquet_rows::count_rows;

/// A batch of rows goes to the writer with so many bytes of text; its columns count them with 31 bits.
const BATCH_LEN: usize = 16 << 20;
/// The writer holds a row group in memory until it has so many bytes or rows.
const GROUP_LEN: usize = 64 << 20;
const GROUP_ROWS: usize = 1 << 18;
/// The parent, which a span need not have.
const OPTIONAL: &str = "parent_span_id";

/// Writes all pages to `file`, reads them back, and fails unless every span is there.
pub(super) fn write(
    pages: &mut Pages<'_>,
    file: &mut NewFile,
    output: &Path,
) -> Result<(), Failure> {
    let cannot_write =
        |error: ParquetError| Failure::new(format!("cannot write {}: {error}", output.display()));
    let schema = schema();
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_created_by(concat!("daybook ", env!("CARGO_PKG_VERSION")).to_owned())
        .build();
    let mut writer = ArrowWriter::try_new(&mut *file, Arc::clone(&schema), Some(properties))
        .map_err(cannot_write)?;
    let mut rows = Rows::default();
    while let Some(spans) = pages.next()? {
        for span in &spans {
            rows.add(span);
            if rows.len >= BATCH_LEN {
                write_batch(&mut writer, rows.take(&schema)).map_err(cannot_write)?;
            }
        }
        write_batch(&mut writer, rows.take(&schema)).map_err(cannot_write)?;
    }
    writer.close().map_err(cannot_write)?;
    let cannot_read = |error: &dyn std::fmt::Display| {
        Failure::new(format!("cannot read {} back: {error}", output.display()))
    };
    let written = file.reopen().map_err(|error| cannot_read(&error))?;
    let found = count_rows(written).map_err(|error| cannot_read(&error))?;
    if found != pages.spans {
        let wanted = pages.spans;
        return Err(cannot_read(&format_args!(
            "{wanted} spans were written and {found} are there"
        )));
    }
    Ok(())
}

fn write_batch(
    writer: &mut ArrowWriter<&mut NewFile>,
    batch: Result<RecordBatch, ArrowError>,
) -> Result<(), ParquetError> {
    writer.write(&batch?)?;
    if writer.memory_size() >= GROUP_LEN {
        writer.flush()?;
    }
    Ok(())
}

fn schema() -> Arc<Schema> {
    let fields: Vec<Field> = TITLES
        .into_iter()
        .map(|title| {
            let kind = if title.ends_with("_ns") {
                DataType::UInt64
            } else {
                DataType::Utf8
            };
            Field::new(title, kind, title == OPTIONAL)
        })
        .collect();
    Arc::new(Schema::new(fields))
}

/// The columns of a batch, in the order of [`TITLES`].
#[derive(Default)]
struct Rows {
    /// Trace id to status.
    names: [StringBuilder; 7],
    /// Start, end, duration.
    times: [UInt64Builder; 3],
    /// Attributes to unknown members.
    parts: [StringBuilder; 4],
    /// Bytes of text.
    len: usize,
}

impl Rows {
    fn add(&mut self, span: &Span) {
        let names = [
            Some(&span.trace_id),
            Some(&span.span_id),
            Some(&span.tenant),
            span.parent_span_id.as_ref(),
            Some(&span.service),
            Some(&span.name),
            Some(&span.status),
        ];
        for (column, name) in self.names.iter_mut().zip(names) {
            column.append_option(name);
            self.len += name.map_or(0, traza::json::Text::len);
        }
        let times = [span.start_time_ns, span.end_time_ns, duration_ns(span)];
        for (column, time) in self.times.iter_mut().zip(times) {
            column.append_value(time);
        }
        let parts = Parts::of(span);
        let parts = [parts.attributes, parts.events, parts.links, parts.unknown];
        for (column, part) in self.parts.iter_mut().zip(parts) {
            column.append_value(&part);
            self.len += part.len();
        }
    }

    /// The batch; an empty one follows.
    fn take(&mut self, schema: &Arc<Schema>) -> Result<RecordBatch, ArrowError> {
        let Self {
            mut names,
            mut times,
            mut parts,
            ..
        } = std::mem::take(self);
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(TITLES.len());
        for column in &mut names {
            columns.push(Arc::new(column.finish()));
        }
        for column in &mut times {
            columns.push(Arc::new(column.finish()));
        }
        for column in &mut parts {
            columns.push(Arc::new(column.finish()));
        }
        RecordBatch::try_new(Arc::clone(schema), columns)
    }
}
