"""Trials that send spans through the OpenTelemetry SDK: `daybook trail` finds them from the trial, and back."""

import json
import os
import subprocess
import sys
from pathlib import Path

from server import PROGRAMS

EXAMPLE = Path(__file__).parents[2] / "examples" / "traced_train.py"


def daybook(folder, *arguments, env=None, code=0):
    done = subprocess.run(
        [PROGRAMS / "daybook", *map(str, arguments)],
        cwd=folder,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, (arguments, done.stdout, done.stderr)
    return done.stdout


def tune(folder, server, *, trials):
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": server.url, "OTEL_RESOURCE_ATTRIBUTES": "deployment=test,session.id=s%201"}
    space = ["--minimize", "loss", "--param", "lr=float(1e-3,1e-1,log)", "--scheduler", "none"]
    command = ["--", sys.executable, EXAMPLE, "{lr}"]
    daybook(folder, "tune", "study.atj", *space, "--trials", trials, "--workers", 2, "-q", *command, env=env)


def test_a_trial_its_run_and_its_spans_are_found_from_each_other(server, tmp_path):
    tune(tmp_path, server, trials=3)
    shown = json.loads(daybook(tmp_path, "study", "trials", "study.atj", "--json"))
    for trial in shown["trials"]:
        attrs = trial["user_attrs"]
        number, trace = trial["number"], attrs["run.trace_id"]
        spans = server.trace(trace).values()
        assert sorted(span["name"] for span in spans) == ["epoch"] * 3 + ["train"]
        for subject in (f"study.atj#{number}", attrs["run.path"], trace, attrs["run.id"]):
            trail = json.loads(daybook(tmp_path, "trail", subject, "study.atj", "runs", server.url, "--json"))
            assert trail["outcome"] == "intact", trail
            # All trials are of one session, and so are their traces.
            nodes = {(node["kind"], node["name"]) for node in trail["nodes"] if node["via"] != "session.id"}
            assert nodes == {
                ("trial", f"study.atj#{number}"),
                ("run", attrs["run.path"]),
                ("trace", trace),
            }, subject
            ticks = next(node["facts"]["run.tick"] for node in trail["nodes"] if node["name"] == trace)
            assert ticks == {attrs["run.id"]: 3}


def test_spans_are_found_by_study_and_trial_as_by_any_attribute(server, tmp_path):
    tune(tmp_path, server, trials=2)
    spans = list(server.spans().values())
    assert len(spans) == 8
    studies = {span["attributes"]["study.id"] for span in spans}
    assert len(studies) == 1
    found = server.get("/v1/spans", **{"attr.study.id": studies.pop(), "attr.trial.number": 1})["spans"]
    assert len(found) == 4
    assert {span["attributes"]["session.id"] for span in found} == {"s 1"}
    assert all("deployment" not in span["attributes"] for span in found)


def test_a_run_that_was_exchanged_is_told_from_the_one_that_the_spans_are_of(server, tmp_path):
    tune(tmp_path, server, trials=2)
    runs = tmp_path / "runs"
    (runs / "trial-0.omni").write_bytes((runs / "trial-1.omni").read_bytes())
    trail = json.loads(daybook(tmp_path, "trail", "study.atj#0", server.url, "--json", code=1))
    codes = {finding["code"] for node in trail["nodes"] for finding in node["findings"]}
    assert {"head_mismatch", "other_trial"} <= codes
