"""A storage of Optuna on a study file.

    storage = AtuneStorage("study.atj")
    study = optuna.create_study(storage=storage, study_name="mine", load_if_exists=True)

Any number of processes may open the same file. Studies that atune itself wrote can be read, and looked
at with optuna-dashboard; their trials cannot be changed from here.

How Optuna's objects lie in the file, as far as the operations of the journal do not say it themselves:

=====================================  =============================================================
attribute                              what it holds
=====================================  =============================================================
``KEY``                                the user attribute ``KEY``
``optuna:user:KEY``                    one whose key begins with ``optuna:`` or ``atune:``
``optuna:system:KEY``                  the system attribute ``KEY``
``optuna:param:NAME``                  a parameter that the journal does not take: a value outside of
                                       its distribution, or choices that are no plain values;
                                       ``distribution`` is Optuna's JSON, ``value`` its internal value
``optuna:intermediate:STEP``           an intermediate value of a study with several objectives
``optuna:start``, ``optuna:complete``  when a trial began and ended, where that is not when it was written
``optuna:name``                        of a study: its name, where the journal could not take it
``optuna:deleted``                     of a study: true once it was deleted
``optuna:heartbeat``                   when its worker last said that a trial is alive, in milliseconds
=====================================  =============================================================

A value that JSON cannot hold as it is, such as NaN, is an object with the one member ``optuna:json``: its
text as Python's ``json`` writes it.
"""

from __future__ import annotations

import contextlib
import copy
import json
import math
import os
import threading
import time
import uuid
from collections.abc import Callable, Container, Sequence
from datetime import datetime
from typing import Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
    check_distribution_compatibility,
    distribution_to_json,
    json_to_distribution,
)
from optuna.exceptions import DuplicatedStudyError, UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.storages._heartbeat import BaseHeartbeat
from optuna.study import Study, StudyDirection
from optuna.study._frozen import FrozenStudy
from optuna.trial import FrozenTrial, TrialState

from atune.errors import EndedError, MisuseError, NameTakenError, UnknownTrialError, WrongFromError
from daybook._native import StudyFile, param_fits

__all__ = ["AtuneStorage"]

_USER = "optuna:user:"
_SYSTEM = "optuna:system:"
_PARAM = "optuna:param:"
_INTERMEDIATE = "optuna:intermediate:"
_START = "optuna:start"
_COMPLETE = "optuna:complete"
_NAME = "optuna:name"
_DELETED = "optuna:deleted"
_HEARTBEAT = "optuna:heartbeat"
_JSON = "optuna:json"
_RESERVED = ("optuna:", "atune:")

_STATES = {
    "Waiting": TrialState.WAITING,
    "Running": TrialState.RUNNING,
    "Paused": TrialState.RUNNING,
    "Complete": TrialState.COMPLETE,
    "Pruned": TrialState.PRUNED,
    "Failed": TrialState.FAIL,
}
_NAMES = {
    TrialState.WAITING: "Waiting",
    TrialState.RUNNING: "Running",
    TrialState.COMPLETE: "Complete",
    TrialState.PRUNED: "Pruned",
    TrialState.FAIL: "Failed",
}
_DIRECTIONS = {"Minimize": StudyDirection.MINIMIZE, "Maximize": StudyDirection.MAXIMIZE}
_WORDS = {direction: word for word, direction in _DIRECTIONS.items()}

_Change = dict[str, Any]


class AtuneStorage(BaseStorage, BaseHeartbeat):
    """An Optuna storage on a study file, which is created when it does not exist.

    ``durability`` is ``"full"``, where what was acknowledged survives a power cut, or ``"process"``,
    where it survives the end of the process. Threads may share a storage; a forked process opens the file
    again by itself.

    With a ``heartbeat_interval``, in whole seconds, ``optimize`` says so often that its trials are alive, and
    fails those of others that were silent for longer than ``grace_period``, by default twice the interval.
    ``heartbeat_stale_trial_callback`` is called for each of these, such as Optuna's
    ``RetryHeartbeatStaleTrialCallback``. Trials that never had a heartbeat are left alone.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: str = "full",
        heartbeat_interval: int | None = None,
        grace_period: int | None = None,
        heartbeat_stale_trial_callback: Callable[[Study, FrozenTrial], None] | None = None,
    ) -> None:
        for name, seconds in (("heartbeat_interval", heartbeat_interval), ("grace_period", grace_period)):
            if seconds is not None and seconds <= 0:
                raise MisuseError(f"{name} is {seconds}: a number of seconds above 0")
        self._path = os.fspath(path)
        self._durability = durability
        self._heartbeat_interval = heartbeat_interval
        self._grace_period = grace_period
        self._stale_callback = heartbeat_stale_trial_callback
        self._open()

    def _open(self) -> None:
        self._file = StudyFile(self._path, durability=self._durability, worker=os.getpid())
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._seq = 0
        self._studies: dict[int, dict[str, Any]] = {}
        # Trials by identity, and the identities of each study's by number.
        self._trials: dict[int, FrozenTrial] = {}
        self._study_of: dict[int, int] = {}
        self._numbers: dict[int, dict[int, int]] = {}
        # When the workers of running trials last said that they are alive.
        self._heartbeats: dict[int, int] = {}
        # The first distribution of each parameter of a study.
        self._distributions: dict[int, dict[str, BaseDistribution]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        options = {
            "durability": self._durability,
            "heartbeat_interval": self._heartbeat_interval,
            "grace_period": self._grace_period,
            "heartbeat_stale_trial_callback": self._stale_callback,
        }
        return (_reopen, (self._path, options))

    # Reading ------------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        """Take in what changed; call it with the lock held."""
        seq, changed = self._file.changes_since(self._seq)
        if seq == self._seq:
            return
        self._studies = {study["id"]: study for study in self._file.studies()}
        for raw in changed:
            study = raw["study"]
            frozen = _frozen(raw)
            self._trials[raw["id"]] = frozen
            heartbeat = raw["user_attrs"].get(_HEARTBEAT)
            if heartbeat is None or frozen.state.is_finished():
                self._heartbeats.pop(raw["id"], None)
            else:
                self._heartbeats[raw["id"]] = heartbeat
            self._study_of[raw["id"]] = study
            self._numbers.setdefault(study, {})[raw["number"]] = raw["id"]
            known = self._distributions.setdefault(study, {})
            for name, distribution in frozen.distributions.items():
                known.setdefault(name, distribution)
        self._seq = seq

    def _fresh(self) -> threading.RLock:
        """Give the lock; what is read under it is up to date once `_refresh` was called."""
        if self._process != os.getpid():
            self._open()
        return self._lock

    def _study(self, study_id: int) -> dict[str, Any]:
        """Give a study that is not deleted, up to date; call it with the lock held."""
        self._refresh()
        study = self._studies.get(study_id)
        if study is None or _DELETED in study["user_attrs"]:
            raise KeyError(f"no study {study_id}")
        return study

    def _trial(self, trial_id: int) -> FrozenTrial:
        self._refresh()
        trial = self._trials.get(trial_id)
        if trial is None or _DELETED in self._studies[self._study_of[trial_id]]["user_attrs"]:
            raise KeyError(f"no trial {trial_id}")
        return trial

    # Studies ------------------------------------------------------------------------------------------

    def create_new_study(self, directions: Sequence[StudyDirection], study_name: str | None = None) -> int:
        """Create a study and give its identity."""
        # The prefix that Optuna gives to names of its own making.
        name = f"no-name-{uuid.uuid4()}" if study_name is None else study_name
        with self._fresh():
            while True:
                self._refresh()
                if any(_name(study) == name for study in self._living()):
                    raise DuplicatedStudyError(f"another study with name {name!r} exists in {self._path}")
                taken = {study["config"]["name"] for study in self._studies.values()}
                stored = name
                while not stored or stored in taken:
                    stored = f"{name}~{uuid.uuid4().hex[:8]}"
                try:
                    study_id = self._file.create_study(_config(stored, directions))
                except NameTakenError:
                    # Another process was quicker, perhaps with the same name.
                    continue
                if stored != name:
                    self._file.set_study_user_attr(study_id, _NAME, name)
                return study_id

    def _living(self) -> list[dict[str, Any]]:
        return [study for study in self._studies.values() if _DELETED not in study["user_attrs"]]

    def delete_study(self, study_id: int) -> None:
        """Mark a study as deleted: a journal forgets nothing, but nobody finds it here any more."""
        with self._fresh():
            self._study(study_id)
            self._file.set_study_user_attr(study_id, _DELETED, True)

    def set_study_user_attr(self, study_id: int, key: str, value: Any) -> None:
        """Set a user attribute of a study."""
        self._set_study_attr(study_id, _user_key(key), value)

    def set_study_system_attr(self, study_id: int, key: str, value: Any) -> None:
        """Set a system attribute of a study."""
        self._set_study_attr(study_id, _SYSTEM + key, value)

    def _set_study_attr(self, study_id: int, key: str, value: Any) -> None:
        with self._fresh():
            self._study(study_id)
            self._file.set_study_user_attr(study_id, key, _stored(value))

    def get_study_id_from_name(self, study_name: str) -> int:
        """Give the identity of the study with this name."""
        with self._fresh():
            self._refresh()
            for study in self._living():
                if _name(study) == study_name:
                    return int(study["id"])
        raise KeyError(f"no study named {study_name!r} in {self._path}")

    def get_study_name_from_id(self, study_id: int) -> str:
        """Give the name of a study."""
        with self._fresh():
            return _name(self._study(study_id))

    def get_study_directions(self, study_id: int) -> list[StudyDirection]:
        """Give the directions of a study."""
        with self._fresh():
            return [_DIRECTIONS[word] for word in self._study(study_id)["config"]["directions"]]

    def get_study_user_attrs(self, study_id: int) -> dict[str, Any]:
        """Give the user attributes of a study."""
        with self._fresh():
            return _user_attrs(self._study(study_id)["user_attrs"])

    def get_study_system_attrs(self, study_id: int) -> dict[str, Any]:
        """Give the system attributes of a study."""
        with self._fresh():
            return _system_attrs(self._study(study_id)["user_attrs"])

    def get_all_studies(self) -> list[FrozenStudy]:
        """Give all studies."""
        with self._fresh():
            self._refresh()
            return [
                FrozenStudy(
                    study_name=_name(study),
                    direction=None,
                    directions=[_DIRECTIONS[word] for word in study["config"]["directions"]],
                    user_attrs=_user_attrs(study["user_attrs"]),
                    system_attrs=_system_attrs(study["user_attrs"]),
                    study_id=study["id"],
                )
                for study in self._living()
            ]

    # Trials -------------------------------------------------------------------------------------------

    def create_new_trial(self, study_id: int, template_trial: FrozenTrial | None = None) -> int:
        """Create a trial that runs, or a copy of a template, and give its identity."""
        with self._fresh():
            study = self._study(study_id)
            if template_trial is None:
                return self._file.create_trial(study_id, [_move("Waiting", "Running")])
            several = len(study["config"]["directions"]) > 1
            return self._file.create_trial(study_id, _as_changes(template_trial, several))

    def _change(self, trial_id: int, changes: list[_Change]) -> None:
        try:
            self._file.change_trial(trial_id, changes)
        except UnknownTrialError as error:
            raise KeyError(f"no trial {trial_id}") from error
        except EndedError as error:
            raise UpdateFinishedTrialError(f"trial {trial_id} has ended and cannot be changed") from error

    def _changeable(self, trial_id: int) -> FrozenTrial:
        trial = self._trial(trial_id)
        self.check_trial_is_updatable(trial_id, trial.state)
        return trial

    def set_trial_param(
        self,
        trial_id: int,
        param_name: str,
        param_value_internal: float,
        distribution: BaseDistribution,
    ) -> None:
        """Set a parameter of a trial."""
        with self._fresh():
            trial = self._changeable(trial_id)
            known = self._distributions.get(self._study_of[trial_id], {}).get(param_name)
            if known is not None:
                check_distribution_compatibility(known, distribution)
            if param_name in trial.params:
                # The journal sets a parameter once; what stands beside it counts.
                change = _odd_param(param_name, distribution, param_value_internal)
            else:
                change = _param(param_name, distribution, param_value_internal)
            self._change(trial_id, [change])

    def set_trial_state_values(
        self, trial_id: int, state: TrialState, values: Sequence[float] | None = None
    ) -> bool:
        """Set state and values of a trial; false when it should run and does so already."""
        with self._fresh():
            trial = self._changeable(trial_id)
            if state == TrialState.RUNNING and trial.state != TrialState.WAITING:
                return False
            changes: list[_Change] = []
            if values is not None:
                changes.append({"kind": "set-values", "values": [_number(value) for value in values]})
            present = _NAMES[trial.state]
            if state != trial.state:
                if present == "Waiting" and state in (TrialState.COMPLETE, TrialState.PRUNED):
                    changes.append(_move("Waiting", "Running"))
                    present = "Running"
                changes.append(_move(present, _NAMES[state]))
            try:
                self._change(trial_id, changes)
            except WrongFromError:
                # Somebody else was first.
                if state == TrialState.RUNNING:
                    return False
                raise
            return True

    def set_trial_intermediate_value(self, trial_id: int, step: int, intermediate_value: float) -> None:
        """Set the intermediate value of a step."""
        with self._fresh():
            self._changeable(trial_id)
            directions = self._studies[self._study_of[trial_id]]["config"]["directions"]
            self._change(trial_id, [_report(step, intermediate_value, len(directions) > 1)])

    def set_trial_user_attr(self, trial_id: int, key: str, value: Any) -> None:
        """Set a user attribute of a trial."""
        with self._fresh():
            self._changeable(trial_id)
            self._change(trial_id, [_attr(_user_key(key), value)])

    def set_trial_system_attr(self, trial_id: int, key: str, value: Any) -> None:
        """Set a system attribute of a trial."""
        with self._fresh():
            self._changeable(trial_id)
            self._change(trial_id, [_attr(_SYSTEM + key, value)])

    def get_trial_id_from_study_id_trial_number(self, study_id: int, trial_number: int) -> int:
        """Give the identity of the trial with this number."""
        with self._fresh():
            self._study(study_id)
            found = self._numbers.get(study_id, {}).get(trial_number)
        if found is None:
            raise KeyError(f"no trial {trial_number} in study {study_id}")
        return found

    def get_trial(self, trial_id: int) -> FrozenTrial:
        """Give a trial, which later changes of it leave as it is."""
        with self._fresh():
            return self._trial(trial_id)

    def get_all_trials(
        self,
        study_id: int,
        deepcopy: bool = True,
        states: Container[TrialState] | None = None,
    ) -> list[FrozenTrial]:
        """Give the trials of a study, by number."""
        with self._fresh():
            self._study(study_id)
            numbers = self._numbers.get(study_id, {})
            trials = [self._trials[numbers[number]] for number in sorted(numbers)]
        if states is not None:
            trials = [trial for trial in trials if trial.state in states]
        return copy.deepcopy(trials) if deepcopy else trials

    # Heartbeats ---------------------------------------------------------------------------------------

    def record_heartbeat(self, trial_id: int) -> None:
        """Say that the trial is alive; of one that has ended nothing is said any more."""
        with self._fresh():
            if self._trial(trial_id).state != TrialState.RUNNING:
                return
            with contextlib.suppress(UpdateFinishedTrialError):
                self._change(trial_id, [_attr(_HEARTBEAT, _millis())])

    def _get_stale_trial_ids(self, study_id: int) -> list[int]:
        interval = self._heartbeat_interval
        if interval is None:
            return []
        grace = 2 * interval if self._grace_period is None else self._grace_period
        with self._fresh():
            self._study(study_id)
            oldest = _millis() - 1000 * grace
            return [
                trial_id
                for trial_id, heartbeat in self._heartbeats.items()
                if heartbeat < oldest and self._study_of[trial_id] == study_id
            ]

    def get_heartbeat_interval(self) -> int | None:
        """Give the seconds between heartbeats, if there are any."""
        return self._heartbeat_interval

    def get_heartbeat_stale_trial_callback(self) -> Callable[[Study, FrozenTrial], None] | None:
        """Give what is called for trials that went stale."""
        return self._stale_callback


def _millis() -> int:
    return time.time_ns() // 1_000_000


def _reopen(path: str, options: dict[str, Any]) -> AtuneStorage:
    return AtuneStorage(path, **options)


# To the journal ---------------------------------------------------------------------------------------


def _config(name: str, directions: Sequence[StudyDirection]) -> dict[str, Any]:
    return {
        "name": name,
        "directions": [_WORDS[direction] for direction in directions],
        "seed": 0,
        "space": None,
        "resource_unit": "Steps",
        "metric_names": [],
    }


def _as_changes(trial: FrozenTrial, several: bool) -> list[_Change]:
    changes = []
    for name, value in trial.params.items():
        distribution = trial.distributions[name]
        changes.append(_param(name, distribution, distribution.to_internal_repr(value)))
    changes += [_attr(_user_key(key), value) for key, value in trial.user_attrs.items()]
    changes += [_attr(_SYSTEM + key, value) for key, value in trial.system_attrs.items()]
    changes += [_report(step, value, several) for step, value in trial.intermediate_values.items()]
    for key, moment in ((_START, trial.datetime_start), (_COMPLETE, trial.datetime_complete)):
        if moment is not None:
            changes.append(_attr(key, moment.isoformat()))
    if trial.values is not None:
        changes.append({"kind": "set-values", "values": [_number(value) for value in trial.values]})
    if trial.state != TrialState.WAITING:
        changes.append(_move("Waiting", "Running"))
    if trial.state.is_finished():
        changes.append(_move("Running", _NAMES[trial.state]))
    return changes


def _move(start: str, end: str) -> _Change:
    return {"kind": "transition", "from": start, "to": end}


def _attr(key: str, value: Any) -> _Change:
    return {"kind": "set-trial-user-attr", "key": key, "value": _stored(value)}


def _report(step: int, value: float, several: bool) -> _Change:
    if several or step < 0:
        return _attr(f"{_INTERMEDIATE}{step}", float(value))
    return {"kind": "report", "step": step, "values": [_number(value)]}


def _param(name: str, distribution: BaseDistribution, internal: float) -> _Change:
    """Give the parameter as the journal's own kind, if it takes it."""
    param = _native_param(name, distribution, internal)
    if param is not None and param_fits(param):
        return {"kind": "params-batch", "params": [param]}
    return _odd_param(name, distribution, internal)


def _odd_param(name: str, distribution: BaseDistribution, internal: float) -> _Change:
    return _attr(_PARAM + name, {"distribution": distribution_to_json(distribution), "value": internal})


def _native_param(name: str, distribution: BaseDistribution, internal: float) -> dict[str, Any] | None:
    if isinstance(distribution, FloatDistribution):
        low, high = distribution.low, distribution.high
        dist = {"low": low, "high": high, "log": distribution.log, "step": distribution.step}
        return {"name": name, "dist": {"Float": dist}, "value": {"F64": _number(internal)}}
    if isinstance(distribution, IntDistribution):
        low, high = distribution.low, distribution.high
        step = None if distribution.step == 1 else distribution.step
        if internal != int(internal):
            return None
        dist = {"low": low, "high": high, "log": distribution.log, "step": step}
        return {"name": name, "dist": {"Int": dist}, "value": {"I64": int(internal)}}
    if isinstance(distribution, CategoricalDistribution):
        choices = [_choice(choice) for choice in distribution.choices]
        if None in choices:
            return None
        listed = {"choices": {"version": 1, "choices": choices}}
        return {"name": name, "dist": {"Cat": listed}, "value": {"Cat": int(internal)}}
    return None


def _choice(choice: Any) -> dict[str, Any] | None:
    kinds = {str: "string", bool: "bool", int: "int", float: "float", type(None): "null"}
    kind = kinds.get(type(choice))
    if kind is None or (kind == "int" and not -(2**63) <= choice < 2**63):
        return None
    value = _number(choice) if kind == "float" else choice
    return {"label": str(choice), "value": {"type": kind, "value": value}}


def _number(value: float) -> float | str:
    value = float(value)
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _user_key(key: str) -> str:
    return _USER + key if key.startswith(_RESERVED) else key


def _stored(value: Any) -> Any:
    """Give a value as the journal holds it."""
    if _is_plain(value):
        return value
    return {_JSON: json.dumps(value)}


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        names = all(type(name) is str for name in value)
        return names and list(value) != [_JSON] and all(map(_is_plain, value.values()))
    if type(value) is list:
        return all(map(_is_plain, value))
    if type(value) is float:
        return math.isfinite(value)
    if type(value) is int:
        return -(2**63) <= value < 2**64
    return value is None or type(value) in (bool, str)


# From the journal -------------------------------------------------------------------------------------


def _name(study: dict[str, Any]) -> str:
    return str(study["user_attrs"].get(_NAME, study["config"]["name"]))


def _plain(value: Any) -> Any:
    if isinstance(value, dict) and list(value) == [_JSON]:
        return json.loads(value[_JSON])
    return copy.deepcopy(value)


def _user_attrs(attrs: dict[str, Any]) -> dict[str, Any]:
    own = {key: _plain(value) for key, value in attrs.items() if not key.startswith(_RESERVED)}
    return own | _with_prefix(attrs, _USER)


def _system_attrs(attrs: dict[str, Any]) -> dict[str, Any]:
    return _with_prefix(attrs, _SYSTEM)


def _with_prefix(attrs: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {key.removeprefix(prefix): _plain(value) for key, value in attrs.items() if key.startswith(prefix)}


def _frozen(raw: dict[str, Any]) -> FrozenTrial:
    attrs = raw["user_attrs"]
    params: dict[str, Any] = {}
    distributions: dict[str, BaseDistribution] = {}
    for name, dist, value in raw["params"]:
        distributions[name] = _distribution(dist)
        params[name] = distributions[name].to_external_repr(_internal(value))
    for name, odd in _with_prefix(attrs, _PARAM).items():
        distributions[name] = json_to_distribution(odd["distribution"])
        params[name] = distributions[name].to_external_repr(odd["value"])
    intermediate = {step: values[0] for step, values in raw["reports"]}
    intermediate |= {int(step): value for step, value in _with_prefix(attrs, _INTERMEDIATE).items()}
    state = _STATES[raw["state"]]
    return FrozenTrial(
        number=raw["number"],
        state=state,
        value=None,
        values=raw["values"],
        datetime_start=_moment(attrs.get(_START), raw["started_millis"]),
        datetime_complete=_moment(attrs.get(_COMPLETE), raw["ended_millis"]),
        params=params,
        distributions=distributions,
        user_attrs=_user_attrs(attrs),
        system_attrs=_system_attrs(attrs),
        intermediate_values=intermediate,
        trial_id=raw["id"],
    )


def _moment(told: str | None, millis: int | None) -> datetime | None:
    if told is not None:
        return datetime.fromisoformat(told)
    # Optuna's moments are in local time, without a zone.
    return None if millis is None else datetime.fromtimestamp(millis / 1000)


def _float(value: float | str) -> float:
    return float(value)


def _internal(value: dict[str, Any]) -> float:
    ((kind, inner),) = value.items()
    return _float(inner) if kind == "F64" else int(inner)


def _distribution(dist: str | dict[str, Any]) -> BaseDistribution:
    if dist == "Bool":
        return CategoricalDistribution((False, True))
    assert isinstance(dist, dict)
    ((kind, inner),) = dist.items()
    if kind == "Float":
        low, high = _float(inner["low"]), _float(inner["high"])
        step = None if inner["step"] is None else _float(inner["step"])
        return FloatDistribution(low, high, log=inner["log"], step=step)
    if kind == "Int":
        step = 1 if inner["step"] is None else inner["step"]
        return IntDistribution(inner["low"], inner["high"], log=inner["log"], step=step)
    choices = [choice["value"] for choice in inner["choices"]["choices"]]
    return CategoricalDistribution(
        [_float(value["value"]) if value["type"] == "float" else value["value"] for value in choices]
    )
