"""Trains a small model and tells a trace store about it: a trial for `daybook tune`.

    daybook serve --data traces &
    export OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318
    daybook tune study.atj --minimize loss --param 'lr=float(1e-3,1,log)' --trials 4 -- \
        python3 examples/traced_train.py {lr}
    daybook trail study.atj#0 http://127.0.0.1:4318

Needs the packages opentelemetry-sdk and opentelemetry-exporter-otlp-proto-http, and nothing of Daybook: the tuner says
in `TRACEPARENT` which trace the spans belong to, and in `OTEL_RESOURCE_ATTRIBUTES` which study, trial and run.
"""

import json
import os
import sys

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

EPOCHS = 3


def train(tracer, rate):
    """Descend to the least of (w - 3)², and report every epoch."""
    weight = 0.0
    for epoch in range(1, EPOCHS + 1):
        with tracer.start_as_current_span("epoch", attributes={"run.tick": epoch}) as span:
            for _ in range(10):
                weight -= rate * 2 * (weight - 3)
            loss = (weight - 3) ** 2
            span.set_attribute("loss", loss)
            print(json.dumps({"step": epoch, "loss": loss}), flush=True)


def main():
    """Train once, inside the trace of the trial."""
    provider = TracerProvider(resource=Resource.create({"service.name": "traced_train"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    tracer = provider.get_tracer("traced_train")
    around = TraceContextTextMapPropagator().extract({"traceparent": os.environ.get("TRACEPARENT", "")})
    with tracer.start_as_current_span("train", context=around):
        train(tracer, float(sys.argv[1]))
    provider.shutdown()


if __name__ == "__main__":
    main()
