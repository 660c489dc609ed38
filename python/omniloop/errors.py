"""What goes wrong with a journal, by who must act."""

from __future__ import annotations

from daybook import errors

__all__ = [
    "CorruptError",
    "CrcError",
    "Error",
    "IncompleteError",
    "JournalIOError",
    "LoopHalted",
    "MisuseError",
    "UnsupportedError",
]


class Error(errors.Error):
    """Anything that goes wrong with a journal."""

    tick: int | None
    """The tick of the record, or of the last one before the damage."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.tick = None


class JournalIOError(Error, errors.SystemCallError):
    """The operating system refused: free space, fix permissions, try again."""


class CorruptError(Error, OSError):
    """The bytes contradict the format; ``daybook verify`` tells more, ``daybook recover`` saves the rest."""


class CrcError(CorruptError):
    """A payload does not have its header's checksum."""


class IncompleteError(Error, EOFError):
    """The file ends before its header does: nothing was recorded, or only its start was copied."""


class UnsupportedError(Error, ValueError):
    """The file is no journal, or a newer version wrote it."""


class MisuseError(Error, ValueError):
    """The call makes no sense, whatever the data: a closed journal, an unusable key, a bad argument."""


class LoopHalted(Error):  # noqa: N818 (what happened is no error of the caller)
    """A watch tripped, and its policy is to halt the loop."""

    name: str
    """The watched variable."""
    value: object
    """Its value when the watch tripped."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.name = ""
        self.value = None
