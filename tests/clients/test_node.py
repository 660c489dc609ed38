"""The HTTP exporter of the OpenTelemetry SDK for JavaScript, which sends JSON: what it sends is found again."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = ROOT / ".tools" / "clients-node" / "node_modules"
SCRIPT = ROOT / "tests" / "clients" / "node" / "send.js"


@pytest.mark.skipif(not (shutil.which("node") and shutil.which("npm")), reason="node or npm is not installed")
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_every_span_is_found_again_field_by_field(server, compression):
    done = subprocess.run(
        ["node", SCRIPT, server.url, compression],
        env={**os.environ, "NODE_PATH": str(MODULES)},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    sent = json.loads(done.stdout)
    found = server.spans()
    assert len(found) == len(sent) == 2
    for span in sent:
        # JavaScript has no integers of that size, so they came as texts.
        for part in (span, *span["events"]):
            for name in part.keys() & {"start_time_ns", "end_time_ns", "timestamp_ns"}:
                part[name] = int(part[name])
        if not span["links"]:
            del span["links"]
        identity = span["trace_id"], span["span_id"]
        assert found[identity] == span
        assert server.trace(identity[0])[identity[1]] == span
