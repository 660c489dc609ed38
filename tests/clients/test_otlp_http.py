"""The HTTP exporter of the OpenTelemetry SDK for Python: what it sends is found again."""

import threading
from itertools import count

import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult

import sent


def exporter(server, **more):
    return OTLPSpanExporter(endpoint=server.url + "/v1/traces", **more)


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
def test_every_span_is_found_again_field_by_field(server, compression):
    spans = sent.make()
    assert exporter(server, compression=compression).export(spans) is SpanExportResult.SUCCESS
    sent.check(server, spans)


def test_what_was_sealed_and_reopened_is_the_same(start):
    spans = sent.make()
    server = start()
    assert exporter(server).export(spans) is SpanExportResult.SUCCESS
    assert server.request("POST", "/v1/flush")[0] == 200
    sent.check(server, spans)
    assert server.stop() == 0
    sent.check(start(), spans)


def test_sending_twice_keeps_one(server):
    spans = sent.make()
    for _ in range(2):
        assert exporter(server).export(spans) is SpanExportResult.SUCCESS
    sent.check(server, spans)


def test_a_batch_processor_delivers_all_of_a_program(server):
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(exporter(server), max_export_batch_size=100))
    tracer = provider.get_tracer("tests")
    for number in range(1_050):
        tracer.start_span(f"step {number}").end()
    assert provider.force_flush()
    provider.shutdown()
    assert sorted(span["name"] for span in server.spans().values()) == sorted(f"step {n}" for n in range(1_050))


def test_a_wrong_token_is_not_sent_again_and_the_right_one_is_let_in(start):
    server = start(env={"TRAZA_TOKENS": "rw:secret"})
    spans = sent.make(1)
    assert exporter(server, headers={"Authorization": "Bearer wrong"}).export(spans) is SpanExportResult.FAILURE
    status, text = server.request("GET", "/v1/metrics", headers={"Authorization": "Bearer secret"})
    assert status == 200
    assert b"traza_http_rejected_total 1\n" in text, "the exporter was told to try again"
    assert exporter(server, headers={"Authorization": "Bearer secret"}).export(spans) is SpanExportResult.SUCCESS


def test_a_crash_in_mid_export_loses_nothing_acknowledged(start):
    """Four exporters send while the server is killed and started again, three times; they retry by themselves."""
    server = start()
    made = sent.make(1)[0]
    offered, acknowledged, failures = {}, set(), []
    lock, enough, over = threading.Lock(), threading.Condition(), threading.Event()
    numbers = count()

    def batch():
        """Spans of new identities, made from one that the SDK has finished."""
        provider = TracerProvider(resource=made.resource)
        tracer = provider.get_tracer("tests")
        spans = [tracer.start_span(f"call {next(numbers)}", attributes={"n": n}) for n in range(20)]
        for span in spans:
            span.end()
        return spans

    def send():
        client = exporter(server, compression=Compression.Gzip, timeout=60)
        while not over.is_set():
            spans = batch()
            with lock:
                offered.update((sent.key(span), sent.expected(span)) for span in spans)
            outcome = client.export(spans)
            with enough:
                if outcome is SpanExportResult.SUCCESS:
                    acknowledged.update(map(sent.key, spans))
                else:
                    failures.append(outcome)
                enough.notify_all()

    senders = [threading.Thread(target=send) for _ in range(4)]
    for sender in senders:
        sender.start()
    try:
        for goal in (400, 800, 1_200):
            with enough:
                assert enough.wait_for(lambda: len(acknowledged) >= goal, timeout=60)
            server.kill()
            server = start(port=server.port)
        with enough:
            assert enough.wait_for(lambda: len(acknowledged) >= 1_600, timeout=60)
    finally:
        over.set()
        for sender in senders:
            sender.join()
    assert not failures, "an exporter gave up although the server came back"
    found = server.spans()
    assert acknowledged <= found.keys(), f"{len(acknowledged - found.keys())} acknowledged spans are lost"
    assert found.keys() <= offered.keys()
    for identity, span in found.items():
        assert sent.same(span["attributes"], offered[identity]["attributes"])
        assert span["name"] == offered[identity]["name"]
