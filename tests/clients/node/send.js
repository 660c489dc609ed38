// Sends spans with the OpenTelemetry SDK for JavaScript, and prints what it has sent, as a store is to answer it.
'use strict';

const { SpanStatusCode, trace, context } = require('@opentelemetry/api');
const { OTLPTraceExporter } = require('@opentelemetry/exporter-trace-otlp-http');
const { resourceFromAttributes } = require('@opentelemetry/resources');
const { InMemorySpanExporter, NodeTracerProvider, SimpleSpanProcessor } = require('@opentelemetry/sdk-trace-node');

const [url, compression] = process.argv.slice(2);
const STATUS = ['', 'ok', 'error'];
const nanoseconds = ([seconds, rest]) => String(BigInt(seconds) * 1000000000n + BigInt(rest));

function shown(span) {
  return {
    trace_id: span.spanContext().traceId,
    span_id: span.spanContext().spanId,
    parent_span_id: span.parentSpanContext ? span.parentSpanContext.spanId : null,
    name: span.name,
    start_time_ns: nanoseconds(span.startTime),
    end_time_ns: nanoseconds(span.endTime),
    status: STATUS[span.status.code],
    service: 'shop',
    attributes: span.attributes,
    events: span.events.map((event) => ({
      name: event.name,
      timestamp_ns: nanoseconds(event.time),
      attributes: event.attributes,
    })),
    links: span.links.map((link) => ({
      trace_id: link.context.traceId,
      span_id: link.context.spanId,
      attributes: link.attributes,
    })),
  };
}

async function main() {
  const memory = new InMemorySpanExporter();
  const provider = new NodeTracerProvider({
    resource: resourceFromAttributes({ 'service.name': 'shop' }),
    spanProcessors: [new SimpleSpanProcessor(memory)],
  });
  const tracer = provider.getTracer('tests');
  const root = tracer.startSpan('order', {
    attributes: {
      text: 'grüße, 世界 🚀',
      whole: 42,
      negative: -7,
      part: 0.25,
      flag: true,
      texts: ['a', 'b'],
      numbers: [1, 2.5],
      none: [],
    },
  });
  const inside = trace.setSpan(context.active(), root);
  const child = tracer.startSpan('pay', { links: [{ context: root.spanContext(), attributes: { how: 'pays' } }] }, inside);
  child.addEvent('declined', { code: 51 });
  child.recordException(new Error('card declined'));
  child.setStatus({ code: SpanStatusCode.ERROR, message: 'card declined' });
  child.end();
  root.setStatus({ code: SpanStatusCode.OK });
  root.end();

  const spans = memory.getFinishedSpans();
  const exporter = new OTLPTraceExporter({ url: `${url}/v1/traces`, compression });
  const result = await new Promise((resolve) => exporter.export(spans, resolve));
  if (result.code !== 0) {
    throw result.error ?? new Error('the export failed');
  }
  await exporter.shutdown();
  process.stdout.write(JSON.stringify(spans.map(shown)));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
