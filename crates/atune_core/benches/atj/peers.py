"""Runs the Python peers of `cargo dev bench atj`: the same trial, three parameters, three reports, one value.

check | create ENGINE PATH | fill ENGINE PATH TRIALS | work ENGINE PATH TRIALS | open ENGINE PATH
"""

import json
import os
import sys
import time

import optuna
import rustuna
from optuna.storages import JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend

optuna.logging.set_verbosity(optuna.logging.ERROR)


def storage(engine, path):
    if engine == "optuna-journal":
        return JournalStorage(JournalFileBackend(path))
    if engine == "optuna-sqlite":
        # Writers wait for each other instead of failing.
        return RDBStorage("sqlite:///" + path, engine_kwargs={"connect_args": {"timeout": 120}})
    return rustuna.storages.JournalFileStorage(path)


def study(engine, path, create=False):
    library = rustuna if engine.startswith("rustuna") else optuna
    sampler = library.samplers.RandomSampler()
    kept = storage(engine, path)
    make = library.create_study if create else library.load_study
    return make(study_name="bench", storage=kept, sampler=sampler)


def run(engine, opened, trials):
    for _ in range(trials):
        trial = opened.ask()
        value = sum(trial.suggest_float(f"x{i}", -1.0, 1.0) for i in range(3))
        if engine.startswith("rustuna"):
            # It has no reports.
            opened.tell(trial.number, value)
            continue
        for step in range(3):
            trial.report(value, step)
        opened.tell(trial, value)


def wait_for_go():
    print("ready", flush=True)
    sys.stdin.readline()


def peak_kib():
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("VmHWM"))
    return int(line.split()[1])


def main(verb, engine="", path="", trials="0"):
    if verb == "create":
        study(engine, path, create=True)
    elif verb == "fill":
        os.fsync = lambda descriptor: None
        run(engine, study(engine, path, create=True), int(trials))
    elif verb == "work":
        opened = study(engine, path)
        wait_for_go()
        start = time.monotonic_ns()
        run(engine, opened, int(trials))
        end = time.monotonic_ns()
        print(json.dumps({"start_ns": start, "end_ns": end, "trials": int(trials), "commit_us": []}))
    elif verb == "open":
        wait_for_go()
        start = time.monotonic_ns()
        count = len(study(engine, path).trials)
        took = (time.monotonic_ns() - start) / 1e6
        print(json.dumps({"open_ms": took, "trials": count, "peak_kib": peak_kib()}))


main(*sys.argv[1:])
