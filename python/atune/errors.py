"""What goes wrong with a study: one class per kind of error of the core."""

from __future__ import annotations

from daybook import errors


class Error(errors.Error):
    """Anything that goes wrong with a study."""


class StudyIOError(Error, errors.SystemCallError):
    """The operating system refused: free space, fix permissions, try again."""


class UnsettledError(Error, errors.SystemCallError):
    """An operation was written, but may not survive a power cut: its folder cannot be synced."""


class CorruptError(Error, OSError):
    """The bytes of the study file contradict its format."""


class NotAStudyError(Error, ValueError):
    """The file is no study."""


class UnsupportedError(Error, ValueError):
    """The file was written by a newer format."""


class LeaseLostError(Error, TimeoutError):
    """The machine, or this process, stops for longer than the lease, again and again."""


class ForkedError(Error, RuntimeError):
    """The study was opened by the process that this one was forked from; open it again."""


class HistoryChangedError(Error, RuntimeError):
    """The file no longer contains the history that was read from it before."""


class MisuseError(Error, ValueError):
    """The call makes no sense, whatever the study."""


class RefusedError(Error, ValueError):
    """The state machine of studies refuses the operation; nothing was written."""


class UnknownStudyError(RefusedError, KeyError):
    """No study has this identity."""

    __str__ = Error.__str__


class UnknownTrialError(RefusedError, KeyError):
    """No trial has this identity."""

    __str__ = Error.__str__


class UnknownNameError(Error, KeyError):
    """No study has this name; the message lists those that exist."""

    __str__ = Error.__str__


class NameTakenError(RefusedError):
    """A study of this name exists."""


class EndedError(RefusedError):
    """The trial has ended."""


class WrongFromError(RefusedError):
    """The trial is in another state: somebody else was first."""


class TooLongError(RefusedError):
    """A record is longer than the journal takes."""


class ReservedKeyError(RefusedError):
    """The key of an attribute is in the store's own namespace."""


class BadParamError(RefusedError):
    """A parameter does not belong to its distribution."""


class SpaceError(Error, ValueError):
    """A distribution makes no sense, or a value is none of its values."""


class ConflictError(Error, ValueError):
    """The study's other trials draw the parameter from something else altogether."""


class AskedTwiceError(Error, ValueError):
    """The trial asked for the parameter before, from another distribution."""


class SamplerError(Error, ValueError):
    """No such sampler, options that it does not have, or nothing that it could draw."""


class SamplerSpentError(Error, RuntimeError):
    """The sampler has drawn all that it ever will: a grid, say, is done."""


class SchedulerError(Error, ValueError):
    """No such scheduler, or options that it does not have."""


class UnknownSchedulerError(SchedulerError):
    """The study names a scheduler that this build does not know."""


class OtherComponentError(Error, ValueError):
    """The study was made with another sampler or scheduler, or with other options."""


class OtherConfigError(Error, ValueError):
    """A study of this name exists, with another configuration."""


class BudgetSpentError(Error, RuntimeError):
    """The study has all the trials that it may have."""


class StoppedError(Error, RuntimeError):
    """The study was stopped: no further trials are started."""


class ObjectiveError(Error, RuntimeError):
    """An objective failed."""


class BadTrialError(Error, ValueError):
    """A trial that is not whole."""


class NoBestError(Error, ValueError):
    """No trial is complete with its constraints met."""


class SeveralObjectivesError(Error, RuntimeError):
    """There is more than one objective, and so no one best trial."""


class FenceLostError(Error, RuntimeError):
    """The trial was taken from this worker, which was silent for too long."""


class NotKeptError(Error, RuntimeError):
    """Some of a trial's gathered changes were refused."""


class ThreadError(Error, RuntimeError):
    """The system gives no thread."""
