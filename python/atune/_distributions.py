"""What parameters are drawn from, and their spelling in the journal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from atune.errors import ConflictError, MisuseError

#: What a categorical parameter can be.
Choice = None | bool | int | float | str


@dataclass(frozen=True)
class FloatDistribution:
    """Numbers from ``low`` to ``high``, both included.

    With a ``step`` only those that lie whole steps from ``low``; with ``log`` spread evenly over their
    logarithm.
    """

    low: float
    high: float
    log: bool = False
    step: float | None = None


@dataclass(frozen=True)
class IntDistribution:
    """Whole numbers from ``low`` to ``high``, both included, in steps from ``low``."""

    low: int
    high: int
    log: bool = False
    step: int = 1


@dataclass(frozen=True)
class BoolDistribution:
    """True or false."""


@dataclass(frozen=True)
class CategoricalDistribution:
    """One of some plain values: text, numbers, truth values and ``None``."""

    choices: tuple[Choice, ...]

    def __init__(self, choices: Sequence[Choice]) -> None:
        object.__setattr__(self, "choices", tuple(choices))


Distribution = FloatDistribution | IntDistribution | BoolDistribution | CategoricalDistribution


def spelled(name: str, dist: Distribution) -> str | dict[str, Any]:
    """Give a distribution of a parameter as the journal spells it."""
    match dist:
        case FloatDistribution(low, high, log, step):
            # An end between two steps is no value, as in Optuna.
            end = high if step is None else _on_step(low, high, step)
            return {"Float": {"low": float(low), "high": float(end), "log": log, "step": step}}
        case IntDistribution(low, high, log, step):
            if step > 1 and high >= low:
                high -= (high - low) % step
            by = None if step == 1 else step
            return {"Int": {"low": int(low), "high": int(high), "log": log, "step": by}}
        case BoolDistribution():
            return "Bool"
        case CategoricalDistribution(choices):
            listed = [_choice(name, choice) for choice in choices]
            return {"Cat": {"choices": {"version": 1, "choices": listed}}}
    raise MisuseError(f"parameter {name!r}: {dist!r} is no distribution")


def spelled_value(name: str, dist: Distribution, value: Any) -> dict[str, Any]:
    """Give a value of a parameter as the journal spells it."""
    try:
        match dist:
            case FloatDistribution():
                return {"F64": number(value)}
            case IntDistribution():
                return {"I64": int(value)}
            case BoolDistribution():
                return {"Bool": bool(value)}
            case CategoricalDistribution(choices):
                # 1, 1.0 and True are different choices.
                places = [at for at, c in enumerate(choices) if type(c) is type(value) and c == value]
                return {"Cat": places[0]}
    except (IndexError, TypeError, ValueError) as error:
        raise MisuseError(f"parameter {name!r}: {value!r} is no value of {dist}") from error
    raise MisuseError(f"parameter {name!r}: {dist!r} is no distribution")


def read(dist: str | dict[str, Any]) -> Distribution:
    """Give the distribution that the journal spells so."""
    if dist == "Bool":
        return BoolDistribution()
    assert isinstance(dist, dict)
    ((kind, inner),) = dist.items()
    if kind == "Float":
        step = None if inner["step"] is None else float(inner["step"])
        return FloatDistribution(float(inner["low"]), float(inner["high"]), inner["log"], step)
    if kind == "Int":
        step = 1 if inner["step"] is None else inner["step"]
        return IntDistribution(inner["low"], inner["high"], inner["log"], step)
    return CategoricalDistribution([_plain_choice(choice) for choice in inner["choices"]["choices"]])


def read_value(dist: Distribution, value: dict[str, Any]) -> Any:
    """Give the value that the journal spells so."""
    ((kind, inner),) = value.items()
    if isinstance(dist, CategoricalDistribution):
        return dist.choices[inner]
    return float(inner) if kind == "F64" else inner


def number(value: Any) -> float | str:
    """Give a number as JSON of the journal: those that are not finite are texts."""
    plain = float(value)
    if math.isfinite(plain):
        return plain
    return "NaN" if math.isnan(plain) else "Infinity" if plain > 0 else "-Infinity"


def _plain_choice(choice: dict[str, Any]) -> Choice:
    value = choice["value"]
    plain: Choice = value["value"]
    return float(value["value"]) if value["type"] == "float" else plain


def _choice(name: str, choice: Choice) -> dict[str, Any]:
    kinds = {str: "string", bool: "bool", int: "int", float: "float", type(None): "null"}
    kind = kinds.get(type(choice))
    if kind is None:
        raise ConflictError(
            f"parameter {name!r}: {choice!r} is no plain value; choose by a name for it and look it up"
        )
    value = number(choice) if isinstance(choice, float) else choice
    return {"label": str(choice), "value": {"type": kind, "value": value}}


def _on_step(low: float, high: float, step: float) -> float:
    if not (step > 0 and math.isfinite(high) and math.isfinite(low) and high >= low):
        return high
    steps = math.floor((high - low) / step + 1e-8)
    return min(high, low + steps * step)
