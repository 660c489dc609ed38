"""The gRPC exporter of the OpenTelemetry SDK for Python: what it sends is found again."""

import threading

import grpc
import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import SpanExportResult

import sent


@pytest.fixture(autouse=True)
def only_where_it_is_served(pytestconfig):
    if not pytestconfig.getini("serves_grpc"):
        pytest.skip("serves_grpc is off in pytest.ini")


def exporter(server, **more):
    return OTLPSpanExporter(endpoint=f"127.0.0.1:{server.port}", insecure=True, **more)


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_every_span_is_found_again_field_by_field(server, compression):
    spans = sent.make()
    client = exporter(server, compression=compression)
    assert client.export(spans) is SpanExportResult.SUCCESS
    client.shutdown()
    sent.check(server, spans)


def test_a_wrong_token_is_not_sent_again(start):
    server = start(env={"TRAZA_TOKENS": "rw:secret"})
    spans = sent.make(1)
    assert exporter(server, headers={"authorization": "Bearer wrong"}).export(spans) is SpanExportResult.FAILURE
    assert exporter(server, headers={"authorization": "Bearer secret"}).export(spans) is SpanExportResult.SUCCESS


def test_a_crash_in_mid_export_loses_nothing_acknowledged(start):
    server = start()
    acknowledged, offered = set(), set()
    told, over = threading.Condition(), threading.Event()

    def send():
        client = exporter(server, timeout=60)
        while not over.is_set():
            spans = sent.make(1)
            offered.update(map(sent.key, spans))
            if client.export(spans) is SpanExportResult.SUCCESS:
                with told:
                    acknowledged.update(map(sent.key, spans))
                    told.notify_all()
        client.shutdown()

    senders = [threading.Thread(target=send) for _ in range(4)]
    for sender in senders:
        sender.start()
    try:
        for goal in (60, 120):
            with told:
                assert told.wait_for(lambda: len(acknowledged) >= goal, timeout=60)
            server.kill()
            server = start(port=server.port)
        with told:
            assert told.wait_for(lambda: len(acknowledged) >= 180, timeout=60)
    finally:
        over.set()
        for sender in senders:
            sender.join()
    found = server.spans().keys()
    assert acknowledged <= found <= offered
