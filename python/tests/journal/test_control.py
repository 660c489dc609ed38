"""A loop is attended over its socket: by threads here, by `daybook ctl`, and by clients that are killed."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading

import pytest

from omniloop import JournalIOError, JournalPlayer, LoopHalted, MisuseError, TrainingLoop, cause_of


def records(path, *kinds):
    return [(r.kind, r.tick, r.json()) for r in JournalPlayer(path) if r.kind in kinds]


class Client:
    """Line by line, as the format page says."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(30)
        self.socket.connect(str(path))
        self.answers = self.socket.makefile("rb")

    def ask(self, command, **members):
        self.socket.sendall(json.dumps({"command": command, **members}).encode() + b"\n")
        return json.loads(self.answers.readline())

    def until(self, is_so):
        while not is_so(status := self.ask("status")):
            pass
        return status

    def close(self):
        self.answers.close()
        self.socket.close()


class Running:
    """A loop in a thread of its own, which ends when it is told to."""

    def __init__(self, loop):
        self.loop = loop
        self.stop = threading.Event()
        self.error = None
        self.values = []
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        rate = self.loop.param("rate", 0.5, min=0.0, max=1.0)
        try:
            while not self.stop.is_set():
                self.loop.tick(rate=rate)
                rate = self.loop["rate"]
                # Other threads get their turn, and the journal of a quick machine stays small.
                self.stop.wait(0.001)
        except LoopHalted as error:
            self.error = error

    def end(self):
        self.stop.set()
        self.thread.join(30)
        assert not self.thread.is_alive()


@pytest.fixture
def sock(tmp_path):
    return tmp_path / "run.sock"


def test_a_halted_loop_waits_in_its_tick_and_goes_on_for_the_steps_that_it_is_given(run, sock):
    with TrainingLoop(run, control=sock) as loop:
        running, client = Running(loop), Client(sock)
        assert stat.S_IMODE(sock.stat().st_mode) == 0o600
        halted = client.ask("halt", reason="a look", correlation_id="c-1")
        assert (halted["ok"], halted["state"]) == (True, "halted")
        assert loop.halted == "a look"
        at = client.ask("status")["tick"]
        assert client.ask("step", count=3)["until_tick"] == at + 3
        assert client.until(lambda s: s["state"] == "halted")["tick"] == at + 3 == loop.current_tick
        # Other threads are not held up by a loop that waits, and can let it go on.
        loop.input("note", "still here")
        loop.resume("from within")
        client.until(lambda s: s["tick"] > at + 10)
        running.end()
    assert not sock.exists()
    found = records(run, "input", "control")
    assert [(kind, tick) for kind, tick, _ in found] == [
        ("input", at),
        ("control", at),
        ("input", at),
        ("control", at),
        ("input", at + 3),
        ("control", at + 3),
    ]
    assert found[0][2]["value"] == {"command": "halt", "reason": "a look"}
    assert found[1][2]["principal"] == f"uid:{os.geteuid()}"
    assert found[5][2] == {"command": "resume", "reason": "from within"}


def test_a_change_is_brought_within_its_limits_and_shows_in_the_next_tick(run, sock):
    with TrainingLoop(run, control=sock) as loop:
        running, client = Running(loop), Client(sock)
        client.until(lambda s: s["tick"] > 0)
        answer = client.ask("set", name="rate", value=9)
        assert (answer["applied"], answer["limited"]) == (1, True)
        assert client.ask("set", name="speed", value=9)["error"] == "unknown_name"
        assert client.ask("set", name="rate", value="fast")["error"] == "bad_value"
        # What the loop sets itself is what a client finds.
        loop.set("rate", 0.25)
        assert client.ask("status")["params"] == {"rate": {"value": 0.25, "min": 0.0, "max": 1.0}}
        running.end()
    (_, tick, guardrail), *_ = records(run, "guardrail")
    assert (guardrail["requested"], guardrail["applied"]) == (9, 1)
    telemetry = {tick: r["rate"] for _, tick, r in records(run, "telemetry")}
    assert (telemetry[tick], telemetry[tick + 1]) == (0.5, 1)
    kinds = [cause["kind"] for cause in cause_of(run, "rate", tick + 1)]
    assert kinds[0] == "mutation" and {"guardrail", "input"} <= set(kinds)


def test_a_watch_halts_a_loop_that_is_attended_instead_of_raising(run, sock):
    with TrainingLoop(run, control=sock) as loop:
        loop.watch("rate", lambda rate: rate == 0.75)
        running, client = Running(loop), Client(sock)
        client.until(lambda s: s["tick"] > 0)
        client.ask("set", name="rate", value=0.75)
        assert client.until(lambda s: s["state"] == "halted")["reason"] == "watch of rate tripped"
        client.ask("set", name="rate", value=0.5)
        client.ask("resume")
        client.ask("watch", name="rate", op="<", than=0.3)
        client.ask("set", name="rate", value=0.125)
        client.until(lambda s: s["state"] == "halted")
        client.ask("unwatch", name="rate")
        client.ask("resume")
        running.end()
        assert running.error is None
    trips = [r for _, _, r in records(run, "control") if r["command"] == "watch_trip"]
    assert [trip["value"] for trip in trips] == [0.75, 0.125]


@pytest.mark.parametrize(
    ("policy", "state"), [("continue", "going"), ("halt", "halted"), ("exit", "leaving")]
)
def test_a_controller_that_is_cut_off_means_what_the_policy_says(run, sock, policy, state):
    with TrainingLoop(run, control=sock, halt_policy=policy) as loop:
        running, client, controller = Running(loop), Client(sock), Client(sock)
        assert controller.ask("attend")["halt_policy"] == policy
        if policy == "continue":
            controller.ask("halt")
        controller.close()
        assert client.until(lambda s: s["controllers"] == 0 and s["state"] == state)
        if policy == "exit":
            running.thread.join(30)
            assert "controller was lost" in str(running.error)
            with pytest.raises(LoopHalted):
                loop.tick(rate=0)
        elif policy == "halt":
            client.ask("resume")
        running.end()
    lost = [r for _, _, r in records(run, "control") if r["command"] == "controller_lost"]
    assert [r["policy"] for r in lost] == [policy]


def test_the_program_attends_a_loop(run, sock, daybook):
    with TrainingLoop(run, control=sock) as loop:
        running = Running(loop)
        daybook("ctl", sock, "halt")
        status = json.loads(daybook("ctl", sock, "status", "--json"))
        assert (status["state"], status["run"]) == ("halted", str(run))
        assert daybook("ctl", sock, "set", "rate", "0.25").startswith("rate 0.5 → 0.25 at tick ")
        daybook("ctl", sock, "resume")
        running.end()
    daybook("ctl", sock, "status", code=2)


def test_ctrl_c_ends_a_halted_loop_and_the_journal_is_sealed(run, sock):
    script = (
        "from omniloop import TrainingLoop\n"
        f"with TrainingLoop({str(run)!r}, control={str(sock)!r}) as loop:\n"
        "    print('ready', flush=True)\n"
        "    while True: loop.tick(n=1)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"ready\n"
        assert Client(sock).ask("halt")["state"] == "halted"
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=30)
    assert b"KeyboardInterrupt" in told
    assert JournalPlayer(run).is_finalized()
    assert records(run, "lifecycle")[-1][2]["exit"]["error"].startswith("KeyboardInterrupt")
    assert not sock.exists()


def test_what_is_killed_leaves_a_socket_that_the_next_loop_replaces(run, sock, tmp_path):
    script = (
        "from omniloop import TrainingLoop\n"
        f"loop = TrainingLoop({str(run)!r}, control={str(sock)!r})\n"
        "print('ready', flush=True)\n"
        "input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"ready\n"
        with pytest.raises(JournalIOError, match="in use"):
            TrainingLoop(tmp_path / "b.omni", control=sock)
        process.kill()
    assert sock.exists()
    assert not (tmp_path / "b.omni").exists()
    with TrainingLoop(tmp_path / "b.omni", control=sock) as loop:
        loop.tick(n=1)
    assert not sock.exists()


def test_a_place_that_cannot_be_had_is_an_error_and_begins_nothing(run, sock, tmp_path):
    (tmp_path / "file").write_text("precious")
    for place in ("file", "no/folder", "s" * 200):
        with pytest.raises(JournalIOError):
            TrainingLoop(run, control=tmp_path / place)
    with pytest.raises(MisuseError):
        TrainingLoop(run, control=sock, halt_policy="explode")
    assert not run.exists()
    run.write_text("in the way")
    with pytest.raises(JournalIOError):
        TrainingLoop(run, control=sock)
    assert not sock.exists()
    assert (tmp_path / "file").read_text() == "precious"
