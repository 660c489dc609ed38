"""Payloads: JSON, with non-finite numbers as strings."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def encode(value: Any) -> bytes:
    """Give the JSON text of a value, members in their order."""
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"), default=plain)
    except ValueError:
        # A number that JSON has no word for, or a value that contains itself: the walk finds out.
        text = json.dumps(_spelled(value), allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return text.encode()


def plain(value: Any) -> Any:
    """Give what JSON can say instead of a value that it knows nothing of: arrays, scalars, mappings."""
    for name in ("tolist", "item"):
        convert = getattr(value, name, None)
        if callable(convert):
            return convert()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} cannot be recorded: it has no JSON form")


def _spelled(value: Any, depth: int = 0) -> Any:
    if depth > 100:
        raise ValueError("a value that contains itself, or more than 100 others, cannot be recorded")
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {name: _spelled(member, depth + 1) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_spelled(member, depth + 1) for member in value]
    return _spelled(plain(value), depth + 1)
