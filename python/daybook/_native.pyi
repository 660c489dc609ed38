"""The native half of the packages."""

import os
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias, TypedDict, final

__all__ = [
    "Control",
    "Durability",
    "FrameRecord",
    "InputReplayer",
    "JournalPlayer",
    "NativeStudy",
    "NativeTrial",
    "Recorder",
    "RotationPolicy",
    "SegmentedPlayer",
    "Stamp",
    "StateJournal",
    "StudyFile",
    "__version__",
    "cause_of",
    "effects_of",
    "find_divergence",
    "journal_segments",
    "open_study",
    "param_fits",
    "verify_chain",
]

__version__: str

_Path: TypeAlias = str | os.PathLike[str]
_Kind: TypeAlias = Literal[
    "telemetry",
    "mutation",
    "control",
    "lifecycle",
    "hash",
    "input",
    "chain",
    "signature",
    "guardrail",
]

class _Sealed(TypedDict):
    paths: list[str]
    record_count: int
    head: str

class _Closed(_Sealed):
    dropped: int

class _Verification(TypedDict):
    ok: bool
    declared_chained: bool
    checkpoints: int
    head: str | None
    break_at: dict[str, Any] | None
    records: int
    finalized: bool
    unverified_tail: int
    truncated: bool
    index: Literal["consistent", "inconsistent", "absent"]
    trailing_bytes: int

@final
class FrameRecord:
    """One record of a journal."""

    @property
    def kind(self) -> _Kind:
        """What it is."""

    @property
    def tick(self) -> int:
        """The frame counter, stamped by the writer."""

    @property
    def mono_ns(self) -> int:
        """Nanoseconds since the journal was created, by a clock that never goes back."""

    @property
    def wall_ns(self) -> int:
        """Nanoseconds since the Unix epoch."""

    @property
    def offset(self) -> int:
        """Where its header starts in its file, in bytes."""

    @property
    def payload(self) -> bytes:
        """Its bytes, as written."""

    def json(self) -> Any:
        """Give the payload parsed as JSON.

        Raises `ValueError` when it is none; that of a chain or signature record never is.
        """

    def __eq__(self, other: object, /) -> bool: ...

@final
class Stamp:
    """What a journal stamped onto a record."""

    @property
    def tick(self) -> int:
        """The frame counter."""

    @property
    def mono_ns(self) -> int:
        """Nanoseconds since the journal was created."""

    @property
    def wall_ns(self) -> int:
        """Nanoseconds since the Unix epoch."""

    def __eq__(self, other: object, /) -> bool: ...

@final
class Durability:
    """When appended records become durable; a sealed journal always is."""

    @staticmethod
    def buffered() -> Durability:
        """Give the default: at seal, and in the operating system's hands before."""

    @staticmethod
    def each_record() -> Durability:
        """Before each append returns."""

    @staticmethod
    def every_n(records: int) -> Durability:
        """After every so many records, at least one."""

    @staticmethod
    def every_ms(milliseconds: int) -> Durability:
        """When so many milliseconds have passed since the last sync."""

    def __eq__(self, other: object, /) -> bool: ...

@final
class RotationPolicy:
    """When to start a new segment; a record is never split."""

    def __new__(
        cls,
        *,
        max_bytes: int | None = None,
        max_records: int | None = None,
        max_age: float | None = None,
    ) -> Self:
        """Bound a segment's bytes, its records, and the seconds from its creation to its last one."""

    def __eq__(self, other: object, /) -> bool: ...

@final
class StateJournal:
    """An open journal: every call writes, and raises what went wrong.

    After the first error of the disk every later call raises it again. As a context manager it is
    sealed at the end, also by an exception.
    """

    def __new__(
        cls,
        path: _Path,
        *,
        rotation: RotationPolicy | None = None,
        durability: Durability | None = None,
        overwrite: bool = False,
        signing_key: str | bytes | None = None,
        sign_every: int | None = None,
    ) -> Self:
        """Create the journal; `FileExistsError` when the path exists and ``overwrite`` is not set.

        ``signing_key`` is the PEM text of an Ed25519 private key (PKCS#8), or its 32 secret bytes:
        every segment's closing checkpoint is signed, and every ``sign_every``-th before it.
        """

    @property
    def path(self) -> str:
        """The path of segment 0."""

    @property
    def last_stamp(self) -> Stamp:
        """The stamp of the last record."""

    @property
    def segment_ordinal(self) -> int:
        """The segment that is being written."""

    def append(self, kind_name: _Kind, value: Any) -> Stamp:
        """Append a record, stamped with the time of this call.

        ``value`` is taken as it is when it is bytes or text, and as JSON otherwise. Telemetry advances
        the tick by one.
        """

    def flush(self) -> None:
        """Hand everything to the operating system: other processes can read it."""

    def sync(self) -> None:
        """Make everything durable."""

    def seal(self) -> _Sealed:
        """Write closing checkpoint, index and trailer; the journal is durable, and closed."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
        /,
    ) -> None: ...

@final
class Control:
    """The socket at which a recorded loop is attended; :class:`omniloop.TrainingLoop` has one."""

    def __new__(
        cls,
        path: _Path,
        run: _Path,
        *,
        halt_policy: Literal["continue", "halt", "exit"] = "halt",
    ) -> Self:
        """Listen at ``path`` for the loop that is recorded at ``run``.

        A socket that nobody listens at is replaced. ``halt_policy`` says what the loss of the last
        controller means.
        """

    def declare(self, name: str, param: dict[str, Any]) -> None:
        """Take the ``value``, ``min`` and ``max`` that a parameter has from now on."""

    @property
    def has_watches(self) -> bool:
        """Whether `count` needs the state."""

    @property
    def halted(self) -> str | None:
        """Why the loop is halted; ``None`` while it goes on, steps included."""

    def halt(self, recorder: Recorder, reason: str) -> None:
        """Halt the loop on its own behalf, and record that."""

    def resume(self, recorder: Recorder, reason: str) -> bool:
        """Let it go on, and record that; false when it was not halted."""

    def count(self, tick: int, state: dict[str, Any] | None = None) -> None:
        """Tell that a tick was recorded."""

    def attend(self, recorder: Recorder) -> tuple[list[tuple[str, Any]], str | None]:
        """Carry out and record what was asked, and wait while the loop is halted.

        Gives the changes that the loop has to take over, and why it is to end. It comes back from a
        halt when there are changes, too: whoever calls calls again until there are none.
        """

    def close(self) -> None:
        """Refuse what waits, and remove the socket."""

@final
class Recorder:
    """A journal behind a bounded queue and a thread: no call waits for the disk.

    As a context manager it is sealed at the end, also by an exception.
    """

    def __new__(
        cls,
        path: _Path,
        *,
        policy: Literal["block", "drop_telemetry"] = "block",
        queue_records: int = 8192,
        queue_bytes: int = 67108864,
        flush_interval: float = 0.2,
        rotation: RotationPolicy | None = None,
        durability: Durability | None = None,
        overwrite: bool = False,
        signing_key: str | bytes | None = None,
        sign_every: int | None = None,
    ) -> Self:
        """Create the journal and start its thread.

        When the queue is full, ``block`` waits for a place, and ``drop_telemetry`` drops telemetry,
        counts it and records the loss. After ``flush_interval`` seconds at the latest other processes
        can read a record. The rest is as for `StateJournal`.
        """

    @property
    def path(self) -> str:
        """The path of segment 0."""

    @property
    def dropped(self) -> int:
        """Telemetry records dropped so far."""

    @property
    def written(self) -> int:
        """Records written so far, not necessarily durable."""

    def record(self, kind_name: _Kind, value: Any) -> bool:
        """Hand over a record as `StateJournal.append` takes it; false when it was dropped."""

    def check(self) -> None:
        """Raise the first failure of the thread, if there was one."""

    def close(self) -> _Closed:
        """Write what is queued and seal the journal."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
        /,
    ) -> None: ...

class JournalPlayer:
    """Reads one file."""

    def __new__(cls, path: _Path, *, lenient: bool = False) -> Self:
        """Open a file; ``lenient`` skips unknown kinds and does without an index that does not fit."""

    @property
    def path(self) -> str:
        """The file."""

    @property
    def lenient(self) -> bool:
        """How it was opened."""

    def version(self) -> int:
        """Give the format version: 2, or 1 for a legacy file."""

    def record_count(self) -> int | None:
        """Give the number of records of every kind, from the trailer; ``None`` if never sealed."""

    def is_segmented(self) -> bool:
        """Tell whether this file is part of a rotated set."""

    def segment_index(self) -> int | None:
        """Give its ordinal in the set, ``None`` for a journal without rotation."""

    def created_wall_ns(self) -> int:
        """Give the time of its creation, in nanoseconds since the Unix epoch."""

    def is_finalized(self) -> bool:
        """Tell whether the file was sealed."""

    def is_truncated(self) -> bool:
        """Tell whether reading came to a record that the end of the file cuts off."""

    def position(self) -> int:
        """Give the offset of the next record, in bytes."""

    def seek_to_tick(self, tick: int) -> None:
        """Make the next read return the first record whose tick is not less."""

    def refresh(self) -> None:
        """Look again at a file that is being written."""

    def read_next_record(self) -> FrameRecord | None:
        """Give the next record, chain and signature records included; ``None`` at the end."""

    def read_next_data_record(self) -> FrameRecord | None:
        """Give the next record that describes the run; ``None`` at the end."""

class SegmentedPlayer:
    """Reads a rotated set, or a journal without rotation, as one stream."""

    def __new__(cls, path: _Path, *, lenient: bool = False) -> Self:
        """Open the set that starts at a path; ``lenient`` as for `JournalPlayer`."""

    @property
    def path(self) -> str:
        """The path of segment 0."""

    @property
    def lenient(self) -> bool:
        """How it was opened."""

    def version(self) -> int:
        """Give the format version of the segment that is being read."""

    def segment_count(self) -> int:
        """Give the number of segments."""

    def segment_index(self) -> int | None:
        """Give the ordinal of the segment that is being read, ``None`` for a journal without rotation."""

    def is_segmented(self) -> bool:
        """Tell whether this is a rotated set."""

    def paths(self) -> list[str]:
        """Give the files, in order."""

    def stranded_paths(self) -> list[str]:
        """Give the files behind the first missing segment: reading never comes to them."""

    def check_complete(self) -> None:
        """Raise `CorruptError` when files stand behind a missing segment."""

    def record_count(self) -> int | None:
        """Give the number of records of all sealed segments; ``None`` when none is sealed."""

    def is_finalized(self) -> bool:
        """Tell whether the segment that is being read is sealed and the last."""

    def is_truncated(self) -> bool:
        """Tell whether reading came to a record that the end of a file cuts off."""

    def seek_to_tick(self, tick: int) -> None:
        """Make the next read return the first record whose tick is not less."""

    def refresh(self) -> None:
        """Look again at files that are being written."""

    def read_next_record(self) -> FrameRecord | None:
        """Give the next record, chain and signature records included; ``None`` at the end."""

    def read_next_data_record(self) -> FrameRecord | None:
        """Give the next record that describes the run; ``None`` at the end."""

def cause_of(path: _Path, name: str, tick: int | None = None) -> list[dict[str, Any]]:
    """Tell what led to the value of a variable at a tick, or at the end, newest first.

    Each link is a dict: ``role`` is set, related or principal; ``kind``, ``payload``, ``segment``,
    ``offset``, ``tick``, ``mono_ns`` and ``wall_ns`` are those of the record; ``old`` and ``new`` the
    values, ``principal`` who was behind it. Empty when no record says that it was set.
    """

def effects_of(path: _Path, correlation_id: str) -> dict[str, Any]:
    """Tell what has a correlation id (``records``), and what came of each change (``effects``).

    An effect has ``name``, ``new``, ``mutation``, where the value first showed (``seen``, or ``None``),
    the ``guardrails`` and ``trips`` that it met, and where the variable was set again (``ended``).
    """

def find_divergence(
    a: _Path,
    b: _Path,
    *,
    ignore: list[str] | None = None,
    tolerance: float = 0.0,
    ignore_inputs: bool = False,
) -> dict[str, Any] | None:
    """Find the first difference of two runs; ``None`` when there is none.

    The answer has ``tick``, ``subject`` (input, hash, telemetry or end), ``field``, what either run has
    there (``a`` and ``b``, each with ``place`` and ``value``), and ``last_equal``.
    """

@final
class InputReplayer:
    """Hands the inputs of a run back, in their order for each channel and tick.

    Iterating over it gives all of them, as dicts.
    """

    def __new__(cls, path: _Path, *, strict: bool = True) -> Self:
        """Open a run. If strict, asking for an input that was not recorded is an error."""

    def next_input(self, channel: str, tick: int) -> Any:
        """Give the next input of a channel at a tick. Ticks are asked for in their order."""

    def seed(self, name: str = "default") -> Any:
        """Give the seed of a random number generator."""

    @property
    def unused(self) -> int:
        """How many inputs of ticks that have passed nobody asked for."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> dict[str, Any]: ...

def journal_segments(path: _Path) -> list[str]:
    """Give the files of the set that starts at a path, in order, up to the first missing one."""

def verify_chain(path: _Path) -> _Verification:
    """Verify the chain of one file, front to back; the index is never asked.

    ``ok`` is false if anything failed, and ``break_at`` says where: a dict whose ``type`` is one of
    DigestMismatch, CrcMismatch, MalformedCheckpoint, NotChained, ChainedButNoCheckpoints. ``head`` is
    the value that the last checkpoint carries, in hex. ``unverified_tail`` counts the records that
    nothing in the file covers yet.
    """

@final
class StudyFile:
    """A study file as its operations on raw trials: what other tuners' storages are built upon.

    Values that are not finite are spelled as the journal does, "NaN", "Infinity" and "-Infinity".
    """

    def __new__(cls, path: _Path, *, create: bool = True, durability: str = "full", worker: int = 0) -> Self:
        """Open a study file, or create it."""

    @property
    def path(self) -> str:
        """The file."""

    def create_study(self, config: dict[str, Any]) -> int:
        """Create a study and give its identity."""

    def set_study_user_attr(self, study: int, key: str, value: Any) -> None:
        """Set a user attribute of a study."""

    def create_trial(self, study: int, changes: list[dict[str, Any]]) -> int:
        """Create a raw trial, change it in the same commit, and give its identity."""

    def change_trial(self, trial: int, changes: list[dict[str, Any]]) -> None:
        """Change a raw trial: operations of the journal without the trial, in one commit."""

    def studies(self) -> list[dict[str, Any]]:
        """Give all studies."""

    def changes_since(self, seq: int) -> tuple[int, list[dict[str, Any]]]:
        """Give the trials that changed after a sequence number, and the number to ask with next."""

def param_fits(param: dict[str, Any]) -> bool:
    """Tell whether the journal takes a parameter: its distribution has values, and this is one."""

@final
class NativeTrial:
    """A trial that runs; gone once it was told."""

    @property
    def id(self) -> int:
        """Its identity in the file."""

    @property
    def number(self) -> int:
        """Its number in the study."""

    def suggest(self, name: str, dist: str | dict[str, Any]) -> Any:
        """Suggest a value of a distribution; for a choice, its place in the list."""

    def report(self, step: int, values: list[float]) -> None:
        """Report intermediate values, one per objective."""

    def should_prune(self) -> bool:
        """Ask the scheduler."""

    def set_user_attr(self, key: str, value: Any) -> None:
        """Set an attribute."""

    def set_constraint(self, name: str, value: float) -> None:
        """Record how a constraint is met."""

    def keep_run(self, run: str | os.PathLike[str]) -> dict[str, Any]:
        """Verify a run and keep path, name and head of it; the attributes that were set."""

    def reports(self) -> list[tuple[int, list[float]]]:
        """Give what was reported, with what earlier owners did."""

    def params(self) -> dict[str, Any]:
        """Give the parameters, as the journal spells them."""

@final
class NativeStudy:
    """A study that is open."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def id(self) -> str | None:
        """What runs and traces call it; ``None`` in memory."""

    @property
    def path(self) -> str | None:
        """The file; ``None`` in memory."""

    @property
    def config(self) -> dict[str, Any]:
        """What it is about, as the journal spells it."""

    @property
    def sampler(self) -> tuple[str, dict[str, Any]]:
        """Name and options of what chooses parameters."""

    @property
    def scheduler(self) -> tuple[str, dict[str, Any]]:
        """Name and options of what decides which trials go on."""

    def ask(self, budget: int | None = None) -> NativeTrial:
        """Start a trial, if the study has fewer than ``budget`` of them."""

    def ask_any(self, budget: int | None = None) -> NativeTrial:
        """Start a trial as `ask` does, or else one that a dead worker left to be tried again."""

    def add(self, trial: dict[str, Any]) -> int:
        """Add a trial that was run elsewhere, and give its identity."""

    def tell(
        self,
        trial: NativeTrial,
        state: str,
        values: list[float] | None = None,
        message: str | None = None,
    ) -> str:
        """End a trial as Complete, Pruned, Failed or Released, and give the state that was recorded."""

    def enqueue(self, params: dict[str, Any], skip_if_known: bool) -> int | None:
        """Enqueue a trial; ``None`` when it is known and was skipped."""

    def trials(self) -> list[dict[str, Any]]:
        """Give all trials, by number."""

    def trial(self, id: int) -> dict[str, Any]:
        """Give a trial by its identity."""

    def best_trial(self) -> dict[str, Any]:
        """Give the best trial."""

    def best_trials(self) -> list[dict[str, Any]]:
        """Give the trials that no other dominates."""

    def user_attrs(self) -> dict[str, Any]:
        """Give the attributes of the study."""

    def set_user_attr(self, key: str, value: Any) -> None:
        """Set an attribute of the study."""

    def importances(self, objective: int, method: str) -> list[tuple[str, float]]:
        """Give the shares of the parameters in an objective, the largest first: fanova or variance."""

    def set_budget(self, trials: int | None) -> None:
        """Say how many trials the study is to have: what sampler and scheduler plan with."""

    def check_process(self) -> None:
        """Raise in a forked child, before any lock is taken that a thread of the parent may have held."""

    def fail_stale(self, grace: float) -> int:
        """Fail running trials whose owner fell silent for so many seconds; how many there were."""

def open_study(how: str, settings: dict[str, Any]) -> NativeStudy:
    """Open a study: create, load or load_or_create."""
