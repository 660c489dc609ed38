"""A run in a real environment is repeated from its inputs, and one changed input is found where it is."""

import importlib.util
import subprocess
import sys

import pytest
from conftest import ROOT

from omniloop import SegmentedPlayer, find_divergence, verify_chain

STEPS = 300
#: No episode ends so early, whatever the policy does.
CHANGED = 5


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("cartpole", ROOT / "examples" / "cartpole.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_run_that_is_given_the_inputs_of_another_does_the_same_bit_for_bit(example, tmp_path):
    first, again = tmp_path / "first.omni", tmp_path / "again.omni"
    episodes = example.balance(first, example.live, STEPS)
    assert example.balance(again, example.recorded(first), STEPS) == episodes
    assert find_divergence(first, again) is None
    kinds = [record.json().get("channel") for record in SegmentedPlayer(first) if record.kind == "input"]
    assert (kinds.count("action"), kinds.count("seed:episode")) == (STEPS, episodes)
    assert verify_chain(again)["ok"]


def test_one_changed_action_is_found_at_its_tick_and_what_came_of_it_one_later(example, tmp_path):
    first, other = tmp_path / "first.omni", tmp_path / "other.omni"
    example.balance(first, example.live, CHANGED * 2)
    replayed = example.recorded(first)

    def changed(channel, tick, decide):
        value = replayed(channel, tick, decide)
        return 1 - value if (channel, tick) == ("action", CHANGED) else value

    example.balance(other, changed, CHANGED + 1)
    found = find_divergence(first, other)
    assert (found["tick"], found["subject"], found["field"]) == (CHANGED, "input", "action")
    assert found["a"]["value"] == 1 - found["b"]["value"]
    # The first to feel a push is the speed; it moves position and angle a step later.
    felt = find_divergence(first, other, ignore_inputs=True)
    assert (felt["tick"], felt["subject"], felt["last_equal"]) == (CHANGED + 1, "telemetry", CHANGED)
    assert felt["field"] in ("pole.speed", "pole.turning")


def test_another_seed_is_found_before_the_first_tick(example, tmp_path):
    first, other = tmp_path / "first.omni", tmp_path / "other.omni"
    example.balance(first, example.live, CHANGED)
    replayed = example.recorded(first)

    def changed(channel, tick, decide):
        return replayed(channel, tick, decide) + (channel == "seed:episode")

    example.balance(other, changed, CHANGED)
    found = find_divergence(first, other)
    assert (found["tick"], found["subject"], found["field"]) == (0, "input", "seed:episode")


def test_the_example_runs_as_its_text_says(tmp_path, daybook):
    program = [sys.executable, ROOT / "examples" / "cartpole.py"]
    for arguments in (["first.omni"], ["again.omni", "--replay", "first.omni"]):
        command = [*program, *arguments, "--steps", "50"]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=60)
    assert "no difference" in daybook("diff", tmp_path / "first.omni", tmp_path / "again.omni").lower()
