"""Studies: created, loaded, optimised."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Literal

from atune._progress import Progress
from atune._trial import FrozenTrial, Trial, TrialPruned, TrialState, finished, frozen
from atune.errors import BudgetSpentError, FenceLostError, MisuseError, SamplerSpentError, StoppedError
from daybook._native import open_study

if TYPE_CHECKING:
    import pandas

    from daybook._native import NativeStudy

    _Direction = Literal["minimize", "maximize"]

_log = logging.getLogger("atune")

Objective = Callable[[Trial], float | Sequence[float]]
Callback = Callable[["Study", FrozenTrial], None]

_WORDS = {"minimize": "Minimize", "maximize": "Maximize"}


class _Component:
    """A sampler or scheduler: its name and its options."""

    def __init__(self, kind: str, **options: Any) -> None:
        self.kind = kind
        self.options = {name: value for name, value in options.items() if value is not None}

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"{type(self).__name__}({self.kind!r}{options})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Component)
            and type(other) is type(self)
            and (self.kind, self.options) == (other.kind, other.options)
        )

    __hash__ = None  # type: ignore[assignment]


class Sampler(_Component):
    """What chooses parameters: ``Sampler("tpe")``, ``Sampler("grid", points=…)``.

    The names are those of ``daybook tune --sampler``; options that are left out have their defaults.
    """


class Scheduler(_Component):
    """What decides which trials go on: ``Scheduler("median")``, ``Scheduler("asha")``, ``Scheduler("none")``.

    The names are those of ``daybook tune --scheduler``; options that are left out have their defaults.
    """


class Study:
    """A study that is open.

    Make one with :func:`create_study` or :func:`load_study`. Threads may share it; a forked process has to
    load it again. Any number of processes may have the same file open.
    """

    def __init__(self, native: NativeStudy) -> None:
        self._native = native
        self._stop = threading.Event()

    @property
    def study_name(self) -> str:
        """Its name."""
        return self._native.name

    @property
    def id(self) -> str | None:
        """What runs and traces call it (``study.id``): 32 digits that follow from its file.

        A study in memory has none.
        """
        return self._native.id

    @property
    def directions(self) -> list[_Direction]:
        """Which way each objective gets better."""
        words: list[_Direction] = []
        for direction in self._native.config["directions"]:
            words.append("minimize" if direction == "Minimize" else "maximize")
        return words

    @property
    def direction(self) -> _Direction:
        """Which way the only objective gets better."""
        if len(self.directions) > 1:
            raise MisuseError("a study with several objectives: ask for directions")
        return self.directions[0]

    @property
    def metric_names(self) -> list[str]:
        """The names of the objectives, if they have any."""
        return list(self._native.config["metric_names"])

    @property
    def seed(self) -> int:
        """Where its random numbers start from."""
        return int(self._native.config["seed"])

    @property
    def sampler(self) -> Sampler:
        """What chooses parameters, with all its options."""
        kind, options = self._native.sampler
        return Sampler(kind, **options)

    @property
    def scheduler(self) -> Scheduler:
        """What decides which trials go on, with all its options."""
        kind, options = self._native.scheduler
        return Scheduler(kind, **options)

    @property
    def trials(self) -> list[FrozenTrial]:
        """All trials, by number."""
        return self.get_trials()

    def get_trials(self, states: Iterable[TrialState] | None = None) -> list[FrozenTrial]:
        """Give the trials that are in one of some states, by number."""
        trials = [frozen(raw) for raw in self._native.trials()]
        if states is None:
            return trials
        wanted = set(states)
        return [trial for trial in trials if trial.state in wanted]

    @property
    def best_trial(self) -> FrozenTrial:
        """The best trial of those whose constraints are met, the earliest of equals."""
        return frozen(self._native.best_trial())

    @property
    def best_trials(self) -> list[FrozenTrial]:
        """The trials that no other dominates, of those whose constraints are met."""
        return [frozen(raw) for raw in self._native.best_trials()]

    @property
    def best_value(self) -> float:
        """The value of the best trial."""
        value = self.best_trial.value
        assert value is not None
        return value

    @property
    def best_params(self) -> dict[str, Any]:
        """The parameters of the best trial."""
        return self.best_trial.params

    @property
    def user_attrs(self) -> dict[str, Any]:
        """Its attributes."""
        return self._native.user_attrs()

    def set_user_attr(self, key: str, value: Any) -> None:
        """Set an attribute of the study: any JSON value."""
        self._native.set_user_attr(key, value)

    def ask(self, *, budget: int | None = None) -> Trial:
        """Start a trial: one that was enqueued or is to be tried again, or a new one.

        With a ``budget`` no new one once the study has so many, whoever started them; retries do not count.
        """
        return Trial(self, self._native.ask(budget))

    def tell(
        self,
        trial: Trial,
        values: float | Sequence[float] | None = None,
        state: TrialState | None = None,
    ) -> FrozenTrial:
        """End a trial with its values, or with a state, and answer it as it ended.

        A trial whose values are no numbers, or not one per objective, fails, and so does one that is told
        neither values nor a state.
        """
        if state not in (None, TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL):
            raise MisuseError(f"a trial cannot end as {state}")
        if state is TrialState.FAIL:
            self._native.tell(trial._native, "Failed", message="told so")
        elif state is TrialState.PRUNED:
            numbers = None if values is None else _numbers(values, len(self.directions))[0]
            self._native.tell(trial._native, "Pruned", numbers)
        else:
            numbers, fault = _numbers(values, len(self.directions))
            if numbers is None:
                self._native.tell(trial._native, "Failed", message=fault)
            else:
                self._native.tell(trial._native, "Complete", numbers)
        return frozen(self._native.trial(trial._native.id))

    def enqueue_trial(self, params: Mapping[str, Any], *, skip_if_exists: bool = False) -> bool:
        """Enqueue a trial with some of its parameters given; false when it is known and was skipped."""
        return self._native.enqueue(dict(params), skip_if_exists) is not None

    def add_trial(self, trial: FrozenTrial) -> None:
        """Add a trial that was run elsewhere: of another study, or made with :func:`create_trial`.

        It gets a number of its own, and counts against a budget.
        """
        self._native.add(finished(trial))

    def stop(self) -> None:
        """Let :meth:`optimize` end after the trials that are running."""
        self._native.check_process()
        self._stop.set()

    def optimize(
        self,
        func: Objective,
        n_trials: int | None = None,
        timeout: float | None = None,
        *,
        budget: int | None = None,
        n_jobs: int = 1,
        catch: type[Exception] | tuple[type[Exception], ...] = (),
        callbacks: Iterable[Callback] = (),
        show_progress_bar: bool = False,
    ) -> None:
        """Run an objective for one trial after the other.

        ``n_trials`` is how many trials this call runs. ``budget`` is how many the study is to have, those of
        all processes and earlier calls together, exactly; repeating the call then does what is missing, and
        retries do not count. ``timeout`` is after how many seconds no trial is started any more. Without all
        three it goes on until :meth:`stop`, or Ctrl-C.

        ``n_jobs`` threads run at once; for processes, load the study in each of them. An exception fails its
        trial, and ends the run unless it is one of ``catch``. Callbacks are called after each trial. Ctrl-C
        releases the running trials: the next run goes on with them. The progress bar is that of ``tqdm``.
        """
        self._native.check_process()
        if n_jobs < 1:
            raise MisuseError(f"n_jobs is {n_jobs}: at least one trial is run at once")
        if budget is not None:
            self._native.set_budget(budget)
        self._stop.clear()
        run = _Run(self, func, n_trials, budget, timeout, catch, list(callbacks))
        if not show_progress_bar:
            run.all(n_jobs)
            return
        with Progress(self, n_trials, budget, timeout) as progress:
            run.callbacks.append(progress.note)
            run.all(n_jobs)

    def importances(
        self, objective: int = 0, *, method: Literal["fanova", "variance"] = "fanova"
    ) -> dict[str, float]:
        """Give the share of each parameter in what sets the complete trials apart, the largest first.

        A parameter that only some trials have is measured over these, and counts as much as the variance
        among them has a part in the whole. The shares add up to 1, unless no parameter explains anything.
        """
        if not 0 <= objective < len(self.directions):
            raise MisuseError(f"objective {objective}: there are {len(self.directions)}, counted from 0")
        if method not in ("fanova", "variance"):
            raise MisuseError(f"no method {method!r}; there are fanova, variance")
        return dict(self._native.importances(objective, method))

    def trials_dataframe(self) -> pandas.DataFrame:
        """Give the trials as a pandas data frame, a row for each."""
        import pandas

        rows = []
        for trial in self.trials:
            row: dict[str, Any] = {"number": trial.number, "state": trial.state.name}
            names = self.metric_names or [str(place) for place in range(len(self.directions))]
            values: Sequence[float | None] = trial.values or [None] * len(names)
            if len(names) == 1 and not self.metric_names:
                row["value"] = values[0]
            else:
                row |= {f"values_{name}": value for name, value in zip(names, values, strict=False)}
            row["datetime_start"] = trial.datetime_start
            row["datetime_complete"] = trial.datetime_complete
            row["duration"] = trial.duration
            row |= {f"params_{name}": value for name, value in trial.params.items()}
            row |= {f"user_attrs_{key}": value for key, value in trial.user_attrs.items()}
            rows.append(row)
        return pandas.DataFrame(rows)


class _Run:
    """One call of `Study.optimize`, which its threads share."""

    def __init__(
        self,
        study: Study,
        objective: Objective,
        n_trials: int | None,
        budget: int | None,
        timeout: float | None,
        catch: type[Exception] | tuple[type[Exception], ...],
        callbacks: list[Callback],
    ) -> None:
        self.study = study
        self.budget = budget
        self.objective = objective
        self.left = math.inf if n_trials is None else n_trials
        self.until = math.inf if timeout is None else time.monotonic() + timeout
        self.catch = catch
        self.callbacks = callbacks
        self.lock = threading.Lock()

    def end(self) -> None:
        with self.lock:
            self.left = 0

    def all(self, n_jobs: int) -> None:
        if n_jobs == 1:
            self.work()
            return
        with ThreadPoolExecutor(n_jobs, thread_name_prefix="atune") as pool:
            workers = [pool.submit(self.work) for _ in range(n_jobs)]
            try:
                wait(workers, return_when=FIRST_EXCEPTION)
            finally:
                # A failed worker, or Ctrl-C, ends the others after their trials.
                if not all(worker.done() and worker.exception() is None for worker in workers):
                    self.end()
        for worker in workers:
            worker.result()

    def work(self) -> None:
        while self._take():
            try:
                trial = Trial(self.study, self.study._native.ask_any(self.budget))
            except (BudgetSpentError, SamplerSpentError, StoppedError) as reason:
                _log.info("%s", reason)
                return
            self._run(trial)

    def _take(self) -> bool:
        with self.lock:
            if self.left <= 0 or self.study._stop.is_set() or time.monotonic() >= self.until:
                return False
            self.left -= 1
            return True

    def _run(self, trial: Trial) -> None:
        native = self.study._native
        try:
            values = self.objective(trial)
            ended = self.study.tell(trial, values)
        except TrialPruned:
            native.tell(trial._native, "Pruned", self._last_report(trial))
            ended = frozen(native.trial(trial._native.id))
        except FenceLostError as lost:
            # Whoever took it over ends it.
            _log.warning("%s", lost)
            return
        except Exception as error:
            self._fail(trial, f"{type(error).__name__}: {error}")
            if not isinstance(error, self.catch):
                raise
            ended = frozen(native.trial(trial._native.id))
        except BaseException:
            self._release(trial)
            raise
        _tell_people(self.study, ended)
        for callback in self.callbacks:
            callback(self.study, ended)

    def _last_report(self, trial: Trial) -> list[float] | None:
        reports = trial._native.reports()
        return max(reports, key=lambda report: report[0])[1] if reports else None

    def _fail(self, trial: Trial, message: str) -> None:
        try:
            self.study._native.tell(trial._native, "Failed", message=message)
        except (FenceLostError, ValueError) as late:
            # It ended meanwhile: the objective's own error is the one to show.
            _log.warning("%s", late)
            return
        _log.warning("trial %d failed: %s", trial.number, message)

    def _release(self, trial: Trial) -> None:
        self.end()
        try:
            self.study._native.tell(trial._native, "Released")
        except (FenceLostError, ValueError) as late:
            _log.warning("%s", late)


def _numbers(values: Any, count: int) -> tuple[list[float] | None, str]:
    """Give values as floats, or why they are none."""
    many = values if isinstance(values, Sequence) and not isinstance(values, (str, bytes)) else [values]
    if len(many) != count:
        return None, f"the objective gave {len(many)} values, and there are {count} objectives"
    try:
        numbers = [float(value) for value in many]
    except (TypeError, ValueError):
        return None, f"the objective gave {values!r}, which is no number"
    return numbers, ""


def _tell_people(study: Study, trial: FrozenTrial) -> None:
    if not _log.isEnabledFor(logging.INFO):
        return
    if trial.state is TrialState.COMPLETE and trial.values is not None:
        shown = ", ".join(f"{value:g}" for value in trial.values)
        best = ""
        if len(trial.values) == 1:
            try:
                found = study.best_trial
                best = f"; best is trial {found.number} with {found.value:g}"
            except ValueError:
                best = "; none meets its constraints"
        _log.info("trial %d: %s with %s%s", trial.number, shown, trial.params, best)
    elif trial.state is TrialState.PRUNED:
        _log.info("trial %d: pruned at step %s", trial.number, trial.last_step)
    elif trial.error is not None:
        _log.info("trial %d failed: %s", trial.number, trial.error)


def create_study(
    path: str | os.PathLike[str] | None = None,
    *,
    study_name: str = "study",
    direction: _Direction | None = None,
    directions: Sequence[_Direction] | None = None,
    metric_names: Sequence[str] = (),
    sampler: Sampler | str | None = None,
    scheduler: Scheduler | str | None = None,
    seed: int | None = None,
    load_if_exists: bool = False,
    durability: Literal["full", "process"] = "full",
    max_attempts: int = 1,
    heartbeat_interval: float = 10.0,
    grace: float = 60.0,
) -> Study:
    """Create a study in a file, which is created too if need be; without a path, in memory.

    With ``load_if_exists`` the study is opened when it exists, whichever of several processes was first;
    otherwise that is an error. A failed trial is tried ``max_attempts`` times all told. A worker that is
    silent for ``grace`` seconds loses its trials. Without a seed one is drawn.
    """
    if direction is not None and directions is not None:
        raise MisuseError("give direction or directions, not both")
    words = list(directions) if directions is not None else [direction or "minimize"]
    for word in words:
        if word not in _WORDS:
            raise MisuseError(f"no direction {word!r}; there are minimize, maximize")
    how = "load_or_create" if load_if_exists else "create"
    return Study(
        open_study(
            how,
            {
                "path": None if path is None else os.fspath(path),
                "durability": durability,
                "name": study_name,
                "directions": [_WORDS[word] for word in words],
                "metric_names": list(metric_names),
                "seed": int.from_bytes(os.urandom(7)) if seed is None else seed,
                "sampler": _component(sampler),
                "scheduler": _component(scheduler),
                "max_attempts": max_attempts,
                "heartbeat_interval": heartbeat_interval,
                "grace": grace,
            },
        )
    )


def load_study(
    path: str | os.PathLike[str],
    study_name: str | None = None,
    *,
    sampler: Sampler | str | None = None,
    scheduler: Scheduler | str | None = None,
    durability: Literal["full", "process"] = "full",
    max_attempts: int = 1,
    heartbeat_interval: float = 10.0,
    grace: float = 60.0,
) -> Study:
    """Open a study of a file; the name may be left out when there is only one.

    A sampler or scheduler that is given must be the study's own.
    """
    return Study(
        open_study(
            "load",
            {
                "path": os.fspath(path),
                "durability": durability,
                "name": study_name,
                "directions": [],
                "metric_names": [],
                "seed": 0,
                "sampler": _component(sampler),
                "scheduler": _component(scheduler),
                "max_attempts": max_attempts,
                "heartbeat_interval": heartbeat_interval,
                "grace": grace,
            },
        )
    )


def _component(given: _Component | str | None) -> dict[str, Any] | None:
    if given is None:
        return None
    if isinstance(given, str):
        return {"kind": given, "options": None}
    return {"kind": given.kind, "options": given.options or None}


def set_verbosity(level: int) -> None:
    """Say what is logged, by a level of `logging`: ``INFO`` (the default) is one line per trial."""
    _log.setLevel(level)


def _log_by_default() -> None:
    """Show log lines on standard error, unless the program says something else."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s"))
    _log.addHandler(handler)
    _log.setLevel(logging.INFO)
    _log.propagate = False


_log_by_default()
