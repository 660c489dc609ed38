"""OmniLoop: a tamper-evident flight recorder of control and training loops.

A run is a journal, ``run.omni``, or a rotated set of them. :class:`TrainingLoop` records a loop;
:class:`StateJournal` and :class:`Recorder` write single records; :class:`JournalPlayer` and
:class:`SegmentedPlayer` read; :func:`verify_chain` proves that nothing was changed.
:func:`cause_of`, :func:`effects_of` and :func:`find_divergence` answer questions about runs, and
:class:`InputReplayer` hands their inputs back.
"""

from enum import StrEnum

from daybook._native import (
    Durability,
    FrameRecord,
    InputReplayer,
    Recorder,
    RotationPolicy,
    Stamp,
    StateJournal,
    cause_of,
    effects_of,
    find_divergence,
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
    "InputReplayer",
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
    "cause_of",
    "effects_of",
    "find_divergence",
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
