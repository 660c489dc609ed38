"""The description of the API is held against the server: schemathesis asks what it allows and what it does not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema_rs
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import SpanExportResult

import sent

SEED = 20_260
EXAMPLES = 5
# The live tail never ends; its beginning is tested with the other promises of the server.
ENDLESS = "/v1/tail"
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)


def test_no_answer_is_undocumented_or_a_failure_of_the_server(server, tmp_path):
    program = Path(sys.executable).parent / "schemathesis"
    done = subprocess.run(
        [
            program,
            "run",
            server.url + "/v1/openapi.json",
            f"--seed={SEED}",
            f"--max-examples={EXAMPLES}",
            "--phases=examples,coverage,fuzzing",
            "--generation-database=none",
            f"--checks={','.join(CHECKS)}",
            f"--exclude-path={ENDLESS}",
            "--continue-on-failure",
            "--request-timeout=30",
            "--no-color",
        ],
        cwd=tmp_path,
        env={**os.environ, "SCHEMATHESIS_HOOKS": ""},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]


def test_every_route_of_the_description_is_served(server):
    """Nothing that is described answers as if it were not there."""
    described = server.get("/v1/openapi.json")["paths"]
    assert len(described) > 30
    for path, methods in described.items():
        for method in methods:
            if path == ENDLESS:
                continue
            status, body = server.request(method.upper(), path.replace("{", "").replace("}", ""), b"{}" if method == "post" else None)
            assert (status, json.loads(body or b"{}") if status == 404 else None) != (404, {"error": "not found"}), (method, path)


def flow(spans):
    """Requests of a whole life, each with the status that it must get; `{…}` stands for what an answer before has told."""
    traced = spans[0]
    trace, span = sent.key(traced)
    window = f"since={traced.start_time - 10**9}&until={traced.end_time + 10**9}"
    return [
        ("get", "/healthz", None, 200),
        ("get", "/readyz", None, 200),
        ("get", "/v1/stats", None, 200),
        ("get", "/v1/metrics.json", None, 200),
        ("get", "/v1/spans?limit=2", None, 200),
        ("get", "/v1/spans?limit=2&cursor={next_cursor}", None, 200),
        ("get", "/v1/spans?sort=fastest", None, 400),
        ("get", f"/v1/traces/{trace}", None, 200),
        ("get", "/v1/traces/none", None, 404),
        ("get", "/v1/sessions", None, 200),
        ("get", "/v1/sessions/none", None, 404),
        ("get", "/v1/sessions/talk", None, 200),
        ("get", "/v1/stats/llm", None, 200),
        ("get", f"/v1/stats/series?{window}", None, 200),
        ("get", "/v1/stats/series", None, 400),
        ("get", "/v1/stats/duration", None, 200),
        ("get", "/v1/stats/failures", None, 200),
        ("get", "/v1/stats/slowest", None, 200),
        ("get", "/v1/tenants", None, 200),
        ("get", "/v1/payloads/sha256/none", None, 404),
        ("post", "/v1/annotations", {"trace_id": trace, "span_id": span, "name": "good", "value": True}, 200),
        ("post", "/v1/annotations", {"trace_id": trace, "name": "", "value": 1}, 400),
        ("get", "/v1/annotations", None, 200),
        ("post", "/v1/datasets", {"name": "questions"}, 200),
        ("get", "/v1/datasets", None, 200),
        ("get", "/v1/datasets/1", None, 200),
        ("get", "/v1/datasets/2", None, 404),
        ("post", "/v1/datasets/1/versions", {"examples": [{"example_id": "e", "input": {"ask": 1}, "expected": 2}]}, 200),
        ("get", "/v1/datasets/1/versions/{version_id}", None, 200),
        ("post", "/v1/experiments", {"dataset_id": 1, "dataset_version": "{version_id}", "name": "first"}, 200),
        ("post", "/v1/experiments", {"dataset_id": 1, "dataset_version": "{version_id}"}, 200),
        ("get", "/v1/experiments", None, 200),
        ("get", "/v1/experiments/1", None, 200),
        ("post", "/v1/experiments/1/runs", {"example_id": "e", "trace_id": trace}, 200),
        ("get", "/v1/experiments/1/runs", None, 200),
        ("post", "/v1/annotations", {"experiment_id": 1, "example_id": "e", "name": "score", "value": 0.5}, 200),
        ("get", "/v1/experiments/1/scores", None, 200),
        ("get", "/v1/experiments/1/summary", None, 200),
        ("get", "/v1/experiments/diff?base=1&candidate=2", None, 200),
        ("post", "/v1/datasets/1/versions/{version_id}/tombstone", {"reason": "old"}, 200),
        ("get", "/v1/datasets/1/versions/{version_id}", None, 410),
        ("post", "/v1/experiments", {"dataset_id": 1, "dataset_version": "{version_id}"}, 409),
        ("post", "/v1/flush", None, 200),
        ("post", "/v1/checkpoint", None, 200),
        ("get", "/v1/verify", None, 200),
        ("post", "/v1/backups/monday", None, 201),
        ("post", "/v1/backups/monday", None, 409),
        ("post", "/v1/backups/monday/release", None, 200),
        ("post", "/v1/erasures", {"subject": {"kind": "trace", "trace_id": trace}}, 200),
        ("post", "/v1/erasures", {"subject": {"kind": "everything"}}, 400),
        ("get", "/v1/erasures", None, 200),
        ("get", "/v1/erasures/1", None, 200),
        ("get", "/v1/erasures/1/verify", None, 200),
        ("get", "/v1/erasures/9", None, 404),
    ]


def described(document, path):
    """The pattern that a path fits; parts that are said win over places."""
    parts = path.split("?")[0].split("/")
    fitting = []
    for pattern in document["paths"]:
        wanted = pattern.split("/")
        rest = wanted[-1] == "{reference}"
        if len(wanted) != len(parts) and not (rest and len(parts) > len(wanted)):
            continue
        if all(part == other or part.startswith("{") for part, other in zip(wanted, parts)):
            fitting.append((sum(part.startswith("{") for part in wanted), pattern))
    return min(fitting)[1]


def test_what_a_filled_server_answers_fits_its_description(server):
    spans = sent.make(2)
    exporter = OTLPSpanExporter(endpoint=server.url + "/v1/traces")
    assert exporter.export(spans) is SpanExportResult.SUCCESS
    call = {
        **{"trace_id": "llm", "span_id": "a", "name": "chat", "service": "bot", "start_time_ns": 1, "end_time_ns": 9},
        "attributes": {"session.id": "talk", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 3},
    }
    document = server.get("/v1/openapi.json")
    known, answered = {}, set()
    requests = [("post", "/v1/spans", {"spans": [call]}, 200), *flow(spans)]
    for method, path, body, wanted in requests:
        for name, value in known.items():
            path = path.replace("{" + name + "}", value)
            body = json.loads(json.dumps(body).replace("{" + name + "}", value))
        data = None if body is None else json.dumps(body).encode()
        status, answer = server.request(method.upper(), path, data)
        assert status == wanted, (method, path, status, answer)
        answer = json.loads(answer)
        pattern = described(document, path)
        operation = document["paths"][pattern][method]
        schema = operation["responses"][str(status)]["content"]["application/json"]["schema"]
        for value, shape in ((answer, schema), (body, body_schema(operation) if status < 400 else None)):
            if shape is None or value is None:
                continue
            whole = {**shape, "components": document["components"]}
            faults = [str(fault) for fault in jsonschema_rs.Draft202012Validator(whole).iter_errors(value)]
            assert not faults, (method, path, faults)
        undescribed = set(answer) - members(document, schema)
        assert not undescribed, (method, path, undescribed)
        known.update((name, value) for name, value in answer.items() if isinstance(value, str))
        if status < 300:
            answered.add((method, pattern))
    every = {(method, pattern) for pattern, methods in document["paths"].items() for method in methods}
    # Not JSON, or tested elsewhere.
    others = {"/v1/openapi.json", "/v1/metrics", "/v1/traces", "/v1/export", ENDLESS, "/v1/payloads/{reference}"}
    assert {(method, pattern) for method, pattern in every - answered if pattern not in others} == set()


def body_schema(operation):
    return operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")


def members(document, schema):
    """The names that a shape knows."""
    name = schema["$ref"].rsplit("/", 1)[1]
    return set(document["components"]["schemas"][name]["properties"])
