"""A classifier is tuned by four processes, two are killed, and the result is that of an undisturbed study."""

import multiprocessing
import os
import signal
import time

import pytest

import atune
from atune import TrialState, create_study, load_study

sklearn = pytest.importorskip("sklearn")
TRIALS = 24
LEASE = {"max_attempts": 3, "heartbeat_interval": 0.25, "grace": 2.5}


def tune(path, began=None):
    """Work at the study until it has its trials."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import cross_val_score
    from sklearn.tree import DecisionTreeClassifier

    atune.set_verbosity(40)
    images, digits = load_digits(return_X_y=True)
    images, digits = images[:600], digits[:600]

    def accuracy(trial):
        tree = DecisionTreeClassifier(
            criterion=trial.suggest_categorical("criterion", ["gini", "entropy"]),
            max_depth=trial.suggest_int("depth", 1, 12),
            min_samples_leaf=trial.suggest_float("leaf", 0.001, 0.4, log=True),
            random_state=0,
        )
        if began is not None:
            began.set()
        return cross_val_score(tree, images, digits, cv=3).mean()

    load_study(path, **LEASE).optimize(accuracy, budget=TRIALS)


def best(study):
    return max(trial.value for trial in study.get_trials([TrialState.COMPLETE]))


def test_a_classifier_is_tuned_as_well_though_two_of_four_workers_are_killed(tmp_path):
    # What this sampler draws depends on nothing but the number of the trial.
    options = {"direction": "maximize", "seed": 4, "sampler": "random", **LEASE}
    calm = create_study(tmp_path / "calm.atj", **options)
    tune(tmp_path / "calm.atj")
    path = tmp_path / "disturbed.atj"
    study = create_study(path, **options)

    context = multiprocessing.get_context("spawn")
    began = [context.Event() for _ in range(4)]
    workers = [context.Process(target=tune, args=(path, event)) for event in began]
    for worker in workers:
        worker.start()
    for worker, event in zip(workers[:2], began, strict=False):
        # It is in the middle of a trial.
        assert event.wait(100)
        os.kill(worker.pid, signal.SIGKILL)
    for worker in workers:
        worker.join(100)
    assert [worker.exitcode for worker in workers] == [-signal.SIGKILL] * 2 + [0, 0]

    deadline = time.monotonic() + 60
    while study.get_trials([TrialState.RUNNING]):
        assert time.monotonic() < deadline
        study._native.fail_stale(2.5)
    tune(path)
    trials = study.trials
    assert [trial.number for trial in trials] == list(range(len(trials)))
    retries = [trial for trial in trials if trial.retry_of is not None]
    firsts = [trial for trial in trials if trial.retry_of is None]
    failed = [trial for trial in trials if trial.state is TrialState.FAIL]
    assert len(firsts) == TRIALS
    # Every trial of a dead worker was tried once more, with its parameters.
    assert {trial.retry_of for trial in retries} == {trial._trial_id for trial in failed}
    assert len(study.get_trials([TrialState.COMPLETE])) == TRIALS
    by_number = {trial.number: trial for trial in calm.trials}
    for trial in firsts:
        same = by_number.get(trial.number)
        if same is not None and trial.state is TrialState.COMPLETE:
            assert (trial.params, trial.value) == (same.params, same.value)
    assert abs(best(study) - best(calm)) < 0.05
    assert study.best_value > 0.6
