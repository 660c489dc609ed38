//! Reads span JSON in one pass over its bytes.

use super::{Event, Link, Span, SpanError};
use crate::json::{Number, Object, ObjectBuilder, Parser, Text};

pub(super) fn span(bytes: &[u8]) -> Result<Span, SpanError> {
    let mut parser = Parser::new(bytes)?;
    let span = read_span(&mut parser)?;
    parser.finish()?;
    Ok(span)
}

pub(super) fn batch(bytes: &[u8]) -> Result<Vec<Span>, SpanError> {
    let mut parser = Parser::new(bytes)?;
    let spans = read_array(&mut parser, read_span)?;
    parser.finish()?;
    Ok(spans)
}

/// Of a request: an array of spans, or an object with one.
pub(super) fn body(bytes: &[u8]) -> Result<Vec<Span>, SpanError> {
    let mut parser = Parser::of_request(bytes)?;
    let spans = match parser.peek() {
        Some(b'[') => read_array(&mut parser, read_span)?,
        Some(b'{') => {
            let mut spans = Field::new("spans");
            parser.object(|parser, member| match &*member {
                "spans" => spans.set(parser, |parser| read_array(parser, read_span)),
                _ => Ok(parser.skip()?),
            })?;
            spans.required(&parser)?
        }
        _ => return Err(SpanError::Shape),
    };
    parser.finish()?;
    Ok(spans)
}

fn read_span(parser: &mut Parser<'_>) -> Result<Span, SpanError> {
    let mut trace_id = Field::new("trace_id");
    let mut span_id = Field::new("span_id");
    let mut tenant = Field::new("$tenant");
    let mut parent = Field::new("parent_span_id");
    let mut name = Field::new("name");
    let mut start = Field::new("start_time_ns");
    let mut end = Field::new("end_time_ns");
    let mut status = Field::new("status");
    let mut service = Field::new("service");
    let mut attributes = Field::new("attributes");
    let mut events = Field::new("events");
    let mut links = Field::new("links");
    let mut unknown = ObjectBuilder::default();
    parser.object(|parser, member| match &*member {
        "trace_id" => trace_id.set(parser, read_string),
        "span_id" => span_id.set(parser, read_string),
        "$tenant" => tenant.set(parser, read_string),
        "parent_span_id" => parent.set(parser, read_optional_string),
        "name" => name.set(parser, read_string),
        "start_time_ns"
        | "start_time_unix_nano"
        | "start_timestamp_ns"
        | "start_ns"
        | "start_time" => start.set(parser, read_u64),
        "end_time_ns" | "end_time_unix_nano" | "end_timestamp_ns" | "end_ns" | "end_time" => {
            end.set(parser, read_u64)
        }
        "status" => status.set(parser, read_string),
        "service" => service.set(parser, read_string),
        "attributes" => attributes.set(parser, read_object),
        "events" => events.set(parser, |parser| read_array(parser, read_event)),
        "links" => links.set(parser, |parser| read_array(parser, read_link)),
        _ => {
            let value = parser.value()?;
            unknown.push(member, value);
            Ok(())
        }
    })?;
    Ok(Span {
        trace_id: trace_id.required(parser)?,
        span_id: span_id.required(parser)?,
        tenant: tenant.or_default(),
        parent_span_id: parent.or_default(),
        name: name.required(parser)?,
        start_time_ns: start.required(parser)?,
        end_time_ns: end.required(parser)?,
        status: status.or_default(),
        service: service.required(parser)?,
        attributes: attributes.or_default(),
        events: events.or_default(),
        links: links.or_default(),
        unknown: unknown.finish(),
    })
}

fn read_event(parser: &mut Parser<'_>) -> Result<Event, SpanError> {
    let mut name = Field::new("name");
    let mut timestamp = Field::new("timestamp_ns");
    let mut attributes = Field::new("attributes");
    parser.object(|parser, member| match &*member {
        "name" => name.set(parser, read_string),
        "timestamp_ns" | "time_unix_nano" | "timestamp_unix_nano" | "time_ns" | "time" => {
            timestamp.set(parser, read_u64)
        }
        "attributes" => attributes.set(parser, read_object),
        _ => Ok(parser.skip()?),
    })?;
    Ok(Event {
        name: name.required(parser)?,
        timestamp_ns: timestamp.required(parser)?,
        attributes: attributes.or_default(),
    })
}

fn read_link(parser: &mut Parser<'_>) -> Result<Link, SpanError> {
    let mut trace_id = Field::new("trace_id");
    let mut span_id = Field::new("span_id");
    let mut attributes = Field::new("attributes");
    parser.object(|parser, member| match &*member {
        "trace_id" => trace_id.set(parser, read_string),
        "span_id" => span_id.set(parser, read_string),
        "attributes" => attributes.set(parser, read_object),
        _ => Ok(parser.skip()?),
    })?;
    Ok(Link {
        trace_id: trace_id.required(parser)?,
        span_id: span_id.required(parser)?,
        attributes: attributes.or_default(),
    })
}

/// A field that may be set once.
struct Field<T> {
    name: &'static str,
    value: Option<T>,
}

impl<T> Field<T> {
    fn new(name: &'static str) -> Self {
        Self { name, value: None }
    }

    fn set<'a>(
        &mut self,
        parser: &mut Parser<'a>,
        read: impl FnOnce(&mut Parser<'a>) -> Result<T, SpanError>,
    ) -> Result<(), SpanError> {
        if self.value.is_some() {
            return Err(SpanError::Twice {
                field: self.name,
                offset: parser.offset(),
            });
        }
        self.value = Some(read(parser)?);
        Ok(())
    }

    fn required(self, parser: &Parser<'_>) -> Result<T, SpanError> {
        self.value.ok_or(SpanError::Missing {
            field: self.name,
            offset: parser.offset(),
        })
    }

    fn or_default(self) -> T
    where
        T: Default,
    {
        self.value.unwrap_or_default()
    }
}

fn read_string(parser: &mut Parser<'_>) -> Result<Text, SpanError> {
    Ok(parser.string()?.into())
}

fn read_optional_string(parser: &mut Parser<'_>) -> Result<Option<Text>, SpanError> {
    if parser.null()? {
        return Ok(None);
    }
    read_string(parser).map(Some)
}

fn read_u64(parser: &mut Parser<'_>) -> Result<u64, SpanError> {
    const WANTED: &str = "an integer from 0 to 18446744073709551615";
    if !matches!(parser.peek(), Some(b'-' | b'0'..=b'9')) {
        return Ok(parser.unexpected(WANTED)?);
    }
    match parser.number()? {
        Number::Unsigned(value) => Ok(value),
        Number::Negative(_) | Number::Float(_) => Ok(parser.unexpected(WANTED)?),
    }
}

fn read_object(parser: &mut Parser<'_>) -> Result<Object, SpanError> {
    let mut members = ObjectBuilder::default();
    parser.object(|parser, name| -> Result<(), SpanError> {
        let value = parser.value()?;
        members.push(name, value);
        Ok(())
    })?;
    Ok(members.finish())
}

fn read_array<'a, T>(
    parser: &mut Parser<'a>,
    mut read: impl FnMut(&mut Parser<'a>) -> Result<T, SpanError>,
) -> Result<Vec<T>, SpanError> {
    let mut items = Vec::new();
    parser.array(|parser| -> Result<(), SpanError> {
        items.push(read(parser)?);
        Ok(())
    })?;
    Ok(items)
}
