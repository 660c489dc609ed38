//! Reads export requests in JSON: tolerant about shapes that lose nothing, strict about ids and times.
//!
//! Nothing is kept of the text but the spans: members are read where they stand, so that a request takes the memory of what
//! comes out of it. Of equal members the last counts, and each of them has to be right.

mod attributes;

use super::error::{COPIED_LEN_MAX, OtlpError, Result};
use super::{UNKNOWN_SERVICE, double, keep_of_resource, signed, with_scope};
use crate::json::{Number, Object, Parser, Text, Value, write_object};
use crate::segment::codec::len_u64;
use crate::span::{Event, Link, Span, is_tenant_name};

use attributes::{Entry, attributes, entries};

/// Reads an export request: an object with `resourceSpans`.
///
/// ```
/// let spans = traza::otlp::spans_from_json(br#"{"resourceSpans":[{"scopeSpans":[{"spans":[
///     {"traceId":"AB","spanId":"01","name":"chat","startTimeUnixNano":"5","endTimeUnixNano":7}]}]}]}"#)?;
/// assert_eq!((spans[0].trace_id.as_str(), spans[0].service.as_str()), ("ab", "unknown_service"));
/// # Ok::<(), traza::otlp::OtlpError>(())
/// ```
///
/// # Errors
/// [`OtlpError`]; the request is then refused whole.
pub fn spans_from_json(bytes: &[u8]) -> Result<Vec<Span>> {
    let mut parser = Parser::of_request(bytes)?;
    let mut spans = Spans::default();
    let no_context = Reader {
        member: None,
        read: |_| Ok(()),
    };
    spans.level(
        &mut parser,
        &no_context,
        "resourceSpans",
        |spans, parser, ()| spans.resource_spans(parser),
    )?;
    parser.finish()?;
    Ok(spans.spans)
}

/// Reads one element of `resourceSpans`, for those who take a long request apart.
///
/// # Errors
/// [`OtlpError`], with paths that start inside the element.
pub fn resource_spans_from_json(bytes: &[u8]) -> Result<Vec<Span>> {
    let mut parser = Parser::of_request(bytes)?;
    let mut spans = Spans::default();
    spans.resource_spans(&mut parser)?;
    parser.finish()?;
    Ok(spans.spans)
}

/// The spans so far.
#[derive(Default)]
struct Spans {
    spans: Vec<Span>,
    copied_len: u64,
}

/// What the spans of a resource have in common.
#[derive(Default)]
struct Resource {
    service: Option<String>,
    tenant: Option<String>,
    /// What its spans take on.
    kept: Object,
    /// What that takes in memory.
    memory: usize,
}

/// What the spans of a scope have in common.
#[derive(Default)]
struct Scope {
    attributes: Object,
    /// How long they are as JSON.
    text_len: usize,
    /// What they take in memory.
    memory: usize,
}

/// The member of an object that its list is read with.
struct Reader<C> {
    member: Option<&'static str>,
    read: fn(&mut Parser<'_>) -> Result<C>,
}

impl Spans {
    fn resource_spans(&mut self, parser: &mut Parser<'_>) -> Result<()> {
        let resource = Reader {
            member: Some("resource"),
            read: read_resource,
        };
        self.level(parser, &resource, "scopeSpans", Self::scope_spans)
    }

    fn scope_spans(&mut self, parser: &mut Parser<'_>, resource: &Resource) -> Result<()> {
        let service = resource.service.as_deref().unwrap_or(UNKNOWN_SERVICE);
        let tenant = resource.tenant.as_deref().unwrap_or_default();
        let reader = Reader {
            member: Some("scope"),
            read: read_scope,
        };
        self.level(parser, &reader, "spans", |spans, parser, scope: &Scope| {
            let joined = (!resource.kept.is_empty())
                .then(|| with_scope(&resource.kept, scope.attributes.clone()));
            let (attributes, text_len) =
                joined.unwrap_or_else(|| (scope.attributes.clone(), scope.text_len));
            let len = len_u64(text_len + service.len() + tenant.len());
            spans.copied_len = spans.copied_len.saturating_add(len);
            if spans.copied_len > COPIED_LEN_MAX {
                return Err(OtlpError::TooLarge);
            }
            let memory = scope.memory + resource.memory;
            parser.charge(size_of::<Span>() + memory + service.len() + tenant.len())?;
            let mut span = read_span(parser, attributes)?;
            span.service = service.into();
            span.tenant = tenant.into();
            spans.spans.push(span);
            Ok(())
        })
    }

    /// Reads an object of a list and what its items have in common. Where that stands behind the list, the list is read
    /// once more.
    fn level<C: Default>(
        &mut self,
        parser: &mut Parser<'_>,
        context: &Reader<C>,
        list: &'static str,
        mut item: impl FnMut(&mut Self, &mut Parser<'_>, &C) -> Result<()>,
    ) -> Result<()> {
        let (len, copied_len) = (self.spans.len(), self.copied_len);
        let mut common = C::default();
        let mut found = None;
        let mut is_late = false;
        object(parser, |parser, name| {
            if context.member == Some(name) {
                common = (context.read)(parser)?;
                is_late = found.is_some();
                return Ok(());
            }
            if name != list {
                return Ok(parser.skip()?);
            }
            self.spans.truncate(len);
            self.copied_len = copied_len;
            found = parser.is_array().then(|| parser.place());
            match found {
                None => Ok(parser.skip()?),
                Some(_) => each(parser, list, |parser| item(self, parser, &common)),
            }
        })?;
        let Some(place) = found else {
            return Err(wrong(list, "must be an array"));
        };
        if is_late {
            self.spans.truncate(len);
            self.copied_len = copied_len;
            let end = parser.place();
            parser.go_to(place);
            each(parser, list, |parser| item(self, parser, &common))?;
            parser.go_to(end);
        }
        Ok(())
    }
}

fn read_resource(parser: &mut Parser<'_>) -> Result<Resource> {
    let mut resource = Resource::default();
    members(parser, |parser, name| {
        if name != "attributes" {
            return Ok(parser.skip()?);
        }
        resource = Resource::default();
        entries(parser, |Entry { key, value }| {
            let place = match key.as_ref() {
                "service.name" => &mut resource.service,
                "traza.tenant" => &mut resource.tenant,
                _ => {
                    keep_of_resource(&mut resource.kept, &key, value.into_value());
                    return;
                }
            };
            // Of several, the first that is a text.
            if place.is_none() {
                *place = value.into_text();
            }
        })
    })?;
    let tenant = resource.tenant.as_deref().unwrap_or_default();
    if !tenant.is_empty() && !is_tenant_name(tenant) {
        let what = "must be lower-case [a-z0-9][a-z0-9._-], at most 64 bytes";
        return Err(wrong("resource.attributes[traza.tenant]", what));
    }
    if !resource.kept.is_empty() {
        let mut text = String::new();
        write_object(&resource.kept, &mut text);
        // One node of a map, and its texts.
        resource.memory = 11 * size_of::<(String, Value)>() + text.len();
    }
    Ok(resource)
}

fn read_scope(parser: &mut Parser<'_>) -> Result<Scope> {
    let mut scope = Scope::default();
    let memory = parser.memory_left();
    members(parser, |parser, name| match name {
        "attributes" => {
            scope.attributes = attributes(parser)?;
            Ok(())
        }
        _ => Ok(parser.skip()?),
    })?;
    scope.memory = memory.saturating_sub(parser.memory_left());
    let mut text = String::new();
    write_object(&scope.attributes, &mut text);
    scope.text_len = text.len();
    Ok(scope)
}

/// Reads a span that has the attributes of its scope already.
fn read_span(parser: &mut Parser<'_>, mut scope: Object) -> Result<Span> {
    let mut span = Span::default();
    let (mut trace_id, mut span_id, mut parent) = (None, None, None);
    let (mut start, mut end) = (None, None);
    let mut own = Object::new();
    object(parser, |parser, name| {
        match name {
            "traceId" => trace_id = Some(read_id(parser)?),
            "spanId" => span_id = Some(read_id(parser)?),
            "parentSpanId" if parser.null()? => parent = None,
            "parentSpanId" => parent = Some(read_id(parser)?),
            "name" => span.name = text(parser)?.unwrap_or_default(),
            "startTimeUnixNano" => start = Some(read_time(parser)?),
            "endTimeUnixNano" => end = Some(read_time(parser)?),
            "status" => span.status = read_status(parser)?.into(),
            "attributes" => own = attributes(parser)?,
            "events" => span.events = each_if_array(parser, "events", read_event)?,
            "links" => span.links = each_if_array(parser, "links", read_link)?,
            _ => parser.skip()?,
        }
        Ok(())
    })?;
    span.trace_id = required(trace_id, "traceId")?;
    span.span_id = required(span_id, "spanId")?;
    for (at, id) in [("traceId", &span.trace_id), ("spanId", &span.span_id)] {
        if id.is_empty() {
            return Err(wrong(at, "is empty: traceId and spanId must be non-empty"));
        }
    }
    if let Some(parent) = parent {
        let id = required(Some(parent), "parentSpanId")?;
        span.parent_span_id = Some(id).filter(|id| !id.is_empty());
    }
    span.start_time_ns = required(start, "startTimeUnixNano")?;
    span.end_time_ns = required(end, "endTimeUnixNano")?;
    span.attributes = if scope.is_empty() {
        own
    } else {
        scope.extend(own);
        scope
    };
    Ok(span)
}

fn read_event(parser: &mut Parser<'_>) -> Result<Option<Event>> {
    parser.charge(size_of::<Event>())?;
    let mut event = Event::default();
    let mut time = None;
    object(parser, |parser, name| {
        match name {
            "name" => event.name = text(parser)?.unwrap_or_default(),
            "timeUnixNano" => time = Some(read_time(parser)?),
            "attributes" => event.attributes = attributes(parser)?,
            _ => parser.skip()?,
        }
        Ok(())
    })?;
    event.timestamp_ns = required(time, "timeUnixNano")?;
    Ok(Some(event))
}

/// A link without ids leads nowhere and is left out.
fn read_link(parser: &mut Parser<'_>) -> Result<Option<Link>> {
    parser.charge(size_of::<Link>())?;
    let mut link = Link::default();
    let (mut trace_id, mut span_id) = (None, None);
    object(parser, |parser, name| {
        match name {
            "traceId" => trace_id = Some(read_id(parser)?),
            "spanId" => span_id = Some(read_id(parser)?),
            "attributes" => link.attributes = attributes(parser)?,
            _ => parser.skip()?,
        }
        Ok(())
    })?;
    link.trace_id = required(trace_id, "traceId")?;
    link.span_id = required(span_id, "spanId")?;
    let leads = !link.trace_id.is_empty() && !link.span_id.is_empty();
    Ok(leads.then_some(link))
}

fn read_status(parser: &mut Parser<'_>) -> Result<&'static str> {
    let mut word = "";
    members(parser, |parser, name| {
        if name != "code" {
            return Ok(parser.skip()?);
        }
        let number = match number(parser)? {
            Some(Number::Unsigned(number)) => Some(number),
            Some(_) => None,
            None => match parser.text()?.as_deref() {
                Some("STATUS_CODE_OK") => Some(1),
                Some("STATUS_CODE_ERROR") => Some(2),
                Some(digits) => decimal(digits),
                None => None,
            },
        };
        word = match number {
            Some(1) => "ok",
            Some(2) => "error",
            _ => "",
        };
        Ok(())
    })?;
    Ok(word)
}

/// A field's value, or what is wrong with it.
type Field<T> = std::result::Result<T, &'static str>;

/// What a field has to have, which is asked when its object has ended: a later one of the same name would count.
fn required<T>(field: Option<Field<T>>, name: &'static str) -> Result<T> {
    field
        .unwrap_or(Err("is required"))
        .map_err(|what| wrong(name, what))
}

fn read_time(parser: &mut Parser<'_>) -> Result<Field<u64>> {
    let time = match number(parser)? {
        Some(Number::Unsigned(time)) => Some(time),
        Some(_) => None,
        None => parser.text()?.and_then(|digits| decimal(&digits)),
    };
    Ok(time.ok_or("must be nanoseconds: an integer, or one in decimal digits"))
}

fn read_id(parser: &mut Parser<'_>) -> Result<Field<Text>> {
    Ok(match text(parser)? {
        None => Err("must be a hex string"),
        Some(mut id) if id.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            id.make_ascii_lowercase();
            Ok(id)
        }
        Some(_) => Err("must be hex"),
    })
}

/// The number that stands next; nothing is read of anything else.
fn number(parser: &mut Parser<'_>) -> Result<Option<Number>> {
    match parser.peek() {
        Some(b'-' | b'0'..=b'9') => Ok(Some(parser.number()?)),
        _ => Ok(None),
    }
}

/// The text that stands next; any other value is passed.
fn text(parser: &mut Parser<'_>) -> Result<Option<Text>> {
    let Some(text) = parser.text()? else {
        return Ok(None);
    };
    parser.charge(text.len())?;
    Ok(Some(text.into()))
}

/// A number in nothing but decimal digits.
fn decimal(digits: &str) -> Option<u64> {
    let is_decimal = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_decimal)
}

/// Reads the members of what has to be an object.
fn object<'a>(
    parser: &mut Parser<'a>,
    mut member: impl FnMut(&mut Parser<'a>, &str) -> Result<()>,
) -> Result<()> {
    if parser.is_object() {
        return parser.object(|parser, name| member(parser, &name));
    }
    parser.skip()?;
    Err(wrong("", "must be an object"))
}

/// Reads the members of an object; anything else has none.
fn members<'a>(
    parser: &mut Parser<'a>,
    mut member: impl FnMut(&mut Parser<'a>, &str) -> Result<()>,
) -> Result<()> {
    if parser.is_object() {
        return parser.object(|parser, name| member(parser, &name));
    }
    Ok(parser.skip()?)
}

/// Reads the items of an array; an error says in which it is.
fn each<'a>(
    parser: &mut Parser<'a>,
    field: &'static str,
    mut item: impl FnMut(&mut Parser<'a>) -> Result<()>,
) -> Result<()> {
    let mut index = 0;
    parser.array(|parser| {
        item(parser).map_err(|error| error.inside(format_args!("{field}[{index}]")))?;
        index += 1;
        Ok(())
    })
}

/// The items of an array; anything else has none.
fn each_if_array<T>(
    parser: &mut Parser<'_>,
    field: &'static str,
    read: fn(&mut Parser<'_>) -> Result<Option<T>>,
) -> Result<Vec<T>> {
    let mut found = Vec::new();
    if !parser.is_array() {
        parser.skip()?;
        return Ok(found);
    }
    each(parser, field, |parser| {
        found.extend(read(parser)?);
        Ok(())
    })?;
    Ok(found)
}

fn wrong(path: &str, what: &'static str) -> OtlpError {
    OtlpError::Field {
        path: path.to_owned(),
        what,
    }
}
