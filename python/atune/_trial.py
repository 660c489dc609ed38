"""Trials: the one that an objective runs in, and those that are past."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Any

from atune._distributions import (
    BoolDistribution,
    CategoricalDistribution,
    Choice,
    Distribution,
    FloatDistribution,
    IntDistribution,
    number,
    read,
    read_value,
    spelled,
    spelled_value,
)
from atune.errors import MisuseError

if TYPE_CHECKING:
    from atune._study import Study
    from daybook._native import NativeTrial

CONSTRAINTS = "constraints"


class TrialPruned(Exception):  # noqa: N818 (what Optuna calls it)
    """Raise this in an objective to end its trial early."""


class TrialState(Enum):
    """Where a trial is in its life."""

    WAITING = "Waiting"
    RUNNING = "Running"
    PAUSED = "Paused"
    COMPLETE = "Complete"
    PRUNED = "Pruned"
    FAIL = "Failed"

    def is_finished(self) -> bool:
        """Tell whether a trial never leaves this state."""
        return self in (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)


class Trial:
    """A running trial, as its objective sees it; threads may share it."""

    def __init__(self, study: Study, native: NativeTrial) -> None:
        self._study = study
        self._native = native
        self._params: dict[str, Any] = {}
        self._user_attrs: dict[str, Any] = {}

    @property
    def number(self) -> int:
        """Its number in the study, from 0."""
        return self._native.number

    @property
    def study(self) -> Study:
        """Its study."""
        return self._study

    @property
    def params(self) -> dict[str, Any]:
        """The parameters that were asked for so far."""
        return dict(self._params)

    @property
    def user_attrs(self) -> dict[str, Any]:
        """The attributes that were set in this trial so far."""
        return dict(self._user_attrs)

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        """Suggest a number from ``low`` to ``high``, both included."""
        value: float = self._suggest(name, FloatDistribution(low, high, log, step))
        return value

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        """Suggest a whole number from ``low`` to ``high``, both included."""
        value: int = self._suggest(name, IntDistribution(low, high, log, step))
        return value

    def suggest_bool(self, name: str) -> bool:
        """Suggest a truth value."""
        return bool(self._suggest(name, BoolDistribution()))

    def suggest_categorical(self, name: str, choices: Sequence[Choice]) -> Any:
        """Suggest one of a list of plain values: text, numbers, truth values and ``None``."""
        place = self._draw(name, CategoricalDistribution(choices))
        self._params[name] = choices[place]
        return choices[place]

    def report(self, value: float | Sequence[float], step: int) -> None:
        """Report an intermediate value, or one for each objective."""
        if step < 0:
            raise MisuseError(f"step {step}: steps count from 0")
        values = [float(v) for v in value] if isinstance(value, Sequence) else [float(value)]
        self._native.report(int(step), values)

    def should_prune(self) -> bool:
        """Ask the study's scheduler whether the trial should end early."""
        return self._native.should_prune()

    def set_user_attr(self, key: str, value: Any) -> None:
        """Set an attribute of the trial: any JSON value."""
        self._native.set_user_attr(key, value)
        self._user_attrs[key] = value

    def span_attributes(self) -> dict[str, str | int]:
        """Give what the spans of this trial should carry: ``study.id`` and ``trial.number``.

        A study in memory has no ``study.id``.
        """
        study = self._study.id
        return ({} if study is None else {"study.id": study}) | {"trial.number": self.number}

    def run_context(self) -> dict[str, dict[str, Any]]:
        """Give what the start record of this trial's run should say of study and trial.

        It is made for ``TrainingLoop(path, **trial.run_context())``.
        """
        native = self._study._native
        named = {"id": native.id, "name": native.name, "path": native.path}
        return {
            "study": {name: value for name, value in named.items() if value is not None},
            "trial": {"number": self.number, "id": self._native.id, "params": self.params},
        }

    def keep_run(self, run: str | os.PathLike[str]) -> None:
        """Keep the run at a path as this trial's: its path, its name and the head of its hash chain.

        ``daybook trail`` then goes from the trial to the run, and tells when the run was changed or
        exchanged. Call it once the run is closed: one that is not sealed has no head yet, and only path and
        name are kept. The run is read and verified; damage is an `omniloop.CorruptError`, and a run that
        says that it is another trial's a `MisuseError`.
        """
        self._user_attrs |= self._native.keep_run(run)

    def set_constraint(self, name: str, value: float) -> None:
        """Record how a constraint is met: it is when ``value`` is not above 0."""
        self._native.set_constraint(name, float(value))

    def _draw(self, name: str, dist: Distribution) -> Any:
        return self._native.suggest(name, spelled(name, dist))

    def _suggest(self, name: str, dist: Distribution) -> Any:
        value = self._draw(name, dist)
        self._params[name] = value
        return value


@dataclass(frozen=True)
class FrozenTrial:
    """A trial as it was when it was looked at."""

    number: int
    """Its number in the study, from 0."""
    state: TrialState
    """Where it is in its life."""
    values: list[float] | None
    """Its final values, one per objective."""
    params: dict[str, Any]
    """Its parameters."""
    distributions: dict[str, Distribution]
    """What they were drawn from."""
    intermediate_values: dict[int, float]
    """What it reported of its first objective, by step."""
    user_attrs: dict[str, Any]
    """Its attributes."""
    constraints: dict[str, float]
    """Its constraints: those that are above 0 are not met."""
    error: str | None
    """What went wrong."""
    datetime_start: datetime | None
    """When it was started."""
    datetime_complete: datetime | None
    """When it ended."""
    retry_of: int | None
    """Identity of the trial that it tries once more."""
    _trial_id: int = field(repr=False)

    @property
    def value(self) -> float | None:
        """Its final value, of a study with one objective."""
        if self.values is None:
            return None
        if len(self.values) > 1:
            raise MisuseError("a trial with several values: ask for values")
        return self.values[0]

    @property
    def last_step(self) -> int | None:
        """The greatest step that was reported."""
        return max(self.intermediate_values, default=None)

    @property
    def duration(self) -> float | None:
        """How many seconds it took."""
        if self.datetime_start is None or self.datetime_complete is None:
            return None
        return (self.datetime_complete - self.datetime_start).total_seconds()


def frozen(raw: dict[str, Any]) -> FrozenTrial:
    """Make a trial of what the native module says of it."""
    distributions = {name: read(dist) for name, dist, _ in raw["params"]}
    attrs = dict(raw["user_attrs"])
    constraints = attrs.pop(CONSTRAINTS, None)
    return FrozenTrial(
        number=raw["number"],
        state=TrialState(raw["state"]),
        values=raw["values"],
        params={name: read_value(distributions[name], value) for name, _, value in raw["params"]},
        distributions=distributions,
        intermediate_values={step: values[0] for step, values in raw["reports"]},
        user_attrs={key: value for key, value in attrs.items() if not key.startswith("atune:")},
        constraints={name: float(value) for name, value in (constraints or {}).items()},
        error=raw["error"],
        datetime_start=_moment(raw["started_millis"]),
        datetime_complete=_moment(raw["ended_millis"]),
        retry_of=raw["retry_of"],
        _trial_id=raw["id"],
    )


def _moment(millis: int | None) -> datetime | None:
    return None if millis is None else datetime.fromtimestamp(millis / 1000, UTC)


def create_trial(
    *,
    state: TrialState = TrialState.COMPLETE,
    value: float | None = None,
    values: Sequence[float] | None = None,
    params: Mapping[str, Any] | None = None,
    distributions: Mapping[str, Distribution] | None = None,
    user_attrs: Mapping[str, Any] | None = None,
    intermediate_values: Mapping[int, float] | None = None,
    constraints: Mapping[str, float] | None = None,
    error: str | None = None,
) -> FrozenTrial:
    """Make a trial that was run elsewhere, for :meth:`Study.add_trial`."""
    if value is not None and values is not None:
        raise MisuseError("give value or values, not both")
    params, distributions = dict(params or {}), dict(distributions or {})
    if params.keys() != distributions.keys():
        odd = sorted(params.keys() ^ distributions.keys())
        raise MisuseError(f"parameters and distributions name others: {', '.join(odd)}")
    if value is not None:
        values = [value]
    return FrozenTrial(
        number=-1,
        state=state,
        values=None if values is None else [float(v) for v in values],
        params=params,
        distributions=distributions,
        intermediate_values=dict(intermediate_values or {}),
        user_attrs=dict(user_attrs or {}),
        constraints={name: float(v) for name, v in (constraints or {}).items()},
        error=error,
        datetime_start=None,
        datetime_complete=None,
        retry_of=None,
        _trial_id=-1,
    )


def finished(trial: FrozenTrial) -> dict[str, Any]:
    """Give a trial that has ended as the native module takes it."""
    if not trial.state.is_finished():
        raise MisuseError(f"a trial that is {trial.state.name} has not ended: enqueue its parameters instead")
    if trial.state is TrialState.COMPLETE and trial.values is None:
        raise MisuseError("a complete trial has values")
    params = []
    for name, value in trial.params.items():
        dist = trial.distributions[name]
        spelling = spelled_value(name, dist, value)
        params.append({"name": name, "dist": spelled(name, dist), "value": spelling})
    return {
        "state": trial.state.value,
        "values": None if trial.values is None else [number(value) for value in trial.values],
        "params": params,
        "reports": [(step, [number(value)]) for step, value in sorted(trial.intermediate_values.items())],
        "user_attrs": trial.user_attrs,
        "constraints": {name: number(value) for name, value in trial.constraints.items()},
        "error": trial.error or "",
    }
