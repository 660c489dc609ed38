"""A trial of Python keeps its run, and `daybook trail` finds each from the other."""

import json
import re

import pytest

import atune
import omniloop
from omniloop import RotationPolicy, TrainingLoop

atune.set_verbosity(30)


def trained(trial, run, **options):
    """A short training that is recorded as the trial's."""
    with TrainingLoop(run, **options, **trial.run_context()) as loop:
        rate = trial.suggest_float("rate", 0.1, 1.0)
        for step in range(3):
            loop.tick(loss=rate / (1 + step))
    return rate


def study_with_runs(folder, count):
    study = atune.create_study(folder / "study.atj", seed=3, scheduler="none")
    for _ in range(count):
        trial = study.ask()
        run = folder / f"run-{trial.number}.omni"
        rate = trained(trial, run)
        trial.keep_run(run)
        study.tell(trial, rate)
    return study


def trail(daybook, *subject, code=0):
    return json.loads(daybook("trail", *subject, "--json", code=code))


def codes(document):
    return {finding["code"] for node in document["nodes"] for finding in node["findings"]}


def test_the_name_of_a_study_is_the_one_that_its_runs_have(tmp_path, daybook):
    study = study_with_runs(tmp_path, 1)
    assert re.fullmatch("[0-9a-f]{32}", study.id)
    assert atune.load_study(tmp_path / "study.atj").id == study.id
    assert atune.create_study(tmp_path / "other.atj").id != study.id
    assert atune.create_study().id is None
    # As the program derives it.
    [trial, *_] = trail(daybook, f"{tmp_path / 'study.atj'}#0")["nodes"]
    assert trial["facts"]["study.id"] == study.id


def test_the_trail_goes_from_a_trial_of_python_to_its_run_and_back(tmp_path, daybook):
    study_with_runs(tmp_path, 2)
    for subject in (f"{tmp_path / 'study.atj'}#1", tmp_path / "run-1.omni"):
        document = trail(daybook, subject)
        assert document["outcome"] == "intact", document
        assert sorted(node["kind"] for node in document["nodes"]) == ["run", "trial"]
        run = next(node for node in document["nodes"] if node["kind"] == "run")
        assert run["name"].endswith("run-1.omni")
        proved = " ".join(run["proved"])
        assert "its chain ends with the head" in proved and "it says that it is" in proved


def test_the_trail_holds_after_study_and_runs_were_moved_together(tmp_path, daybook):
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    study = study_with_runs(before, 1)
    assert study.trials[0].user_attrs["run.path"] == "run-0.omni"
    del study
    before.rename(after)
    assert trail(daybook, f"{after / 'study.atj'}#0")["outcome"] == "intact"


def test_a_run_of_several_files_is_kept_by_its_last_head(tmp_path, daybook):
    study = atune.create_study(tmp_path / "study.atj", scheduler="none")
    trial = study.ask()
    trained(trial, tmp_path / "run.omni", rotation=RotationPolicy(max_records=2))
    assert len(omniloop.journal_segments(tmp_path / "run.omni")) > 1
    trial.keep_run(tmp_path / "run.omni")
    study.tell(trial, 1.0)
    assert trail(daybook, f"{tmp_path / 'study.atj'}#0")["outcome"] == "intact"


def test_a_run_that_was_exchanged_is_found_out(tmp_path, daybook):
    study = atune.create_study(tmp_path / "study.atj", scheduler="none")
    trial = study.ask()
    rate = trained(trial, tmp_path / "run.omni")
    trial.keep_run(tmp_path / "run.omni")
    with TrainingLoop(tmp_path / "run.omni", overwrite=True, **trial.run_context()) as loop:
        loop.tick(loss=0.0)
    study.tell(trial, rate)
    assert "head_mismatch" in codes(trail(daybook, f"{tmp_path / 'study.atj'}#0", code=1))


def test_a_run_that_is_not_sealed_is_kept_without_a_head_and_with_one_later(tmp_path, daybook):
    study = atune.create_study(tmp_path / "study.atj", scheduler="none")
    trial = study.ask()
    run = tmp_path / "run.omni"
    loop = TrainingLoop(run, **trial.run_context())
    for step in range(200):
        loop.tick(loss=1.0 / (1 + step))
    head = loop.close()["head"]
    whole = run.read_bytes()
    # As a killed process leaves it.
    run.write_bytes(whole[: len(whole) // 2])
    trial.keep_run(run)
    assert trial.user_attrs["run.head"] is None
    assert trial.user_attrs["run.id"] == loop.run_id
    run.write_bytes(whole)
    trial.keep_run(run)
    assert trial.user_attrs["run.head"] == head
    study.tell(trial, 1.0)
    assert study.trials[0].user_attrs["run.head"] == head


def test_a_run_that_is_damaged_or_anothers_or_not_there_is_not_kept(tmp_path):
    study = study_with_runs(tmp_path, 1)
    trial = study.ask()
    with pytest.raises(atune.errors.MisuseError, match="says that it is of trial 0"):
        trial.keep_run(tmp_path / "run-0.omni")
    with pytest.raises(FileNotFoundError):
        trial.keep_run(tmp_path / "none.omni")
    run = tmp_path / "run-1.omni"
    rate = trained(trial, run)
    sound = run.read_bytes()
    place = len(sound) // 2
    run.write_bytes(sound[:place] + bytes([sound[place] ^ 1]) + sound[place + 1 :])
    with pytest.raises(omniloop.CorruptError) as caught:
        trial.keep_run(run)
    assert caught.value.path == str(run)
    assert trial.user_attrs == {}
    run.write_bytes(sound)
    study.tell(trial, rate)
    with pytest.raises(atune.errors.EndedError):
        trial.keep_run(run)


def test_spans_and_start_records_of_a_trial_carry_the_agreed_names(tmp_path):
    study = atune.create_study(tmp_path / "study.atj", study_name="s")
    study.ask()
    trial = study.ask()
    assert trial.span_attributes() == {"study.id": study.id, "trial.number": 1}
    trial.suggest_float("x", 0, 1)
    context = trial.run_context()
    assert context["study"] == {"id": study.id, "name": "s", "path": str(tmp_path / "study.atj")}
    assert context["trial"]["number"] == 1
    assert context["trial"]["params"] == trial.params
    with TrainingLoop(tmp_path / "run.omni", **context) as loop:
        loop.tick()
        named = {**trial.span_attributes(), "run.id": loop.run_id, "run.tick": 1}
        assert loop.span_attributes().items() >= named.items()
    in_memory = atune.create_study().ask()
    assert in_memory.span_attributes() == {"trial.number": 0}
    assert in_memory.run_context()["study"] == {"name": "study"}


def test_importances_know_parameters_that_only_some_trials_have(tmp_path):
    study = atune.create_study(tmp_path / "study.atj", seed=1, sampler="random", scheduler="none")

    def objective(trial):
        trial.suggest_float("unused", 0, 1)
        if trial.suggest_bool("on"):
            return 3 * trial.suggest_float("x", 0, 1)
        trial.suggest_float("idle", 0, 1)
        return 0

    study.optimize(objective, n_trials=200)
    # Of a variance of 0.9375 the switch explains 0.5625, and the number 0.75 in half of the trials.
    expected = {"on": 0.6, "x": 0.4, "unused": 0.0, "idle": 0.0}
    for method in ("fanova", "variance"):
        found = study.importances(method=method)
        assert list(found)[:2] == ["on", "x"]
        assert found == pytest.approx(expected, abs=0.1)
        assert sum(found.values()) == pytest.approx(1)
    with pytest.raises(atune.errors.MisuseError, match="objective 1"):
        study.importances(1)
    with pytest.raises(atune.errors.MisuseError, match="no method"):
        study.importances(method="guess")
