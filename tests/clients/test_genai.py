"""Calls of a model, watched by OpenLLMetry: tokens, cost, session and texts are found by their meaning."""

import json

import openai
import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.openai import OpenAIInstrumentor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

import fake_llm

PRICES = {"models": {"gpt-4o-mini*": {"input_per_mtok": 0.15, "output_per_mtok": 0.6}}}
CALLS = 3


@pytest.fixture
def watched(start, tmp_path):
    """A server that has taken in three good calls and one that failed, all of one session."""
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps(PRICES))
    server = start("--pricing", prices)
    provider = TracerProvider(resource=Resource.create({"service.name": "assistant"}))
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(endpoint=server.url + "/v1/traces")))
    instrumentor = OpenAIInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    try:
        with fake_llm.provider() as address:
            client = openai.OpenAI(api_key="none", base_url=address, max_retries=0)
            tracer = provider.get_tracer("tests")
            with tracer.start_as_current_span("conversation", attributes={"session.id": "talk-1"}):
                for _ in range(CALLS):
                    ask(client, "When does the lighthouse open?")
                with pytest.raises(openai.BadRequestError):
                    ask(client, "fail")
            client.close()
    finally:
        instrumentor.uninstrument()
        provider.shutdown()
    return server


def ask(client, text):
    return client.chat.completions.create(model="gpt-4o-mini", messages=[{"role": "user", "content": text}])


def test_tokens_and_cost_are_added_up_by_the_model_that_answered(watched):
    rows = {row["key"]: row for row in watched.get("/v1/stats/llm")["rows"]}
    row = rows[fake_llm.MODEL]
    assert row["llm_calls"] == CALLS
    assert row["prompt_tokens"] == CALLS * fake_llm.PROMPT
    assert row["completion_tokens"] == CALLS * fake_llm.COMPLETION
    assert row["total_tokens"] == CALLS * (fake_llm.PROMPT + fake_llm.COMPLETION)
    cost = CALLS * (fake_llm.PROMPT * 0.15 + fake_llm.COMPLETION * 0.6) / 1e6
    assert row["cost_usd"] == pytest.approx(cost, rel=1e-12)
    assert row["cost_derived_calls"] == CALLS
    assert row["cost_metered_calls"] == 0


def test_a_failed_call_is_counted_by_the_model_that_was_asked(watched):
    rows = {row["key"]: row for row in watched.get("/v1/stats/llm")["rows"]}
    assert rows["gpt-4o-mini"]["error_count"] == 1
    assert rows["gpt-4o-mini"]["total_tokens"] == 0
    (group,) = watched.get("/v1/stats/failures")["groups"]
    assert (group["service"], group["count"]) == ("assistant", 1)


def test_provider_and_service_group_the_same_calls(watched):
    (by_provider,) = watched.get("/v1/stats/llm", group_by="provider")["rows"]
    (by_service,) = watched.get("/v1/stats/llm", group_by="service")["rows"]
    assert (by_provider["key"], by_provider["llm_calls"]) == ("openai", CALLS + 1)
    assert (by_service["key"], by_service["total_tokens"]) == ("assistant", CALLS * 105)


def test_what_was_said_is_searched_by_its_words(watched):
    for words in ("lighthouse", "harbour nine"):
        assert len(watched.get("/v1/spans", content=words)["spans"]) == CALLS
    assert watched.get("/v1/spans", content="lighthouse harbour elephant")["spans"] == []


def test_the_conversation_is_a_session(watched):
    (session,) = watched.get("/v1/sessions")["sessions"]
    assert (session["session_id"], session["session_attribute"]) == ("talk-1", "session.id")
    (trace,) = watched.get("/v1/sessions/talk-1")["traces"]
    spans = watched.trace(trace["trace_id"])
    assert len(spans) == CALLS + 2
    root = next(span for span in spans.values() if span["parent_span_id"] is None)
    assert {span["parent_span_id"] for span in spans.values() if span is not root} == {root["span_id"]}
