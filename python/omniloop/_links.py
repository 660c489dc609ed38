"""What a run belongs to, as its surroundings say it."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

_TRACE = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-")


@dataclass(frozen=True)
class Links:
    """The names of a run, its study, trial, session and trace; what is unknown is ``None``."""

    run_id: str
    study_id: str | None = None
    trial_number: int | None = None
    session_id: str | None = None
    trace_id: str | None = None

    @classmethod
    def of(cls, context: Mapping[str, Any]) -> Links:
        """Give what a start record's members say, and else the environment."""
        around = _resource(os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""))
        number = _member(context, "trial", "number")
        if number is None and around.get("trial.number", "").isdecimal():
            number = int(around["trial.number"])
        trace = _TRACE.match(os.environ.get("TRACEPARENT", ""))
        return cls(
            run_id=_member(context, "run", "id") or uuid.uuid4().hex,
            study_id=_member(context, "study", "id") or around.get("study.id"),
            trial_number=number,
            session_id=_member(context, "session", "id") or around.get("session.id"),
            trace_id=trace[1] if trace and trace[1].strip("0") else None,
        )

    def attributes(self) -> dict[str, str | int]:
        """Give them as the attributes of spans."""
        named = {
            "run.id": self.run_id,
            "study.id": self.study_id,
            "trial.number": self.trial_number,
            "session.id": self.session_id,
        }
        return {name: value for name, value in named.items() if value is not None}

    def into(self, context: Mapping[str, Any]) -> dict[str, Any]:
        """Give the members of a start record with them added; those that are there stay."""
        start = dict(context)
        for name, value in self.attributes().items():
            record, member = name.split(".")
            inner = start.get(record, {})
            if isinstance(inner, Mapping):
                start[record] = {member: value, **inner}
        return start


def _resource(text: str) -> dict[str, str]:
    """Read a list of attributes, ``key=value,key=value``; what is not well formed says nothing."""
    pairs = (pair.partition("=") for pair in text.split(","))
    return {key.strip(): unquote(value.strip()) for key, _, value in pairs if value.strip()}


def _member(context: Mapping[str, Any], record: str, member: str) -> Any:
    inner = context.get(record)
    return inner.get(member) if isinstance(inner, Mapping) else None
