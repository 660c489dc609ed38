//! Messages in protobuf: for viewers that show JSON as bytes, and to have every variable as a field of its type.
//!
//! Telemetry is one message with an optional field for each variable; other kinds are `omni.Record` with the payload as the
//! text of its JSON; `/log` is the published `foxglove.Log`. Each schema is a `FileDescriptorSet` with all that it needs.

use std::collections::BTreeSet;

use prost::Message as _;
use prost::encoding::{self, WireType};
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, EnumValueDescriptorProto, FieldDescriptorProto,
    FileDescriptorProto, FileDescriptorSet,
};

use super::LogLine;
use crate::export::columns::{Cell, ColumnKind, Columns};
use crate::export::json_text;
use crate::journal::{FrameKind, FrameRef};

/// The field of every message that has the tick.
const TICK: u32 = 1;
/// The field of a payload that is not what the other fields can hold, as bytes.
const PAYLOAD_BYTES: u32 = 2;
/// The field of the payload of an `omni.Record`.
const PAYLOAD: u32 = 3;
/// The field of the first variable.
const FIRST_VARIABLE: u32 = 3;
/// Numbers that no field may have.
const RESERVED: std::ops::RangeInclusive<u32> = 19_000..=19_999;

/// A schema: the name of its message, and the descriptors.
pub(super) struct Schema {
    pub(super) name: String,
    pub(super) data: Vec<u8>,
}

/// The schema of a kind of record.
pub(super) fn schema(kind: FrameKind, columns: Option<&Columns>) -> Schema {
    let mut fields = vec![
        field("tick", TICK, Type::Uint64),
        field("payload_bytes", PAYLOAD_BYTES, Type::Bytes),
    ];
    let message = if let Some(columns) = columns.filter(|_| kind == FrameKind::Telemetry) {
        fields.extend(variables(columns));
        "Telemetry"
    } else {
        fields.push(field("payload", PAYLOAD, Type::String));
        "Record"
    };
    let file = FileDescriptorProto {
        name: Some(format!("omni/{message}.proto")),
        package: Some("omni".to_owned()),
        message_type: vec![DescriptorProto {
            name: Some(message.to_owned()),
            field: fields,
            ..DescriptorProto::default()
        }],
        syntax: Some("proto2".to_owned()),
        ..FileDescriptorProto::default()
    };
    Schema {
        name: format!("omni.{message}"),
        data: FileDescriptorSet { file: vec![file] }.encode_to_vec(),
    }
}

fn variables(columns: &Columns) -> Vec<FieldDescriptorProto> {
    let mut taken: BTreeSet<String> = ["tick", "payload_bytes"].map(str::to_owned).into();
    let all = columns.all().iter().enumerate();
    all.map(|(place, column)| {
        let kind = match column.kind {
            ColumnKind::Bool => Type::Bool,
            ColumnKind::Int => Type::Int64,
            ColumnKind::Float => Type::Double,
            ColumnKind::Text => Type::String,
        };
        let plain = identifier(&column.name);
        let mut name = plain.clone();
        let mut count = 1;
        while !taken.insert(name.clone()) {
            count += 1;
            name = format!("{plain}_{count}");
        }
        field(&name, number_of_place(place), kind)
    })
    .collect()
}

/// The number of the field of a variable.
fn number_of_place(place: usize) -> u32 {
    let number = FIRST_VARIABLE.saturating_add(u32::try_from(place).unwrap_or(u32::MAX));
    if number < *RESERVED.start() {
        number
    } else {
        let len = RESERVED.end() - RESERVED.start() + 1;
        number.saturating_add(len)
    }
}

/// A name as protobuf has names: what it cannot have is an underscore.
fn identifier(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = name.chars().map(plain).collect();
    match name.chars().next() {
        Some(first) if first.is_ascii_digit() => format!("_{name}"),
        Some(_) => name,
        None => "_".to_owned(),
    }
}

fn field(name: &str, number: u32, kind: Type) -> FieldDescriptorProto {
    FieldDescriptorProto {
        name: Some(name.to_owned()),
        number: i32::try_from(number).ok(),
        label: Some(Label::Optional.into()),
        r#type: Some(kind.into()),
        ..FieldDescriptorProto::default()
    }
}

/// The message of a record.
pub(super) fn message(frame: &FrameRef<'_>, columns: Option<&Columns>) -> Vec<u8> {
    let mut out = Vec::new();
    encoding::uint64::encode(TICK, &frame.tick, &mut out);
    let columns = columns.filter(|_| frame.kind == FrameKind::Telemetry);
    match (json_text(frame.payload), columns) {
        (None, _) => put_bytes(PAYLOAD_BYTES, frame.payload, &mut out),
        (Some(text), None) => put_bytes(PAYLOAD, text.as_bytes(), &mut out),
        (Some(_), Some(columns)) => columns.cells(frame.payload, &mut |place, cell| {
            let number = number_of_place(place);
            match cell {
                Cell::Bool(value) => encoding::bool::encode(number, &value, &mut out),
                Cell::Int(value) => encoding::int64::encode(number, &value, &mut out),
                Cell::Float(value) => encoding::double::encode(number, &value, &mut out),
                Cell::Text(value) => put_bytes(number, value.as_bytes(), &mut out),
            }
        }),
    }
    out
}

/// A text or bytes: on the wire they are the same.
fn put_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    encoding::encode_key(number, WireType::LengthDelimited, out);
    encoding::encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// The published schema `foxglove.Log`, with the well-known timestamp that it refers to.
pub(super) fn log_schema() -> Schema {
    let timestamp = FileDescriptorProto {
        name: Some("google/protobuf/timestamp.proto".to_owned()),
        package: Some("google.protobuf".to_owned()),
        message_type: vec![DescriptorProto {
            name: Some("Timestamp".to_owned()),
            field: vec![
                field("seconds", 1, Type::Int64),
                field("nanos", 2, Type::Int32),
            ],
            ..DescriptorProto::default()
        }],
        syntax: Some("proto3".to_owned()),
        ..FileDescriptorProto::default()
    };
    let of_type = |name: &str, number, kind, type_name: &str| FieldDescriptorProto {
        type_name: Some(type_name.to_owned()),
        ..field(name, number, kind)
    };
    let levels = ["UNKNOWN", "DEBUG", "INFO", "WARNING", "ERROR", "FATAL"];
    let level = |(number, name): (i32, &str)| EnumValueDescriptorProto {
        name: Some(name.to_owned()),
        number: Some(number),
        options: None,
    };
    let log = FileDescriptorProto {
        name: Some("foxglove/Log.proto".to_owned()),
        package: Some("foxglove".to_owned()),
        dependency: vec!["google/protobuf/timestamp.proto".to_owned()],
        message_type: vec![DescriptorProto {
            name: Some("Log".to_owned()),
            field: vec![
                of_type("timestamp", 1, Type::Message, ".google.protobuf.Timestamp"),
                of_type("level", 2, Type::Enum, ".foxglove.Log.Level"),
                field("message", 3, Type::String),
                field("name", 4, Type::String),
                field("file", 5, Type::String),
                field("line", 6, Type::Fixed32),
            ],
            enum_type: vec![EnumDescriptorProto {
                name: Some("Level".to_owned()),
                value: (0..).zip(levels).map(level).collect(),
                ..EnumDescriptorProto::default()
            }],
            ..DescriptorProto::default()
        }],
        syntax: Some("proto3".to_owned()),
        ..FileDescriptorProto::default()
    };
    Schema {
        name: "foxglove.Log".to_owned(),
        data: FileDescriptorSet {
            file: vec![timestamp, log],
        }
        .encode_to_vec(),
    }
}

/// A line of the log.
pub(super) fn log_message(line: &LogLine<'_>) -> Vec<u8> {
    let mut time = Vec::new();
    let seconds = i64::try_from(line.at / 1_000_000_000).unwrap_or(i64::MAX);
    let nanos = i32::try_from(line.at % 1_000_000_000).unwrap_or(0);
    encoding::int64::encode(1, &seconds, &mut time);
    encoding::int32::encode(2, &nanos, &mut time);
    let mut out = Vec::new();
    put_bytes(1, &time, &mut out);
    encoding::int32::encode(2, &i32::from(line.level), &mut out);
    put_bytes(3, line.message.as_bytes(), &mut out);
    put_bytes(4, line.name.as_bytes(), &mut out);
    put_bytes(5, line.file.as_bytes(), &mut out);
    encoding::fixed32::encode(6, &0, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_names_and_numbers_that_protobuf_takes() {
        assert_eq!(identifier("arm.joints.0"), "arm_joints_0");
        assert_eq!(identifier("0"), "_0");
        assert_eq!(identifier("größe"), "gr__e");
        assert_eq!(identifier(""), "_");
        assert_eq!(number_of_place(0), 3);
        assert_eq!(number_of_place(18_996), 18_999);
        assert_eq!(number_of_place(18_997), 20_000);
    }
}
