//! Reads export requests in JSON: tolerant about shapes that lose nothing, strict about ids and times.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use durable::digest::hex;

use super::error::{COPIED_LEN_MAX, OtlpError, Result};
use super::{UNKNOWN_SERVICE, double, signed};
use crate::json::{Number, Object, Value, write_object};
use crate::segment::codec::len_u64;
use crate::span::{Event, Link, Span, is_tenant_name};

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
    let mut request = object(Value::parse_request(bytes)?)?;
    let mut spans = Spans::default();
    each(&mut request, "resourceSpans", |resource_spans| {
        spans.resource_spans(resource_spans)
    })?;
    Ok(spans.spans)
}

/// Reads one element of `resourceSpans`, for those who take a long request apart.
///
/// # Errors
/// [`OtlpError`], with paths that start inside the element.
pub fn resource_spans_from_json(bytes: &[u8]) -> Result<Vec<Span>> {
    let mut spans = Spans::default();
    spans.resource_spans(Value::parse_request(bytes)?)?;
    Ok(spans.spans)
}

/// The spans so far.
#[derive(Default)]
struct Spans {
    spans: Vec<Span>,
    copied_len: u64,
}

/// What the spans of a scope have in common.
struct Shared<'s> {
    service: &'s str,
    tenant: &'s str,
    attributes: &'s Object,
    len: u64,
}

impl Spans {
    fn resource_spans(&mut self, resource_spans: Value) -> Result<()> {
        let mut resource_spans = object(resource_spans)?;
        let resource = entries(resource_spans.remove("resource"));
        let service = first_string(&resource, "service.name").unwrap_or(UNKNOWN_SERVICE);
        let tenant = first_string(&resource, "traza.tenant").unwrap_or_default();
        if !tenant.is_empty() && !is_tenant_name(tenant) {
            let what = "must be lower-case [a-z0-9][a-z0-9._-], at most 64 bytes";
            return Err(wrong("resource.attributes[traza.tenant]", what));
        }
        each(&mut resource_spans, "scopeSpans", |scope_spans| {
            let mut scope_spans = object(scope_spans)?;
            let attributes = flatten(entries(scope_spans.remove("scope")));
            let mut text = String::new();
            write_object(&attributes, &mut text);
            let shared = Shared {
                service,
                tenant,
                attributes: &attributes,
                len: len_u64(text.len() + service.len() + tenant.len()),
            };
            each(&mut scope_spans, "spans", |span| {
                self.copied_len = self.copied_len.saturating_add(shared.len);
                if self.copied_len > COPIED_LEN_MAX {
                    return Err(OtlpError::TooLarge);
                }
                self.spans.push(read_span(object(span)?, &shared)?);
                Ok(())
            })
        })
    }
}

fn read_span(mut span: Object, shared: &Shared<'_>) -> Result<Span> {
    let trace_id = required_id(&span, "traceId")?;
    let span_id = required_id(&span, "spanId")?;
    if trace_id.is_empty() || span_id.is_empty() {
        let at = if trace_id.is_empty() {
            "traceId"
        } else {
            "spanId"
        };
        return Err(wrong(at, "is empty: traceId and spanId must be non-empty"));
    }
    let mut attributes = shared.attributes.clone();
    attributes.extend(flatten(attributes_of(&mut span)));
    let parent = match span.get("parentSpanId") {
        None | Some(Value::Null) => None,
        Some(_) => Some(required_id(&span, "parentSpanId")?).filter(|id| !id.is_empty()),
    };
    let status = span.get("status").and_then(Value::as_object);
    let status = status_word(status.and_then(|status| status.get("code")));
    Ok(Span {
        trace_id,
        span_id,
        tenant: shared.tenant.to_owned(),
        parent_span_id: parent,
        name: text(span.remove("name")),
        start_time_ns: required_time(&span, "startTimeUnixNano")?,
        end_time_ns: required_time(&span, "endTimeUnixNano")?,
        status: status.to_owned(),
        service: shared.service.to_owned(),
        attributes,
        events: each_if_array(&mut span, "events", |event| read_event(event).map(Some))?,
        links: each_if_array(&mut span, "links", read_link)?,
        unknown: Object::new(),
    })
}

fn read_event(event: Value) -> Result<Event> {
    let mut event = object(event)?;
    Ok(Event {
        name: text(event.remove("name")),
        timestamp_ns: required_time(&event, "timeUnixNano")?,
        attributes: flatten(attributes_of(&mut event)),
    })
}

/// A link without ids leads nowhere and is left out.
fn read_link(link: Value) -> Result<Option<Link>> {
    let mut link = object(link)?;
    let trace_id = required_id(&link, "traceId")?;
    let span_id = required_id(&link, "spanId")?;
    if trace_id.is_empty() || span_id.is_empty() {
        return Ok(None);
    }
    Ok(Some(Link {
        trace_id,
        span_id,
        attributes: flatten(attributes_of(&mut link)),
    }))
}

fn status_word(code: Option<&Value>) -> &'static str {
    let number = match code {
        Some(Value::Number(Number::Unsigned(number))) => Some(*number),
        Some(Value::String(word)) if word == "STATUS_CODE_OK" => Some(1),
        Some(Value::String(word)) if word == "STATUS_CODE_ERROR" => Some(2),
        Some(Value::String(digits)) => decimal(digits),
        _ => None,
    };
    match number {
        Some(1) => "ok",
        Some(2) => "error",
        _ => "",
    }
}

/// Keys with their values as they came, in their order.
type Entries = Vec<(String, Value)>;

/// The attributes of a resource or a scope; anything that is no object has none.
fn entries(holder: Option<Value>) -> Entries {
    match holder {
        Some(Value::Object(mut members)) => attributes_of(&mut members),
        _ => Entries::new(),
    }
}

fn attributes_of(holder: &mut Object) -> Entries {
    key_values(holder.remove("attributes"))
}

/// An entry without a value is left out, and a key that is no string is the empty one.
fn key_values(list: Option<Value>) -> Entries {
    let Some(Value::Array(list)) = list else {
        return Entries::new();
    };
    let entry = |entry| match entry {
        Value::Object(mut entry) => {
            let value = entry.remove("value")?;
            Some((text(entry.remove("key")), value))
        }
        _ => None,
    };
    list.into_iter().filter_map(entry).collect()
}

/// Of equal keys the last counts.
fn flatten(entries: Entries) -> Object {
    let flat = |(key, value)| (key, any_value(value));
    entries.into_iter().map(flat).collect()
}

fn first_string<'e>(entries: &'e Entries, wanted: &str) -> Option<&'e str> {
    entries
        .iter()
        .filter(|(key, _)| key == wanted)
        .find_map(|(_, value)| value.as_object()?.get("stringValue")?.as_str())
}

/// The value in an `AnyValue`. Where several are given, the order of the questions decides, not that of the members.
/// Nests as deep as the JSON does, which the parser bounds.
fn any_value(value: Value) -> Value {
    let Value::Object(mut value) = value else {
        return Value::Null;
    };
    if let Some(text @ Value::String(_)) = value.remove("stringValue") {
        return text;
    }
    match value.remove("intValue") {
        Some(number @ Value::Number(_)) => return number,
        Some(Value::String(digits)) => return integer(digits),
        _ => {}
    }
    match value.remove("doubleValue") {
        Some(Value::Number(number)) => return double(number.as_f64()),
        // NaN and the infinities are spelt as texts.
        Some(Value::String(text)) => return text.parse().map_or(Value::Null, double),
        _ => {}
    }
    if let Some(truth @ Value::Bool(_)) = value.remove("boolValue") {
        return truth;
    }
    if let Some(Value::Object(mut array)) = value.remove("arrayValue") {
        return Value::Array(match array.remove("values") {
            Some(Value::Array(items)) => items.into_iter().map(any_value).collect(),
            _ => Vec::new(),
        });
    }
    if let Some(Value::Object(mut list)) = value.remove("kvlistValue") {
        return Value::Object(flatten(key_values(list.remove("values"))));
    }
    match value.remove("bytesValue") {
        Some(Value::String(text)) => bytes(&text).map_or(Value::Null, |b| Value::from(hex(&b))),
        _ => Value::Null,
    }
}

fn integer(digits: String) -> Value {
    match digits.parse::<i64>() {
        Ok(number) => signed(number),
        Err(_) => Value::String(digits),
    }
}

/// Base64 in either alphabet, padded or not.
fn bytes(text: &str) -> Option<Vec<u8>> {
    const CONFIG: GeneralPurposeConfig =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, CONFIG);
    const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, CONFIG);
    let engine = if text.contains(['-', '_']) {
        URL_SAFE
    } else {
        STANDARD
    };
    engine.decode(text).ok()
}

fn text(value: Option<Value>) -> String {
    match value {
        Some(Value::String(text)) => text,
        _ => String::new(),
    }
}

/// A number in nothing but decimal digits.
fn decimal(digits: &str) -> Option<u64> {
    let is_decimal = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_decimal)
}

fn required_time(holder: &Object, field: &'static str) -> Result<u64> {
    let time = match holder.get(field) {
        None => return Err(wrong(field, "is required")),
        Some(Value::String(digits)) => decimal(digits),
        Some(value) => value.as_u64(),
    };
    time.ok_or_else(|| {
        wrong(
            field,
            "must be nanoseconds: an integer, or one in decimal digits",
        )
    })
}

fn required_id(holder: &Object, field: &'static str) -> Result<String> {
    match holder.get(field) {
        None => Err(wrong(field, "is required")),
        Some(Value::String(id)) if id.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            Ok(id.to_ascii_lowercase())
        }
        Some(Value::String(_)) => Err(wrong(field, "must be hex")),
        Some(_) => Err(wrong(field, "must be a hex string")),
    }
}

fn object(value: Value) -> Result<Object> {
    match value {
        Value::Object(members) => Ok(members),
        _ => Err(wrong("", "must be an object")),
    }
}

/// Hands out the elements of a required array.
fn each(
    holder: &mut Object,
    field: &'static str,
    mut visit: impl FnMut(Value) -> Result<()>,
) -> Result<()> {
    let Some(Value::Array(items)) = holder.remove(field) else {
        return Err(wrong(field, "must be an array"));
    };
    for (index, item) in items.into_iter().enumerate() {
        visit(item).map_err(|error| error.inside(format_args!("{field}[{index}]")))?;
    }
    Ok(())
}

/// The elements of an array; anything else has none.
fn each_if_array<T>(
    holder: &mut Object,
    field: &'static str,
    mut read: impl FnMut(Value) -> Result<Option<T>>,
) -> Result<Vec<T>> {
    let mut found = Vec::new();
    if holder
        .get(field)
        .is_some_and(|value| matches!(value, Value::Array(_)))
    {
        each(holder, field, |item| {
            found.extend(read(item)?);
            Ok(())
        })?;
    }
    Ok(found)
}

fn wrong(path: &str, what: &'static str) -> OtlpError {
    OtlpError::Field {
        path: path.to_owned(),
        what,
    }
}
