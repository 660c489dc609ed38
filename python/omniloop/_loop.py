"""A loop that records what it does."""

from __future__ import annotations

import math
import os
import secrets
import socket
import sys
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from daybook._native import Control, Durability, Recorder, RotationPolicy
from omniloop._links import Links
from omniloop.errors import LoopHalted, MisuseError

#: Environment variables that a start record holds unless told otherwise.
ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "TZ", "CUDA_VISIBLE_DEVICES", "TRACEPARENT", "VIRTUAL_ENV")


@dataclass
class _Param:
    value: Any
    min: float | None
    max: float | None


@dataclass
class _Watch:
    name: str
    predicate: Callable[[Any], object]
    policy: Literal["halt", "record"]


class TrainingLoop:
    """A control or training loop whose state, parameters and inputs are recorded.

    Entered as a context manager or used as it is; :meth:`close` seals the journal. Leaving the
    context through an exception seals it as well, and records the exception.

    Every method may be called from any thread. Recording goes through a queue and a thread of its
    own: unless the queue is full, no call waits for the disk.

    With ``control`` the loop can be attended over a socket while it runs (``daybook ctl``): halted,
    stepped, its parameters changed, its variables watched. What is asked is carried out and recorded at
    the end of the next :meth:`tick`, which does not return while the loop is halted.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        rotation: RotationPolicy | None = None,
        durability: Durability | None = None,
        signing_key: str | bytes | None = None,
        policy: Literal["block", "drop_telemetry"] = "block",
        schema: Mapping[str, Any] | None = None,
        environment: Iterable[str] = ENVIRONMENT,
        principal: str | None = None,
        control: str | os.PathLike[str] | None = None,
        halt_policy: Literal["continue", "halt", "exit"] = "halt",
        **context: Any,
    ) -> None:
        """Create the journal and record the start.

        ``schema`` is a JSON Schema of what :meth:`tick` will be given. ``environment`` names the
        variables that the start record holds. ``principal`` is who changes parameters unless a call
        says otherwise. ``context`` is added to the start record as it is, such as ``study`` and
        ``trial``; what it does not say of study, trial and session is taken from the environment
        (``OTEL_RESOURCE_ATTRIBUTES``), where ``daybook tune`` puts it.

        ``control`` is the path of a socket that only this user can connect to. ``halt_policy`` says what
        it means when the last controller, a client that has asked to ``attend``, is cut off: the loop
        goes on, halts, or ends with `LoopHalted`.
        """
        # Before the journal: where nobody can attend, nothing is begun.
        self._control = None if control is None else Control(control, path, halt_policy=halt_policy)
        try:
            self._recorder = Recorder(
                path,
                overwrite=overwrite,
                rotation=rotation,
                durability=durability,
                signing_key=signing_key,
                policy=policy,
            )
        except BaseException:
            if self._control is not None:
                self._control.close()
            raise
        self._lock = threading.RLock()
        self._ticks = 0
        self._params: dict[str, _Param] = {}
        self._watches: list[_Watch] = []
        self._halted: str | None = None
        self._closed: dict[str, Any] | None = None
        self._principal = principal
        start: dict[str, Any] = {"event": "start"}
        if schema is not None:
            start["schema"] = schema
        start |= {
            "argv": sys.orig_argv,
            "script": sys.argv[0] if sys.argv else "",
            "cwd": os.getcwd(),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "env": {name: os.environ[name] for name in environment if name in os.environ},
        }
        self._links = Links.of(context)
        self._recorder.record("lifecycle", {**start, **self._links.into(context)})

    @property
    def path(self) -> str:
        """The path of the journal's first file."""
        return str(self._recorder.path)

    @property
    def run_id(self) -> str:
        """The name of the run, which no other run has."""
        return self._links.run_id

    @property
    def trace_id(self) -> str | None:
        """The trace that the surroundings began (``TRACEPARENT``), in hexadecimal."""
        return self._links.trace_id

    def span_attributes(self) -> dict[str, str | int]:
        """Give what a span of this moment should carry.

        That is ``run.id`` and ``run.tick``, and study, trial and session as far as they are known.
        """
        return {**self._links.attributes(), "run.tick": self.current_tick}

    @property
    def current_tick(self) -> int:
        """How many ticks were recorded."""
        return self._ticks

    @property
    def halted(self) -> str | None:
        """Why the loop is halted; ``None`` while it is not."""
        return self._halted if self._control is None else self._control.halted

    @property
    def params(self) -> dict[str, Any]:
        """The parameters and their values now."""
        with self._lock:
            return {name: param.value for name, param in self._params.items()}

    def tick(self, **state: Any) -> int:
        """Record the state of this step, and answer the number of its tick.

        Then the watches look at it. One that trips is recorded, and halts the loop if that is its
        policy.

        Raises `LoopHalted` when a watch halts the loop, and for every later tick until
        :meth:`resume`. A loop with ``control`` waits here instead, after its state was recorded, until
        it is resumed or stepped; it raises when it is to end, as its halt policy may say.
        """
        with self._lock:
            self._refuse_when_halted()
            if self._recorder.record("telemetry", state):
                self._ticks += 1
            for watch in self._watches:
                if watch.name in state:
                    self._look(watch, state[watch.name])
            ticks = self._ticks
            if self._control is not None:
                self._control.count(ticks, state if self._control.has_watches else None)
        if self._control is not None:
            self._attend(self._control)
        return ticks

    def param(
        self,
        name: str,
        value: Any,
        *,
        min: float | None = None,
        max: float | None = None,
        source: str = "declared",
        principal: str | None = None,
    ) -> Any:
        """Declare a parameter with its bounds, and answer the value that it has from now on.

        A value outside of the bounds is brought to the nearest one, and that is recorded.
        """
        if min is not None and max is not None and min > max:
            raise MisuseError(f"{name}: min={min} is greater than max={max}")
        with self._lock:
            before = self._params.get(name)
            self._params[name] = _Param(before.value if before else None, min, max)
            return self._change(name, value, source, None, principal, "out of bounds as declared")

    def set(
        self,
        name: str,
        value: Any,
        *,
        source: str = "loop",
        correlation_id: str | None = None,
        principal: str | None = None,
    ) -> Any:
        """Change a parameter, and answer the value that was applied.

        ``correlation_id`` ties the change to the input or command that brought it; without one it
        gets its own.
        """
        with self._lock:
            if name not in self._params:
                raise MisuseError(f"no parameter {name!r}: declare it with param() first")
            return self._change(name, value, source, correlation_id, principal, "out of bounds")

    def __getitem__(self, name: str) -> Any:
        """Give the value that a parameter has now."""
        with self._lock:
            return self._params[name].value

    def watch(
        self,
        name: str,
        predicate: Callable[[Any], object],
        *,
        policy: Literal["halt", "record"] = "halt",
    ) -> None:
        """Look at a variable of every tick; the watch trips when ``predicate(value)`` is true.

        With the policy ``halt`` the tick in which it trips raises `LoopHalted`; with ``record`` the
        trip is only recorded.
        """
        if policy not in ("halt", "record"):
            raise MisuseError(f"no policy {policy!r}; there are halt, record")
        with self._lock:
            self._watches.append(_Watch(name, predicate, policy))

    def input(self, channel: str, value: Any, *, correlation_id: str | None = None) -> Any:
        """Record a value that came from outside, and answer it."""
        payload = {"channel": channel, "value": value}
        if correlation_id is not None:
            payload["correlation_id"] = correlation_id
        self._recorder.record("input", payload)
        return value

    def seed(self, name: str = "default", value: int | None = None) -> int:
        """Record the seed of a random number generator, and answer it; without one, a new seed."""
        seed = secrets.randbits(63) if value is None else value
        return int(self.input(f"seed:{name}", seed))

    def hash(self, digest: str, *, algorithm: str = "sha256", of: str | None = None) -> None:
        """Record a hash of the loop's state, for finding where two runs diverge."""
        payload = {"algorithm": algorithm, "hash": digest}
        if of is not None:
            payload["of"] = of
        self._recorder.record("hash", payload)

    def checkpoint(self, **facts: Any) -> None:
        """Record that a checkpoint of the model or the state was made."""
        self._recorder.record("control", {"command": "checkpoint", **facts})

    def halt(self, reason: str) -> None:
        """Halt the loop: from now on :meth:`tick` raises, until :meth:`resume`.

        With ``control`` the next tick waits instead; another thread or a client can resume it.
        """
        with self._lock:
            if self._control is not None:
                self._control.halt(self._recorder, reason)
                return
            self._recorder.record("control", {"command": "halt", "reason": reason})
            self._halted = reason

    def resume(self, reason: str = "") -> None:
        """Let a halted loop go on."""
        with self._lock:
            if self._control is not None:
                if not self._control.resume(self._recorder, reason):
                    raise MisuseError("the loop is not halted")
                return
            if self._halted is None:
                raise MisuseError("the loop is not halted")
            self._recorder.record("control", {"command": "resume", "reason": reason})
            self._halted = None

    def close(self, **outcome: Any) -> dict[str, Any]:
        """Record the end and seal the journal; answer its files, records, head, and what was dropped.

        ``outcome`` is what the stop record's ``exit`` holds.
        """
        with self._lock:
            if self._closed is None:
                if self._control is not None:
                    self._control.close()
                self._recorder.record("lifecycle", {"event": "stop", "exit": outcome or {"code": 0}})
                self._closed = dict(self._recorder.close())
            return self._closed

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: object
    ) -> None:
        if self._closed is not None:
            return
        if error is None:
            self.close()
            return
        try:
            self.close(error=f"{type(error).__name__}: {error}")
        except Exception as failure:
            # The loop's own exception is the one that must be seen.
            error.add_note(f"and the journal could not be sealed: {failure}")

    def _refuse_when_halted(self) -> None:
        if self._halted is not None:
            raise LoopHalted.of(f"the loop is halted: {self._halted}", tick=self._ticks)

    def _attend(self, control: Control) -> None:
        """Carry out what was asked, and wait while that is to halt."""
        while True:
            changes, reason = control.attend(self._recorder)
            with self._lock:
                for name, value in changes:
                    self._params[name].value = value
            if reason is not None:
                raise LoopHalted.of(f"the loop is to end: {reason}", tick=self._ticks, path=self.path)
            if not changes:
                return

    def _look(self, watch: _Watch, value: Any) -> None:
        if not watch.predicate(value):
            return
        trip = {"command": "watch_trip", "name": watch.name, "value": value, "policy": watch.policy}
        self._recorder.record("control", trip)
        if watch.policy == "halt":
            self.halt(f"watch of {watch.name} tripped")
            if self._control is not None:
                return
            raise LoopHalted.of(
                f"watch of {watch.name} tripped at tick {self._ticks}: {value!r}",
                tick=self._ticks,
                path=self.path,
                name=watch.name,
                value=value,
            )

    def _change(
        self,
        name: str,
        requested: Any,
        source: str,
        correlation_id: str | None,
        principal: str | None,
        cause: str,
    ) -> Any:
        param = self._params[name]
        principal = self._principal if principal is None else principal
        applied = _within(requested, param)
        if applied is not requested:
            guardrail = {
                "name": name,
                "requested": requested,
                "applied": applied,
                "min": param.min,
                "max": param.max,
                "cause": cause,
                "principal": principal,
            }
            self._recorder.record("guardrail", guardrail)
        mutation = {
            "name": name,
            "old": param.value,
            "new": applied,
            "source": source,
            "correlation_id": correlation_id or uuid.uuid4().hex,
        }
        if principal is not None:
            mutation["principal"] = principal
        self._recorder.record("mutation", mutation)
        param.value = applied
        if self._control is not None:
            limits = {"min": _finite(param.min), "max": _finite(param.max)}
            self._control.declare(name, {"value": applied, **limits})
        return applied


def _finite(bound: float | None) -> float | None:
    """Give the bound if it is one: there is none at infinity."""
    return bound if bound is not None and math.isfinite(bound) else None


def _within(requested: Any, param: _Param) -> Any:
    """Give the value, brought to the nearest bound; what is no number at all is brought to one too."""
    if param.min is None and param.max is None:
        return requested
    if requested != requested:  # NaN compares with nothing, itself included.
        return param.min if param.min is not None else param.max
    if param.min is not None and requested < param.min:
        return param.min
    if param.max is not None and requested > param.max:
        return param.max
    return requested
