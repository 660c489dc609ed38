"""A study is asked, told and optimised, alone and by several processes."""

import logging
import math
import multiprocessing
import os
import subprocess
import sys
import threading
import time

import pytest

import atune
from atune import Sampler, Scheduler, TrialState, create_study, load_study

atune.set_verbosity(logging.WARNING)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "study.atj"


def objective(trial):
    x = trial.suggest_float("x", -5, 5)
    rate = trial.suggest_float("rate", 1e-4, 1, log=True)
    count = trial.suggest_int("count", 1, 10, step=3)
    kind = trial.suggest_categorical("kind", ["a", 1, 1.5, True, None])
    flag = trial.suggest_bool("flag")
    assert 1e-4 <= rate <= 1
    assert count in (1, 4, 7, 10)
    assert kind in ("a", 1, 1.5, True, None)
    assert flag in (True, False)
    return x * x + count


def test_a_study_finds_good_parameters_and_tells_its_best(path):
    study = create_study(path, seed=1)
    study.optimize(objective, n_trials=40)
    trials = study.trials
    assert [trial.number for trial in trials] == list(range(40))
    assert all(trial.state is TrialState.COMPLETE for trial in trials)
    best = study.best_trial
    assert study.best_value == best.value == min(trial.value for trial in trials)
    assert study.best_params == best.params
    assert set(best.params) == {"x", "rate", "count", "kind", "flag"}
    assert best.datetime_start <= best.datetime_complete
    assert best.duration >= 0
    assert study.best_value < 10


def test_a_study_that_was_interrupted_goes_on_as_if_it_had_not(tmp_path):
    whole = create_study(tmp_path / "whole.atj", seed=5, sampler="tpe")
    whole.optimize(objective, n_trials=24)
    parts = tmp_path / "parts.atj"
    create_study(parts, seed=5, sampler="tpe").optimize(objective, n_trials=12)
    load_study(parts).optimize(objective, n_trials=12)
    assert [t.params for t in load_study(parts).trials] == [t.params for t in whole.trials]


def test_asked_trials_are_told(path):
    study = create_study(path, direction="maximize")
    trial = study.ask()
    x = trial.suggest_float("x", 0, 1)
    assert trial.suggest_float("x", 0, 1) == x
    assert trial.params == {"x": x}
    trial.report(0.5, 0)
    trial.report(0.7, 1)
    trial.set_user_attr("note", {"deep": [1, None]})
    trial.set_constraint("small", -1)
    told = study.tell(trial, 2.0)
    assert (told.state, told.value, told.params) == (TrialState.COMPLETE, 2.0, {"x": x})
    assert told.intermediate_values == {0: 0.5, 1: 0.7}
    assert told.last_step == 1
    assert told.user_attrs == {"note": {"deep": [1, None]}}
    assert told.constraints == {"small": -1.0}
    with pytest.raises(atune.Error):
        study.tell(trial, 2.0)
    with pytest.raises(atune.Error):
        trial.report(1, 2)
    assert study.tell(study.ask(), state=TrialState.FAIL).state is TrialState.FAIL
    assert study.tell(study.ask(), state=TrialState.PRUNED).state is TrialState.PRUNED


@pytest.mark.parametrize("answer", [None, math.nan, "text", [1.0, 2.0], [], object(), [None]])
def test_an_answer_that_is_no_value_fails_its_trial_and_the_study_goes_on(path, answer):
    study = create_study(path)
    study.optimize(lambda trial: answer, n_trials=2)
    assert [trial.state for trial in study.trials] == [TrialState.FAIL] * 2
    assert all(trial.error for trial in study.trials)
    with pytest.raises(ValueError):
        _ = study.best_trial


def test_an_infinite_answer_is_a_value(path):
    study = create_study(path)
    study.optimize(lambda trial: math.inf, n_trials=1)
    assert study.trials[0].values == [math.inf]


def test_an_exception_fails_its_trial_and_ends_the_run_unless_it_is_caught(path):
    study = create_study(path)

    def fails(trial):
        trial.suggest_float("x", 0, 1)
        raise ValueError("no such luck")

    with pytest.raises(ValueError, match="no such luck"):
        study.optimize(fails, n_trials=3)
    assert len(study.trials) == 1
    assert study.trials[0].error == "ValueError: no such luck"
    study.optimize(fails, n_trials=3, catch=ValueError)
    assert len(study.trials) == 4
    with pytest.raises(ValueError):
        study.optimize(fails, n_trials=3, catch=(KeyError,))


@pytest.mark.parametrize(
    "ask",
    [
        lambda trial: trial.suggest_float("x", 1, 0),
        lambda trial: trial.suggest_float("x", 0, 1, log=True),
        lambda trial: trial.suggest_float("x", 0, 1, step=0),
        lambda trial: trial.suggest_float("x", 0, math.inf),
        lambda trial: trial.suggest_int("x", 5, 4),
        lambda trial: trial.suggest_int("x", 0, 4, log=True),
        lambda trial: trial.suggest_int("x", 0, 4, step=0),
        lambda trial: trial.suggest_categorical("x", []),
        lambda trial: trial.suggest_categorical("x", [object()]),
        lambda trial: (trial.suggest_float("x", 0, 1), trial.suggest_float("x", 0, 2)),
        lambda trial: trial.report(1.0, -1),
    ],
)
def test_a_question_that_makes_no_sense_is_a_value_error(path, ask):
    study = create_study(path)
    trial = study.ask()
    with pytest.raises(ValueError):
        ask(trial)


def test_many_parameters_and_many_choices_are_taken(path):
    study = create_study(path, sampler="random", durability="process")
    trial = study.ask()
    choices = [f"choice {number}" for number in range(10_000)]
    assert trial.suggest_categorical("c", choices) in choices
    for number in range(500):
        trial.suggest_float(f"x{number}", 0, 1)
    assert len(study.tell(trial, 1.0).params) == 501


def test_pruned_trials_keep_what_they_reported(path):
    study = create_study(path, scheduler=Scheduler("median", startup_trials=2))

    def improves_slowly(trial):
        for step in range(5):
            trial.report(trial.number + step, step)
            if trial.should_prune():
                raise atune.TrialPruned
        return trial.number

    study.optimize(improves_slowly, n_trials=8)
    pruned = study.get_trials([TrialState.PRUNED])
    assert pruned
    assert all(trial.intermediate_values for trial in pruned)


def test_enqueued_trials_come_first_and_once(path):
    study = create_study(path)
    assert study.enqueue_trial({"x": 1.5, "kind": None})
    assert not study.enqueue_trial({"x": 1.5, "kind": None}, skip_if_exists=True)
    study.optimize(objective, n_trials=2)
    first = study.trials[0].params
    assert (first["x"], first["kind"]) == (1.5, None)


def test_several_objectives_have_a_front_and_no_best_trial(path):
    study = create_study(path, directions=["minimize", "maximize"], metric_names=["cost", "gain"])
    study.optimize(lambda t: (t.suggest_float("x", 0, 1), t.suggest_float("y", 0, 1)), n_trials=12)
    front = study.best_trials
    assert front
    for one in front:
        for other in study.trials:
            assert not (other.values[0] < one.values[0] and other.values[1] > one.values[1])
    with pytest.raises(RuntimeError):
        _ = study.best_trial
    assert study.metric_names == ["cost", "gain"]
    assert study.directions == ["minimize", "maximize"]


def test_callbacks_timeouts_and_stop_end_a_run(path):
    study = create_study(path)
    seen = []

    def stop_at_three(study, trial):
        seen.append(trial.number)
        if trial.number == 2:
            study.stop()

    study.optimize(objective, callbacks=[stop_at_three])
    assert seen == [0, 1, 2]
    study.optimize(objective, timeout=0.2)
    assert len(study.trials) > 3


def test_threads_run_at_once_and_no_trial_is_doubled(path):
    study = create_study(path)
    together = threading.Barrier(4, timeout=30)

    def meets(trial):
        if trial.number < 4:
            # Nobody comes through before four trials run.
            together.wait()
        return objective(trial)

    study.optimize(meets, n_trials=20, n_jobs=4)
    assert sorted(trial.number for trial in study.trials) == list(range(20))


def test_another_sampler_or_scheduler_is_refused_by_name(path):
    create_study(path, sampler=Sampler("random")).optimize(objective, n_trials=1)
    assert load_study(path).sampler.kind == "random"
    with pytest.raises(ValueError, match="random"):
        load_study(path, sampler="tpe")
    with pytest.raises(ValueError, match="nonsense"):
        create_study(sampler="nonsense")
    with pytest.raises(ValueError, match="nonsense"):
        create_study(scheduler="nonsense")
    with pytest.raises(ValueError):
        create_study(sampler=Sampler("random", unknown_option=1))


def test_names_tell_studies_apart(path):
    create_study(path, study_name="one")
    with pytest.raises(ValueError, match="one"):
        create_study(path, study_name="one")
    assert create_study(path, study_name="one", load_if_exists=True).study_name == "one"
    create_study(path, study_name="two")
    with pytest.raises(KeyError, match="one, two"):
        load_study(path, "three")
    with pytest.raises(KeyError):
        load_study(path)
    with pytest.raises(FileNotFoundError):
        load_study(path.with_name("nowhere.atj"))


def test_attributes_and_data_frames(path):
    pytest.importorskip("pandas")
    study = create_study(path)
    study.set_user_attr("team", ["a", 1])
    assert load_study(path).user_attrs["team"] == ["a", 1]
    study.optimize(objective, n_trials=3)
    frame = study.trials_dataframe()
    assert list(frame["number"]) == [0, 1, 2]
    assert {"value", "state", "params_x", "duration"} <= set(frame.columns)


def test_a_study_in_memory_needs_no_file():
    study = create_study(seed=3)
    study.optimize(objective, n_trials=5)
    assert len(study.trials) == 5


def test_every_trial_has_one_log_line(path):
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logging.getLogger("atune").addHandler(handler)
    atune.set_verbosity(logging.INFO)
    try:
        create_study(path).optimize(objective, n_trials=3)
    finally:
        atune.set_verbosity(logging.WARNING)
        logging.getLogger("atune").removeHandler(handler)
    assert len(lines) == 3
    assert all(f"trial {number}: " in line for number, line in enumerate(lines))


def test_an_interrupted_trial_is_released_and_taken_up_again(path):
    study = create_study(path)

    def interrupted(trial):
        trial.suggest_float("x", 0, 1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        study.optimize(interrupted, n_trials=5)
    assert [trial.state for trial in study.trials] == [TrialState.PAUSED]
    load_study(path).optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=1)
    assert [trial.state for trial in study.trials] == [TrialState.COMPLETE]


def test_the_program_reads_what_python_wrote_and_the_other_way_round(path, daybook):
    create_study(path).optimize(objective, n_trials=3)
    assert "intact" in daybook("verify", path)
    assert "rate" in daybook("study", "trials", path)


def test_a_budget_is_of_the_study_and_calls_do_what_is_missing(path):
    study = create_study(path)
    study.optimize(objective, budget=6, n_jobs=3)
    load_study(path).optimize(objective, budget=9)
    study.optimize(objective, budget=9)
    assert [trial.number for trial in study.trials] == list(range(9))
    study.optimize(objective, n_trials=2, budget=20)
    assert len(study.trials) == 11
    with pytest.raises(RuntimeError, match="11"):
        study.ask(budget=11)


def test_added_trials_are_kept_whole_and_count(path):
    study = create_study(path)
    study.optimize(objective, n_trials=3)
    other = create_study(path.with_name("other.atj"), sampler="tpe")
    for trial in study.trials:
        other.add_trial(trial)
    told = [(t.params, t.distributions, t.values, t.state) for t in study.trials]
    assert [(t.params, t.distributions, t.values, t.state) for t in other.trials] == told
    made = atune.create_trial(
        params={"x": 0.5, "kind": None, "flag": True, "n": 3},
        distributions={
            "x": atune.FloatDistribution(0, 1),
            "kind": atune.CategoricalDistribution(["a", None]),
            "flag": atune.BoolDistribution(),
            "n": atune.IntDistribution(1, 8),
        },
        value=-50.0,
        intermediate_values={1: 2.0},
        user_attrs={"who": "me"},
        constraints={"room": -1.0},
    )
    fresh = create_study(path.with_name("fresh.atj"))
    fresh.add_trial(made)
    kept = fresh.best_trial
    assert (kept.params, kept.value, kept.number) == (made.params, -50.0, 0)
    assert (kept.intermediate_values, kept.user_attrs) == ({1: 2.0}, {"who": "me"})
    assert kept.constraints == {"room": -1.0}
    fresh.optimize(lambda trial: trial.suggest_float("x", 0, 1), budget=1)
    assert len(fresh.trials) == 1


@pytest.mark.parametrize(
    "made",
    [
        {"params": {"x": 1.0}, "value": 1.0},
        {"value": 1.0, "values": [1.0]},
        {"params": {"x": 2.0}, "distributions": {"x": atune.FloatDistribution(0, 1)}, "value": 1.0},
        {"params": {"x": "z"}, "distributions": {"x": atune.CategoricalDistribution(["a"])}, "value": 1.0},
        {"params": {"x": True}, "distributions": {"x": atune.CategoricalDistribution([1])}, "value": 1.0},
        {"params": {"x": 1.0}, "distributions": {"x": "uniform"}, "value": 1.0},
        {"values": [1.0, 2.0]},
        {"value": math.nan},
        {},
        {"state": TrialState.RUNNING},
        {"value": 1.0, "user_attrs": {"atune:own": 1}},
    ],
)
def test_a_trial_that_is_not_whole_is_not_added(path, made):
    study = create_study(path)
    with pytest.raises(ValueError):
        study.add_trial(atune.create_trial(**made))
    assert study.trials == []


@pytest.mark.parametrize(
    ("options", "shown"),
    [({"n_trials": 4}, "4/4"), ({"budget": 6}, "6/6"), ({"timeout": 0.1}, "s")],
)
def test_a_progress_bar_tells_how_far_a_run_is(path, capfd, options, shown):
    pytest.importorskip("tqdm")
    study = create_study(path)
    study.optimize(objective, n_trials=2)
    study.optimize(objective, show_progress_bar=True, n_jobs=2, **options)
    said = capfd.readouterr().err
    assert shown in said
    assert "best" in said


def work(path, count, at_once=1):
    study = load_study(path, max_attempts=3, heartbeat_interval=0.2, grace=1.5)
    study.optimize(objective, n_trials=count, n_jobs=at_once)


def test_processes_share_a_study_by_its_path(path):
    create_study(path)
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=work, args=(path, 6)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(150)
        assert worker.exitcode == 0
    trials = load_study(path).trials
    assert [trial.number for trial in trials] == list(range(18))
    assert all(trial.state is TrialState.COMPLETE for trial in trials)


def test_the_trial_of_a_killed_process_is_failed_and_tried_again(path):
    study = create_study(path, max_attempts=3, heartbeat_interval=0.2, grace=1.5)
    script = (
        "import time, atune\n"
        f"study = atune.load_study({str(path)!r}, max_attempts=3, heartbeat_interval=0.2, grace=1.5)\n"
        "trial = study.ask(); trial.suggest_float('x', 0, 1); print('go', flush=True); time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"go\n"
        process.kill()
    deadline = time.monotonic() + 30
    while study.trials[0].state is TrialState.RUNNING and time.monotonic() < deadline:
        study._native.fail_stale(1.5)
        time.sleep(0.05)
    assert study.trials[0].state is TrialState.FAIL
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=1)
    again = study.trials[1]
    assert again.state is TrialState.COMPLETE
    assert again.retry_of == study.trials[0]._trial_id


FORKS = """
import os, signal, sys, threading, warnings
import atune

warnings.simplefilter("ignore", DeprecationWarning)
atune.set_verbosity(40)
path = sys.argv[1]
study = atune.create_study(None if path == "memory" else path, seed=1)
shared = study.ask()
step = iter(range(10**9))


def objective(trial):
    shared.report(0.5, next(step))
    return trial.suggest_float("x", 0, 1)


runner = threading.Thread(target=lambda: study.optimize(objective, n_jobs=3))
runner.start()
uses = [
    study.ask,
    lambda: study.trials,
    lambda: study.best_trial,
    lambda: study.optimize(objective, n_trials=1),
    lambda: study.enqueue_trial({"x": 0.5}),
    lambda: study.set_user_attr("key", 1),
    lambda: study.tell(shared, 0.5),
    lambda: shared.suggest_float("y", 0, 1),
    lambda: shared.report(0.5, 1),
    shared.should_prune,
    study.stop,
]
for round in range(8):
    child = os.fork()
    if child == 0:
        # Whoever waits for a lock that nobody holds is killed by this.
        signal.alarm(20)
        code = 0
        for use in uses:
            try:
                use()
                code = 1
            except atune.errors.ForkedError as error:
                code = code if str(os.getppid()) in str(error) else 2
        if path != "memory":
            again = atune.load_study(path)
            again.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=1)
            assert len(again.trials) > 1
        os._exit(code)
    assert os.waitpid(child, 0)[1] == 0, f"round {round}"
study.stop()
runner.join()
print(len(study.trials))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("where", ["memory", "file"])
def test_a_child_forked_from_a_process_with_threads_is_told_to_open_the_study_again(path, where):
    place = "memory" if where == "memory" else str(path)
    done = subprocess.run(
        [sys.executable, "-c", FORKS, place], capture_output=True, text=True, timeout=150, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 1
