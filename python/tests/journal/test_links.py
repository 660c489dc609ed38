"""What a loop says of the study, trial, session and trace that it belongs to."""

import re

from omniloop import SegmentedPlayer, TrainingLoop

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def start_of(run):
    return next(iter(SegmentedPlayer(run))).json()


def test_a_loop_takes_study_trial_session_and_trace_from_its_surroundings(run, monkeypatch):
    attributes = "service.name=x, study.id=ff,trial.number=4,run.id=outer,session.id=a%20b"
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", attributes)
    monkeypatch.setenv("TRACEPARENT", f"00-{TRACE}-00f067aa0ba902b7-01")
    with TrainingLoop(run, study={"name": "s"}) as loop:
        loop.tick(x=1)
        loop.tick(x=2)
        spans = loop.span_attributes()
        assert loop.trace_id == TRACE
    assert re.fullmatch("[0-9a-f]{32}", loop.run_id)
    named = {"run.id": loop.run_id, "study.id": "ff", "trial.number": 4, "session.id": "a b"}
    assert spans == {**named, "run.tick": 2}
    start = start_of(run)
    assert start["run"] == {"id": loop.run_id}
    assert start["study"] == {"id": "ff", "name": "s"}
    assert (start["trial"], start["session"]) == ({"number": 4}, {"id": "a b"})


def test_what_a_loop_is_told_counts_more_and_what_is_not_well_formed_says_nothing(run, monkeypatch):
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "study.id=ff,trial.number=x,,=,session.id=")
    monkeypatch.setenv("TRACEPARENT", f"00-{'0' * 32}-00f067aa0ba902b7-01")
    with TrainingLoop(run, study={"id": "own"}, trial=3) as loop:
        assert loop.trace_id is None
        assert loop.span_attributes() == {"run.id": loop.run_id, "study.id": "own", "run.tick": 0}
    start = start_of(run)
    assert (start["study"], start["trial"]) == ({"id": "own"}, 3)
    assert "session" not in start


def test_no_two_loops_have_one_name(tmp_path, monkeypatch):
    monkeypatch.delenv("OTEL_RESOURCE_ATTRIBUTES", raising=False)
    loops = [TrainingLoop(tmp_path / name) for name in ("a.omni", "b.omni")]
    for loop in loops:
        loop.close()
    assert loops[0].run_id != loops[1].run_id
