//! A run as a Parquet file: telemetry with a column for each variable, or records of other kinds with their payloads.

use std::io::Write;
use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, Float64Builder, Int64Builder, StringBuilder, UInt64Builder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use omniloop_core::export::{
    Cell, ColumnKind, Columns, ExportError, Exported, Selection, each_selected, json_text,
};
use omniloop_core::journal::{FrameKind, FrameRef, SegmentedPlayer};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

/// A batch of rows goes to the writer with so many bytes of payloads or rows.
const BATCH_LEN: usize = 16 << 20;
const BATCH_ROWS: usize = 1 << 14;
/// The writer holds a row group in memory until it has so many bytes or rows.
const GROUP_LEN: usize = 64 << 20;
const GROUP_ROWS: usize = 1 << 18;
const STAMPS: [&str; 3] = ["tick", "mono_ns", "wall_ns"];

/// Writes the selected records, or telemetry when the selection names no kind.
pub(super) fn write(
    out: impl Write + Send,
    player: &mut SegmentedPlayer,
    selection: &Selection,
) -> Result<Exported, ExportError> {
    let telemetry = [FrameKind::Telemetry];
    if selection.kinds.is_empty() || selection.kinds == telemetry {
        let selection = Selection {
            kinds: telemetry.to_vec(),
            ..selection.clone()
        };
        return write_telemetry(out, player, &selection);
    }
    let mut table = Table::new(out, records_schema(), Records::default())?;
    let exported = each_selected(player, selection, u64::MAX, |segment, frame| {
        table.rows.add(segment, frame);
        table.added(frame.payload.len())
    })?;
    table.close()?;
    Ok(exported)
}

/// Reads the telemetry twice, first for its columns: memory does not grow with the length of the run.
fn write_telemetry(
    out: impl Write + Send,
    player: &mut SegmentedPlayer,
    selection: &Selection,
) -> Result<Exported, ExportError> {
    // Damage ends this pass as it will end the next: the columns are those of what can be read.
    let (columns, first) = match player.reopen() {
        Ok(mut again) => Columns::learn(&mut again, selection)?,
        Err(error) => {
            let nothing = Exported {
                records: 0,
                truncated: false,
                stopped: Some(error),
            };
            (Columns::default(), nothing)
        }
    };
    let schema = telemetry_schema(&columns);
    let rows = Telemetry::new(columns);
    let mut table = Table::new(out, schema, rows)?;
    // A journal that is being written has grown since: only what the columns were made from.
    let pass = each_selected(player, selection, first.records, |_, frame| {
        table.rows.add(frame);
        table.added(frame.payload.len())
    })?;
    table.close()?;
    Ok(Exported {
        records: pass.records,
        truncated: first.truncated,
        stopped: pass.stopped.or(first.stopped),
    })
}

/// Rows on their way into a file.
trait Rows {
    /// The columns of what was added since, which are empty then.
    fn take(&mut self) -> Vec<ArrayRef>;
}

struct Table<W: Write + Send, R> {
    writer: ArrowWriter<W>,
    schema: Arc<Schema>,
    rows: R,
    row_count: usize,
    len: usize,
}

impl<W: Write + Send, R: Rows> Table<W, R> {
    fn new(out: W, schema: Schema, rows: R) -> Result<Self, ExportError> {
        let schema = Arc::new(schema);
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_max_row_group_row_count(Some(GROUP_ROWS))
            .set_created_by(concat!("daybook ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let writer = ArrowWriter::try_new(out, Arc::clone(&schema), Some(properties));
        Ok(Self {
            writer: writer.map_err(failed)?,
            schema,
            rows,
            row_count: 0,
            len: 0,
        })
    }

    /// A row was added whose payload is so long.
    fn added(&mut self, payload_len: usize) -> Result<(), ExportError> {
        self.row_count += 1;
        self.len += payload_len;
        if self.row_count >= BATCH_ROWS || self.len >= BATCH_LEN {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ExportError> {
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), self.rows.take());
        self.writer.write(&batch.map_err(failed)?).map_err(failed)?;
        if self.writer.memory_size() >= GROUP_LEN {
            self.writer.flush().map_err(failed)?;
        }
        (self.row_count, self.len) = (0, 0);
        Ok(())
    }

    fn close(mut self) -> Result<(), ExportError> {
        if self.row_count > 0 {
            self.flush()?;
        }
        self.writer.close().map_err(failed)?;
        Ok(())
    }
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> ExportError {
    ExportError::Write(std::io::Error::other(error))
}

/// The columns of telemetry.
struct Telemetry {
    columns: Columns,
    stamps: [UInt64Builder; 3],
    variables: Vec<Builder>,
    payload_hex: StringBuilder,
}

/// A column of one variable.
enum Builder {
    Bool(BooleanBuilder),
    Int(Int64Builder),
    Float(Float64Builder),
    Text(StringBuilder),
}

impl Builder {
    fn of(kind: ColumnKind) -> Self {
        match kind {
            ColumnKind::Bool => Self::Bool(BooleanBuilder::new()),
            ColumnKind::Int => Self::Int(Int64Builder::new()),
            ColumnKind::Float => Self::Float(Float64Builder::new()),
            ColumnKind::Text => Self::Text(StringBuilder::new()),
        }
    }

    fn append(&mut self, cell: Option<Cell>) {
        match (self, cell) {
            (Self::Bool(column), Some(Cell::Bool(value))) => column.append_value(value),
            (Self::Int(column), Some(Cell::Int(value))) => column.append_value(value),
            (Self::Float(column), Some(Cell::Float(value))) => column.append_value(value),
            (Self::Text(column), Some(Cell::Text(value))) => column.append_value(value),
            (Self::Bool(column), _) => column.append_null(),
            (Self::Int(column), _) => column.append_null(),
            (Self::Float(column), _) => column.append_null(),
            (Self::Text(column), _) => column.append_null(),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Bool(column) => Arc::new(column.finish()),
            Self::Int(column) => Arc::new(column.finish()),
            Self::Float(column) => Arc::new(column.finish()),
            Self::Text(column) => Arc::new(column.finish()),
        }
    }
}

impl Telemetry {
    fn new(columns: Columns) -> Self {
        let variables = columns.all().iter();
        Self {
            variables: variables.map(|column| Builder::of(column.kind)).collect(),
            columns,
            stamps: <[UInt64Builder; 3]>::default(),
            payload_hex: StringBuilder::new(),
        }
    }

    fn add(&mut self, frame: &FrameRef<'_>) {
        let stamps = [frame.tick, frame.mono_ns, frame.wall_ns];
        for (column, stamp) in self.stamps.iter_mut().zip(stamps) {
            column.append_value(stamp);
        }
        let mut cells = vec![None; self.variables.len()];
        self.columns.cells(frame.payload, &mut |place, cell| {
            if let Some(place) = cells.get_mut(place) {
                *place = Some(cell);
            }
        });
        for (column, cell) in self.variables.iter_mut().zip(cells) {
            column.append(cell);
        }
        match json_text(frame.payload) {
            Some(_) => self.payload_hex.append_null(),
            None => self
                .payload_hex
                .append_value(durable::digest::hex(frame.payload)),
        }
    }
}

impl Rows for Telemetry {
    fn take(&mut self) -> Vec<ArrayRef> {
        let stamps = self.stamps.iter_mut();
        let mut all: Vec<ArrayRef> = stamps
            .map(|column| Arc::new(column.finish()) as ArrayRef)
            .collect();
        all.extend(self.variables.iter_mut().map(Builder::finish));
        all.push(Arc::new(self.payload_hex.finish()));
        all
    }
}

/// As the table of `--to csv`: a variable with the name of a stamp gets `telemetry.` before it.
fn telemetry_schema(columns: &Columns) -> Schema {
    let stamps = STAMPS.map(|name| Field::new(name, DataType::UInt64, false));
    let variables = columns.all().iter().map(|column| {
        let kind = match column.kind {
            ColumnKind::Bool => DataType::Boolean,
            ColumnKind::Int => DataType::Int64,
            ColumnKind::Float => DataType::Float64,
            ColumnKind::Text => DataType::Utf8,
        };
        let name = match column.name.as_str() {
            name if STAMPS.contains(&name) || name == "payload_hex" => format!("telemetry.{name}"),
            name => name.to_owned(),
        };
        Field::new(name, kind, true)
    });
    let raw = Field::new("payload_hex", DataType::Utf8, true);
    let fields: Vec<Field> = stamps.into_iter().chain(variables).chain([raw]).collect();
    Schema::new(fields)
}

/// The columns of records with their payloads.
#[derive(Default)]
struct Records {
    /// Segment, offset, tick, monotonic and wall time.
    numbers: [UInt64Builder; 5],
    kind: StringBuilder,
    payload: StringBuilder,
    payload_bytes: BinaryBuilder,
}

impl Records {
    fn add(&mut self, segment: u64, frame: &FrameRef<'_>) {
        let numbers = [
            segment,
            frame.offset,
            frame.tick,
            frame.mono_ns,
            frame.wall_ns,
        ];
        for (column, number) in self.numbers.iter_mut().zip(numbers) {
            column.append_value(number);
        }
        self.kind.append_value(frame.kind.as_str());
        if let Some(text) = json_text(frame.payload) {
            self.payload.append_value(text);
            self.payload_bytes.append_null();
        } else {
            self.payload.append_null();
            self.payload_bytes.append_value(frame.payload);
        }
    }
}

impl Rows for Records {
    fn take(&mut self) -> Vec<ArrayRef> {
        let numbers = self.numbers.iter_mut();
        let mut all: Vec<ArrayRef> = numbers
            .map(|column| Arc::new(column.finish()) as ArrayRef)
            .collect();
        all.push(Arc::new(self.kind.finish()));
        all.push(Arc::new(self.payload.finish()));
        all.push(Arc::new(self.payload_bytes.finish()));
        all
    }
}

fn records_schema() -> Schema {
    let numbers = ["segment", "offset", "tick", "mono_ns", "wall_ns"];
    let numbers = numbers.map(|name| Field::new(name, DataType::UInt64, false));
    let mut fields = numbers.to_vec();
    fields.push(Field::new("kind", DataType::Utf8, false));
    fields.push(Field::new("payload", DataType::Utf8, true));
    fields.push(Field::new("payload_bytes", DataType::Binary, true));
    Schema::new(fields)
}
