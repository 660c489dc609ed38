"""Optuna's own tests of a storage pass on a study file, and its tools work with it."""

import json
import multiprocessing
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import optuna
import pytest
from optuna.testing.pytest_storages import StorageTestCase
from optuna.trial import TrialState

from atune.optuna import AtuneStorage

optuna.logging.set_verbosity(optuna.logging.WARNING)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "study.atj"


class TestAtuneStorage(StorageTestCase):
    @pytest.fixture
    def storage(self, tmp_path):
        return AtuneStorage(tmp_path / "study.atj", durability="process")


def objective(trial):
    x = trial.suggest_float("x", -5, 5)
    rate = trial.suggest_float("rate", 1e-4, 1, log=True)
    kind = trial.suggest_categorical("kind", ["a", "b", None])
    count = trial.suggest_int("count", 1, 9, step=2)
    for step in range(3):
        trial.report(x * x + step, step)
    trial.set_user_attr("kind", str(kind))
    return x * x + rate + count


def test_a_study_goes_on_in_another_storage_of_the_same_file(path, daybook):
    for part in range(2):
        study = optuna.create_study(storage=AtuneStorage(path), study_name="s", load_if_exists=True)
        assert len(study.trials) == 10 * part
        study.optimize(objective, n_trials=10)
    assert [trial.number for trial in study.trials] == list(range(20))
    assert study.best_value == min(trial.value for trial in study.trials)
    assert json.loads(daybook("verify", path, "--json"))["verdict"] == "intact"
    assert "rate" in daybook("study", "trials", path)


def test_an_objective_that_raises_is_a_failed_trial(path):
    study = optuna.create_study(storage=AtuneStorage(path))

    def fails(trial):
        trial.suggest_float("x", 0, 1)
        raise ValueError("no")

    with pytest.raises(ValueError):
        study.optimize(fails, n_trials=1)
    study.optimize(fails, n_trials=1, catch=ValueError)
    study.optimize(lambda trial: float("nan"), n_trials=1)
    assert [trial.state for trial in study.trials] == [TrialState.FAIL] * 3


def test_pruners_and_several_objectives_work(path):
    storage = AtuneStorage(path)
    study = optuna.create_study(storage=storage, pruner=optuna.pruners.MedianPruner(n_startup_trials=2))

    def pruned(trial):
        x = trial.suggest_float("x", 0, 1)
        for step in range(5):
            trial.report(x + trial.number, step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return x

    study.optimize(pruned, n_trials=10)
    assert TrialState.PRUNED in {trial.state for trial in study.trials}
    study = optuna.create_study(storage=storage, directions=["minimize", "maximize"])
    study.optimize(lambda t: (t.suggest_float("x", 0, 1), t.suggest_float("y", 0, 1)), n_trials=10)
    assert study.best_trials


def test_enqueued_and_added_trials_are_taken(path):
    study = optuna.create_study(storage=AtuneStorage(path))
    study.enqueue_trial({"x": 1.5, "rate": 0.5, "kind": None, "count": 3})
    study.optimize(objective, n_trials=1)
    assert study.trials[0].params == {"x": 1.5, "rate": 0.5, "kind": None, "count": 3}
    distributions = {"x": optuna.distributions.FloatDistribution(0, 1)}
    study.add_trial(optuna.create_trial(params={"x": 0.5}, distributions=distributions, value=7.0))
    assert study.trials[1].value == 7.0


def work(path, count):
    study = optuna.load_study(storage=AtuneStorage(path), study_name="s")
    study.optimize(objective, n_trials=count)


def test_processes_share_a_study_and_no_trial_is_lost_or_doubled(path):
    optuna.create_study(storage=AtuneStorage(path), study_name="s")
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=work, args=(path, 6)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(150)
        assert worker.exitcode == 0
    trials = optuna.load_study(storage=AtuneStorage(path), study_name="s").trials
    assert [trial.number for trial in trials] == list(range(18))
    assert all(trial.state == TrialState.COMPLETE for trial in trials)


def test_a_killed_worker_does_not_hold_the_others_up(path):
    optuna.create_study(storage=AtuneStorage(path), study_name="s")
    script = (
        f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r})\n"
        f"from test_optuna_storage import work; print('go', flush=True); work({str(path)!r}, 10000)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as worker:
        assert worker.stdout.readline() == b"go\n"
        storage = AtuneStorage(path)
        study = optuna.load_study(storage=storage, study_name="s")
        deadline = time.monotonic() + 150
        while len(study.trials) < 3 and time.monotonic() < deadline:
            time.sleep(0.02)
        worker.send_signal(signal.SIGKILL)
    begun = time.monotonic()
    study.optimize(objective, n_trials=1)
    assert time.monotonic() - begun < 30
    assert sum(trial.state == TrialState.RUNNING for trial in study.trials) <= 1


HEARTBEATS = {"heartbeat_interval": 1, "grace_period": 2}


def test_the_trial_of_a_killed_worker_is_failed_and_tried_again(path):
    retry = optuna.storages.RetryHeartbeatStaleTrialCallback(max_retry=1)
    storage = AtuneStorage(path, heartbeat_stale_trial_callback=retry, **HEARTBEATS)
    study = optuna.create_study(storage=storage, study_name="s")
    script = (
        "import time, optuna\nfrom atune.optuna import AtuneStorage\n"
        f"storage = AtuneStorage({str(path)!r}, heartbeat_interval=1)\n"
        "def hangs(trial):\n"
        "    trial.suggest_float('x', 0, 1)\n"
        "    print('go', flush=True)\n"
        "    time.sleep(100)\n"
        "optuna.load_study(storage=storage, study_name='s').optimize(hangs)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as worker:
        assert worker.stdout.readline() == b"go\n"
        deadline = time.monotonic() + 100
        while not (beaten := json.loads(storage_attrs(path)).get("optuna:heartbeat")):
            assert time.monotonic() < deadline
        # It is renewed, and as long as it is nobody takes the trial.
        while json.loads(storage_attrs(path))["optuna:heartbeat"] == beaten:
            assert time.monotonic() < deadline
        assert storage._get_stale_trial_ids(study._study_id) == []
        worker.kill()
    while study.trials[0].state == TrialState.RUNNING:
        assert time.monotonic() < deadline
        study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=1)
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=1)
    failed, *others = study.trials
    assert failed.state == TrialState.FAIL
    again = [trial for trial in others if retry.retried_trial_number(trial) == 0]
    assert [trial.params for trial in again] == [failed.params]
    assert again[0].state == TrialState.COMPLETE
    assert not failed.user_attrs


def storage_attrs(path):
    """Give the attributes of the first trial as the journal has them."""
    from daybook._native import StudyFile

    _, trials = StudyFile(str(path), create=False).changes_since(0)
    return json.dumps(trials[0]["user_attrs"])


def test_without_heartbeats_no_trial_goes_stale(path):
    storage = AtuneStorage(path)
    study = optuna.create_study(storage=storage)
    study.ask()
    assert storage.get_heartbeat_interval() is None
    assert storage._get_stale_trial_ids(study._study_id) == []
    with pytest.raises(ValueError):
        AtuneStorage(path, heartbeat_interval=0)
    again = pickle.loads(pickle.dumps(AtuneStorage(path, **HEARTBEATS)))
    assert again.get_heartbeat_interval() == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_opens_the_file_again(path):
    study = optuna.create_study(storage=AtuneStorage(path))
    study.optimize(objective, n_trials=2)
    child = os.fork()
    if child == 0:
        try:
            study.optimize(objective, n_trials=2)
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    study.optimize(objective, n_trials=1)
    assert [trial.number for trial in study.trials] == list(range(5))


def test_the_dashboard_serves_a_study(path):
    study = optuna.create_study(storage=AtuneStorage(path), study_name="shown")
    study.optimize(objective, n_trials=5)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    script = (
        "import optuna_dashboard\nfrom atune.optuna import AtuneStorage\n"
        f"optuna_dashboard.run_server(AtuneStorage({str(path)!r}), host='127.0.0.1', port={port})\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as server:
        try:
            deadline = time.monotonic() + 150

            def get(place):
                while True:
                    try:
                        with urllib.request.urlopen(f"http://127.0.0.1:{port}{place}", timeout=20) as answer:
                            return answer.read()
                    except OSError:
                        assert server.poll() is None, "the dashboard ended"
                        assert time.monotonic() < deadline
                        time.sleep(0.1)

            studies = json.loads(get("/api/studies"))["study_summaries"]
            assert [study["study_name"] for study in studies] == ["shown"]
            detail = json.loads(get(f"/api/studies/{studies[0]['study_id']}"))
            assert [trial["number"] for trial in detail["trials"]] == list(range(5))
            assert {trial["state"] for trial in detail["trials"]} == {"Complete"}
            assert b"<html" in get("/dashboard/")
        finally:
            server.kill()
