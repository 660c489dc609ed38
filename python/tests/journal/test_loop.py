"""A loop records its state, parameters, watches and inputs, and how it ended."""

import math
import os
import signal
import subprocess
import sys

import pytest

from omniloop import JournalPlayer, LoopHalted, MisuseError, TrainingLoop, verify_chain


def records(path, *kinds):
    return [(r.kind, r.tick, r.json()) for r in JournalPlayer(path) if not kinds or r.kind in kinds]


def test_a_loop_is_start_ticks_and_stop(run):
    with TrainingLoop(run, study="s", trial=3) as loop:
        assert [loop.tick(loss=1 / n) for n in (1, 2, 4)] == [1, 2, 3]
    found = records(run)
    assert [(kind, tick) for kind, tick, _ in found] == [
        ("lifecycle", 0),
        ("telemetry", 1),
        ("telemetry", 2),
        ("telemetry", 3),
        ("lifecycle", 3),
    ]
    start = found[0][2]
    assert list(start)[:7] == ["event", "argv", "script", "cwd", "host", "pid", "env"]
    assert (start["pid"], start["cwd"], start["study"], start["trial"]) == (os.getpid(), os.getcwd(), "s", 3)
    assert found[-1][2] == {"event": "stop", "exit": {"code": 0}}
    assert verify_chain(run)["ok"]


def test_only_named_variables_of_the_environment_are_recorded(run, monkeypatch):
    monkeypatch.setenv("SECRET", "s")
    monkeypatch.setenv("WANTED", "w")
    with TrainingLoop(run, environment=["WANTED", "ABSENT"], schema={"type": "object"}):
        pass
    start = records(run)[0][2]
    assert start["env"] == {"WANTED": "w"}
    assert start["schema"] == {"type": "object"}


def test_a_parameter_within_its_bounds_is_one_mutation(run):
    with TrainingLoop(run, principal="me") as loop:
        assert loop.param("rate", 0.1, min=0.0, max=1.0) == 0.1
        assert loop.set("rate", 0.2, source="operator", correlation_id="c1", principal="you") == 0.2
        assert loop["rate"] == 0.2
        assert loop.params == {"rate": 0.2}
        with pytest.raises(MisuseError):
            loop.set("unknown", 1)
    first, second = records(run, "mutation", "guardrail")
    assert list(first[2]) == ["name", "old", "new", "source", "correlation_id", "principal"]
    assert first[2]["old"] is None
    assert second[2] == {
        "name": "rate",
        "old": 0.1,
        "new": 0.2,
        "source": "operator",
        "correlation_id": "c1",
        "principal": "you",
    }


@pytest.mark.parametrize(
    ("requested", "applied"), [(5, 1.0), (-5, 0.0), (math.inf, 1.0), (-math.inf, 0.0), (math.nan, 0.0)]
)
def test_a_value_out_of_bounds_is_brought_back_and_that_is_recorded(run, requested, applied):
    with TrainingLoop(run) as loop:
        loop.param("rate", 0.5, min=0.0, max=1.0)
        assert loop.set("rate", requested, principal="someone") == applied
    (_, _, _), (kind, _, guardrail), (_, _, mutation) = records(run, "mutation", "guardrail")
    assert kind == "guardrail"
    assert list(guardrail) == ["name", "requested", "applied", "min", "max", "cause", "principal"]
    spelled = {math.inf: "Infinity", -math.inf: "-Infinity"}.get(requested, requested)
    assert guardrail["requested"] == ("NaN" if requested != requested else spelled)
    assert guardrail["applied"] == mutation["new"] == applied
    assert (guardrail["min"], guardrail["max"], guardrail["principal"]) == (0.0, 1.0, "someone")


def test_bounds_the_wrong_way_round_are_refused(run):
    with TrainingLoop(run) as loop, pytest.raises(MisuseError):
        loop.param("rate", 0.5, min=1.0, max=0.0)


def test_a_watch_that_trips_halts_the_loop_until_it_is_resumed(run):
    with TrainingLoop(run) as loop:
        loop.watch("loss", math.isnan)
        loop.tick(loss=1.0, other=math.nan)
        with pytest.raises(LoopHalted) as caught:
            loop.tick(loss=math.nan)
        assert (caught.value.name, caught.value.tick) == ("loss", 2)
        assert "loss" in loop.halted
        with pytest.raises(LoopHalted):
            loop.tick(loss=1.0)
        loop.resume("looked at it")
        assert loop.tick(loss=2.0) == 3
        with pytest.raises(MisuseError):
            loop.resume()
    commands = [(tick, r["command"]) for _, tick, r in records(run, "control")]
    assert commands == [(2, "watch_trip"), (2, "halt"), (2, "resume")]
    assert records(run, "control")[0][2]["value"] == "NaN"


def test_a_watch_that_only_records_lets_the_loop_go_on(run):
    with TrainingLoop(run) as loop:
        loop.watch("loss", lambda loss: loss > 10, policy="record")
        for loss in (1, 100, 1):
            loop.tick(loss=loss)
        with pytest.raises(MisuseError):
            loop.watch("loss", bool, policy="explode")
    assert [(tick, r["command"]) for _, tick, r in records(run, "control")] == [(2, "watch_trip")]


def test_inputs_and_seeds_are_recorded_and_answered(run):
    with TrainingLoop(run) as loop:
        assert loop.input("joystick", [1, 2], correlation_id="c") == [1, 2]
        assert loop.seed("numpy", 7) == 7
        drawn = loop.seed()
        loop.hash("00ff", of="weights")
        loop.checkpoint(path="model.pt")
    found = [r for _, _, r in records(run, "input", "hash", "control")]
    assert found == [
        {"channel": "joystick", "value": [1, 2], "correlation_id": "c"},
        {"channel": "seed:numpy", "value": 7},
        {"channel": "seed:default", "value": drawn},
        {"algorithm": "sha256", "hash": "00ff", "of": "weights"},
        {"command": "checkpoint", "path": "model.pt"},
    ]


def test_an_exception_is_recorded_and_the_journal_sealed(run):
    with pytest.raises(ZeroDivisionError), TrainingLoop(run) as loop:
        loop.tick(loss=1.0)
        _ = 1 / 0
    assert records(run)[-1][2]["exit"] == {"error": "ZeroDivisionError: division by zero"}
    assert JournalPlayer(run).is_finalized()
    assert loop.close() == loop.close()


def test_state_of_numpy_is_recorded_as_numbers(run):
    numpy = pytest.importorskip("numpy")
    with TrainingLoop(run) as loop:
        loop.tick(loss=numpy.float32(0.5), weights=numpy.arange(3), nan=numpy.float64("nan"), s={2, 1})
    assert records(run, "telemetry")[0][2] == {"loss": 0.5, "weights": [0, 1, 2], "nan": "NaN", "s": [1, 2]}


def test_a_killed_loop_leaves_everything_that_was_flushed(run):
    script = (
        "import sys, time\nfrom omniloop import *\n"
        f"loop = TrainingLoop({str(run)!r}, durability=Durability.each_record())\n"
        "for n in range(100): loop.tick(n=n)\n"
        "while loop._recorder.written < 101: time.sleep(0.01)\n"
        "print('ready', flush=True)\ntime.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGKILL)
    player = JournalPlayer(run)
    assert [r.json()["n"] for r in player if r.kind == "telemetry"] == list(range(100))
    assert not player.is_finalized()
