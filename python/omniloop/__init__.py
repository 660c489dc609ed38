"""OmniLoop: a tamper-evident flight recorder of control and training loops.

A run is a journal, ``run.omni``, or a rotated set of them. :class:`TrainingLoop` records a loop;
:class:`StateJournal` and :class:`Recorder` write single records; :class:`JournalPlayer` and
:class:`SegmentedPlayer` read; :func:`verify_chain` proves that nothing was changed.
"""

from enum import StrEnum

from daybook._native import (
    Durability,
    FrameRecord,
    Recorder,
    RotationPolicy,
    Stamp,
    StateJournal,
    journal_segments,
    verify_chain,
)
from omniloop._loop import TrainingLoop
from omniloop._players import JournalPlayer, SegmentedPlayer
from omniloop.errors import (
    CorruptError,
    CrcError,
    Error,
    IncompleteError,
    JournalIOError,
    LoopHalted,
    MisuseError,
    UnsupportedError,
)

__all__ = [
    "CorruptError",
    "CrcError",
    "Durability",
    "Error",
    "FrameKind",
    "FrameRecord",
    "IncompleteError",
    "JournalIOError",
    "JournalPlayer",
    "LoopHalted",
    "MisuseError",
    "Recorder",
    "RotationPolicy",
    "SegmentedPlayer",
    "Stamp",
    "StateJournal",
    "TrainingLoop",
    "UnsupportedError",
    "journal_segments",
    "verify_chain",
]


class FrameKind(StrEnum):
    """The kind of a record."""

    TELEMETRY = "telemetry"
    MUTATION = "mutation"
    CONTROL = "control"
    LIFECYCLE = "lifecycle"
    HASH = "hash"
    INPUT = "input"
    CHAIN = "chain"
    SIGNATURE = "signature"
    GUARDRAIL = "guardrail"
