"""Spans made with the OpenTelemetry SDK, and what a store must answer for each of them."""

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, SpanKind, Status, StatusCode, set_span_in_context

SERVICE = "checkout"

# Every type that the SDK lets an attribute have.
ATTRIBUTES = {
    "text": "grüße, 世界 \U0001f680",
    "text.empty": "",
    "text.control": 'a "quote", a \\ and a \n newline',
    "text.long": "x" * 20_000,
    "flag.yes": True,
    "flag.no": False,
    "int.zero": 0,
    "int.max": 2**63 - 1,
    "int.min": -(2**63),
    "double": 0.1,
    "double.whole": 3.0,
    "double.tiny": 5e-324,
    "double.huge": 1.7976931348623157e308,
    "list.text": ("a", "b", ""),
    "list.int": (1, 2, 3),
    "list.double": (0.5, -0.25),
    "list.flag": (True, False),
    "list.empty": (),
}


def make(traces=3):
    """Finished spans: for every trace a root, a failed child with events, and one that links to the trace before."""
    memory = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource.create({"service.name": SERVICE, "service.version": "1.2.3"}))
    provider.add_span_processor(SimpleSpanProcessor(memory))
    tracer = provider.get_tracer("tests", "1")
    previous = None
    for number in range(traces):
        root = tracer.start_span(f"request {number}", kind=SpanKind.SERVER, attributes=ATTRIBUTES)
        inside = set_span_in_context(root)
        failed = tracer.start_span("query", context=inside, kind=SpanKind.CLIENT, attributes={"number": number})
        failed.add_event("retry", {"attempt": 1, "why": "timeout", "waits": (0.5, 1.0)})
        failed.record_exception(ValueError("no such row"))
        failed.set_status(Status(StatusCode.ERROR, "no such row"))
        failed.end()
        links = [Link(previous, {"how": "follows"})] if previous else []
        linked = tracer.start_span("reply", context=inside, links=links)
        linked.set_status(StatusCode.OK)
        linked.end()
        root.end()
        previous = root.get_span_context()
    return list(memory.get_finished_spans())


def key(span):
    """The identity of a span, as a store spells it."""
    return format(span.context.trace_id, "032x"), format(span.context.span_id, "016x")


def _plain(attributes):
    return {name: list(value) if isinstance(value, tuple) else value for name, value in (attributes or {}).items()}


def expected(span):
    """What a store answers for a span of the SDK, without the members that are at their default."""
    trace_id, span_id = key(span)
    names = {StatusCode.UNSET: "", StatusCode.OK: "ok", StatusCode.ERROR: "error"}
    whole = {
        "trace_id": trace_id,
        "span_id": span_id,
        "parent_span_id": format(span.parent.span_id, "016x") if span.parent else None,
        "name": span.name,
        "start_time_ns": span.start_time,
        "end_time_ns": span.end_time,
        "status": names[span.status.status_code],
        "service": SERVICE,
        "attributes": _plain(span.attributes),
        "events": [
            {"name": event.name, "timestamp_ns": event.timestamp, "attributes": _plain(event.attributes)}
            for event in span.events
        ],
    }
    if span.links:
        whole["links"] = [
            {
                "trace_id": format(link.context.trace_id, "032x"),
                "span_id": format(link.context.span_id, "016x"),
                "attributes": _plain(link.attributes),
            }
            for link in span.links
        ]
    return whole


def same(found, wanted):
    """Equal in value and in type: 3 is not 3.0, and 1 is not true."""
    if type(found) is not type(wanted):
        return False
    if isinstance(found, dict):
        return found.keys() == wanted.keys() and all(same(found[name], wanted[name]) for name in found)
    if isinstance(found, list):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    return found == wanted


def check(server, spans):
    """Every span is found by its trace and in the export, field by field, and nothing else is there."""
    wanted = {key(span): expected(span) for span in spans}
    exported = server.spans()
    assert exported.keys() == wanted.keys()
    for identity, span in wanted.items():
        trace_id, span_id = identity
        for found in (exported[identity], server.trace(trace_id)[span_id]):
            different = [name for name in found.keys() | span.keys() if not same(found.get(name), span.get(name))]
            assert not different, {name: (found.get(name), span.get(name)) for name in different}
