"""Columns out of records, for the data frame libraries that happen to be installed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from omniloop._payload import NON_FINITE

if TYPE_CHECKING:
    from daybook._native import FrameRecord

STAMPS = ("tick", "mono_ns", "wall_ns")


def columns(records: Iterable[FrameRecord], kind: str | None) -> dict[str, list[Any]]:
    """Give a column for each stamp and for each member of the payloads.

    Members of objects get dotted names. A record without a member has ``None`` in its column; a
    payload that is not a JSON object is in the column ``payload``. A column of numbers has floats
    where the journal spells ``"NaN"`` or an infinity.
    """
    table: dict[str, list[Any]] = {name: [] for name in STAMPS}
    if kind is None:
        table["kind"] = []
    count = 0
    for record in records:
        if kind is not None and record.kind != kind:
            continue
        row: dict[str, Any] = {}
        _flatten(row, "", _members(record.payload))
        for name in STAMPS:
            table[name].append(getattr(record, name))
        if kind is None:
            table["kind"].append(record.kind)
        for name, value in row.items():
            # A member may have the name of a stamp.
            column = f"payload.{name}" if name in STAMPS or name == "kind" else name
            if column not in table:
                table[column] = [None] * count
            table[column].append(value)
        count += 1
        for column_values in table.values():
            if len(column_values) < count:
                column_values.append(None)
    return {name: _numbers(values) for name, values in table.items()}


def _members(payload: bytes) -> dict[str, Any]:
    try:
        value = json.loads(payload)
    except ValueError:
        value = payload
    return value if isinstance(value, dict) else {"payload": value}


def _flatten(row: dict[str, Any], prefix: str, members: dict[str, Any]) -> None:
    for name, value in members.items():
        if isinstance(value, dict):
            _flatten(row, f"{prefix}{name}.", value)
        else:
            row[prefix + name] = value


def _numbers(values: list[Any]) -> list[Any]:
    """Give floats for the names of non-finite numbers, in a column that is otherwise numbers."""
    spelled = any(type(value) is str for value in values)
    if not spelled or not all(
        value is None or type(value) in (int, float) or value in NON_FINITE
        if not isinstance(value, (list, bytes))
        else False
        for value in values
    ):
        return values
    if not any(type(value) in (int, float) for value in values):
        return values
    return [
        NON_FINITE[value] if type(value) is str else None if value is None else float(value)
        for value in values
    ]


def uniform(values: list[Any]) -> list[Any]:
    """Give the column with JSON text where its values have types that no column can hold together."""
    kinds = {type(value) for value in values if value is not None}
    if (len(kinds) <= 1 and list not in kinds) or kinds <= {int, float}:
        return values
    if kinds == {list} and _is_flat(values):
        return values
    return [
        None
        if value is None
        else value
        if isinstance(value, str)
        else value.decode("utf-8", "replace")
        if isinstance(value, bytes)
        else json.dumps(value, ensure_ascii=False)
        for value in values
    ]


def _is_flat(values: list[Any]) -> bool:
    kinds = {type(item) for value in values if value is not None for item in value}
    return kinds <= {int, float} or kinds == {str} or kinds == {bool}


def wall_ns(moment: datetime | int) -> int:
    """Give a moment as nanoseconds since the Unix epoch."""
    if isinstance(moment, int):
        return moment
    if moment.tzinfo is None:
        raise ValueError("a time without a time zone is no moment: give it one")
    passed = moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return ((passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds) * 1000
