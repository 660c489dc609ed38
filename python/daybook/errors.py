"""What the errors of all packages have in common."""

from __future__ import annotations

import errno as codes
import os
from typing import Any, Self


class Error(Exception):
    """Anything that went wrong with a record.

    Its attributes say where: what does not apply is ``None``.
    """

    path: str | None
    """The file."""
    section: str | None
    """Which part of the file."""
    offset: int | None
    """Where that part starts, in bytes from the start of the file."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.path = None
        self.section = None
        self.offset = None

    @classmethod
    def of(cls, message: str, **facts: Any) -> Self:
        """Make an error with facts as attributes; the native module calls this."""
        error = cls(message)
        error._tell(facts)
        return error

    def _tell(self, facts: dict[str, Any]) -> None:
        for name, value in facts.items():
            setattr(self, name, os.fspath(value) if isinstance(value, os.PathLike) else value)


class SystemCallError(Error, OSError):
    """The operating system refused; ``errno`` says why.

    What is raised is also a ``FileNotFoundError``, ``FileExistsError`` or ``PermissionError`` where
    Python itself would raise one.
    """

    @classmethod
    def of(cls, message: str, **facts: Any) -> Self:
        """Make the error of the class that its ``errno`` stands for."""
        twin = _TWINS.get(facts.get("errno"))
        wanted: type[Self] = _both(cls, twin) if twin else cls
        error = wanted(message)
        error._tell(facts)
        error.filename = error.path
        return error

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""

    def __reduce__(self) -> tuple[Any, ...]:
        return (_again, (_plain(type(self)), str(self), self.__dict__ | {"errno": self.errno}))


_TWINS: dict[int | None, type[OSError]] = {
    codes.ENOENT: FileNotFoundError,
    codes.EEXIST: FileExistsError,
    codes.EACCES: PermissionError,
    codes.EPERM: PermissionError,
}

_made: dict[tuple[type, type], Any] = {}


def _both(cls: type[Any], twin: type[OSError]) -> Any:
    if issubclass(cls, twin):
        return cls
    if (cls, twin) not in _made:
        members = {"__module__": cls.__module__, "__doc__": cls.__doc__, "_plain": cls}
        _made[cls, twin] = type(cls.__name__, (cls, twin), members)
    return _made[cls, twin]


def _plain(cls: type[Any]) -> Any:
    return getattr(cls, "_plain", cls)


def _again(cls: Any, message: str, facts: dict[str, Any]) -> Any:
    return cls.of(message, **facts)
