"""Questions about runs get the answers that the records tell, and a replayed loop does the same."""

import pytest

from omniloop import (
    CrcError,
    InputReplayer,
    MisuseError,
    RotationPolicy,
    StateJournal,
    TrainingLoop,
    cause_of,
    effects_of,
    find_divergence,
    journal_segments,
)


def told(path):
    """A run in which somebody slows down."""
    with StateJournal(path, rotation=RotationPolicy(max_records=3)) as journal:
        journal.append("telemetry", {"lr": 0.1})
        asked = {"channel": "ui", "value": "slower", "correlation_id": "c-1", "principal": "ana"}
        journal.append("input", asked)
        changed = {"name": "lr", "old": 0.1, "new": 0.05, "source": "ui", "correlation_id": "c-1"}
        journal.append("mutation", changed)
        journal.append("telemetry", {"lr": 0.05})
    assert len(journal_segments(path)) > 1


def test_causes_come_newest_first_from_the_whole_set(run):
    told(run)
    causes = cause_of(run, "lr")
    assert [(cause["role"], cause["kind"]) for cause in causes] == [
        ("set", "mutation"),
        ("related", "input"),
        ("principal", "input"),
    ]
    assert (causes[0]["old"], causes[0]["new"], causes[2]["principal"]) == (0.1, 0.05, "ana")
    assert cause_of(run, "lr", 0) == []
    assert cause_of(run, "loss") == []


def test_effects_tell_when_a_change_showed(run):
    told(run)
    found = effects_of(run, "c-1")
    assert len(found["records"]) == 2
    assert found["effects"][0]["seen"]["tick"] == 2
    assert effects_of(run, "c-2")["records"] == []


def loop(path, value_of):
    """A deterministic loop: a seed, then a command at each tick."""
    with TrainingLoop(path) as recorded:
        state = recorded.seed("rng", value_of("seed:rng", 0))
        for tick in range(1, 31):
            state = (state * 6364136223846793005 + 1) % 2**63
            recorded.tick(state=state)
            state ^= recorded.input("command", value_of("command", tick))


@pytest.mark.parametrize("changed", [None, 17])
def test_a_replayed_loop_parts_from_the_recorded_one_only_where_an_input_was_changed(tmp_path, changed):
    first, again = tmp_path / "first.omni", tmp_path / "again.omni"
    loop(first, lambda channel, tick: 42 if channel == "seed:rng" else tick * 3)
    inputs = InputReplayer(first)

    def replayed(channel, tick):
        return inputs.next_input(channel, tick) + (tick == changed)

    loop(again, replayed)
    assert inputs.unused == 0
    found = find_divergence(first, again)
    if changed is None:
        assert found is None
    else:
        assert (found["tick"], found["subject"], found["field"]) == (17, "input", "command")
        assert (found["a"]["value"], found["b"]["value"], found["last_equal"]) == (51, 52, 16)
        assert find_divergence(first, again, ignore=["state"], ignore_inputs=True) is None


def test_an_input_that_was_not_recorded_is_an_error_that_says_what_was(run):
    loop(run, lambda channel, tick: 1)
    inputs = InputReplayer(run)
    assert inputs.seed("rng") == 1
    with pytest.raises(MisuseError, match='1 of "command"'):
        inputs.next_input("camera", 1)
    assert InputReplayer(run, strict=False).next_input("camera", 1) is None
    assert [given["channel"] for given in InputReplayer(run)] == ["seed:rng"] + ["command"] * 30


def test_damage_is_an_error_and_no_shorter_answer(run):
    told(run)
    content = bytearray(run.read_bytes())
    content[32 + 36 + 3] ^= 1
    run.write_bytes(content)
    for question in (cause_of, effects_of, find_divergence):
        with pytest.raises(CrcError):
            question(run, run if question is find_divergence else "lr")
