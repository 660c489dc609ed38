"""Readers of journals: what Python adds to the native ones."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self, cast, overload

from daybook import _native
from omniloop import _tables
from omniloop._tables import wall_ns

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from daybook._native import FrameRecord


class _Reading:
    """What both players can do beyond reading one record after the other."""

    def _player(self) -> JournalPlayer | SegmentedPlayer:
        return cast("JournalPlayer | SegmentedPlayer", self)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> FrameRecord:
        """Give the next record that describes the run."""
        record = self._player().read_next_data_record()
        if record is None:
            raise StopIteration
        return record

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def ticks(self, start: int | None = None, stop: int | None = None) -> Iterator[FrameRecord]:
        """Give the records with ``start <= tick < stop``, without moving this player's place."""
        player = self._player()
        other = type(player)(player.path, lenient=player.lenient)
        if start is not None:
            other.seek_to_tick(max(start, 0))
        while (record := other.read_next_data_record()) is not None:
            if stop is not None and record.tick >= stop:
                return
            yield record

    def times(
        self, start: datetime | int | None = None, stop: datetime | int | None = None
    ) -> Iterator[FrameRecord]:
        """Give the records with ``start <= wall_ns < stop``, without moving this player's place.

        A moment is a ``datetime`` with a time zone, or nanoseconds since the Unix epoch. A clock that
        was set back gives a journal whose times are not in order, so that every record is looked at.
        """
        begin = None if start is None else wall_ns(start)
        end = None if stop is None else wall_ns(stop)
        for record in self.ticks():
            if (begin is None or record.wall_ns >= begin) and (end is None or record.wall_ns < end):
                yield record

    @overload
    def __getitem__(self, ticks: slice) -> list[FrameRecord]: ...
    @overload
    def __getitem__(self, ticks: int) -> list[FrameRecord]: ...
    def __getitem__(self, ticks: slice | int) -> list[FrameRecord]:
        """Give the records of a tick, or of the ticks from one up to another.

        ``player[10]``, ``player[10:20]``; both ends of a slice may also be a ``datetime``.
        """
        if not isinstance(ticks, slice):
            return list(self.ticks(ticks, ticks + 1))
        if ticks.step is not None:
            raise ValueError("records are sliced without a step")
        if isinstance(ticks.start, datetime) or isinstance(ticks.stop, datetime):
            return list(self.times(ticks.start, ticks.stop))
        for end in (ticks.start, ticks.stop):
            if end is not None and end < 0:
                raise ValueError("ticks count from the start of the run")
        return list(self.ticks(ticks.start, ticks.stop))

    def to_columns(self, kind: str | None = "telemetry") -> dict[str, list[Any]]:
        """Give the whole journal as columns, without moving this player's place.

        The stamps are the columns ``tick``, ``mono_ns`` and ``wall_ns``; each member of the payloads
        has its own, with dotted names for objects in objects. ``kind`` says which records; ``None``
        takes all that describe the run, with a column ``kind``.
        """
        return _tables.columns(self.ticks(), kind)

    def to_pandas(self, kind: str | None = "telemetry") -> pandas.DataFrame:
        """Give :meth:`to_columns` as a pandas data frame."""
        import pandas

        return pandas.DataFrame(self.to_columns(kind))

    def to_polars(self, kind: str | None = "telemetry") -> polars.DataFrame:
        """Give :meth:`to_columns` as a polars data frame.

        A column whose values are of several types is text, with each value in JSON.
        """
        import polars

        named = {name: _tables.uniform(values) for name, values in self.to_columns(kind).items()}
        return polars.DataFrame(named, strict=False)

    def to_arrow(self, kind: str | None = "telemetry") -> pyarrow.Table:
        """Give :meth:`to_columns` as an Arrow table, columns of several types as in :meth:`to_polars`."""
        import pyarrow

        named = {name: _tables.uniform(values) for name, values in self.to_columns(kind).items()}
        return pyarrow.table(named)


class JournalPlayer(_Reading, _native.JournalPlayer):
    """Reads one journal file, or one segment of a rotated set.

    Iterating gives the records that describe the run, from this player's place on.
    """


class SegmentedPlayer(_Reading, _native.SegmentedPlayer):
    """Reads a rotated set, or a journal without rotation, as one stream.

    Iterating gives the records that describe the run, from this player's place on.
    """
