"""A journal becomes columns, whatever its payloads are."""

import math

import pytest

from omniloop import JournalPlayer, SegmentedPlayer, StateJournal


@pytest.fixture
def mixed(run):
    with StateJournal(run) as journal:
        journal.append("input", {"channel": "c", "value": 1})
        journal.append("telemetry", {"loss": 1, "at": {"x": 1, "deep": {"y": [1, 2]}}})
        journal.append("telemetry", {"loss": math.nan, "name": "a", "tick": 99})
        journal.append("telemetry", {"loss": math.inf, "name": 3})
        journal.append("telemetry", b"\xff not JSON")
    return run


def test_members_become_columns_with_dotted_names(mixed):
    table = JournalPlayer(mixed).to_columns()
    assert {len(column) for column in table.values()} == {4}
    assert table["tick"] == [1, 2, 3, 4]
    assert table["payload.tick"] == [None, 99, None, None]
    assert table["at.x"] == [1, None, None, None]
    assert table["at.deep.y"] == [[1, 2], None, None, None]
    assert table["name"] == [None, "a", 3, None]
    assert table["payload"] == [None, None, None, b"\xff not JSON"]
    loss = table["loss"]
    assert loss[0] == 1
    assert math.isnan(loss[1])
    assert loss[2:] == [math.inf, None]


def test_all_kinds_together_have_a_column_for_the_kind(mixed):
    table = SegmentedPlayer(mixed).to_columns(kind=None)
    assert table["kind"] == ["input"] + ["telemetry"] * 4
    assert table["channel"] == ["c", None, None, None, None]


def test_pandas_takes_the_columns(mixed):
    pytest.importorskip("pandas")
    frame = JournalPlayer(mixed).to_pandas()
    assert list(frame["tick"]) == [1, 2, 3, 4]
    assert frame["loss"].dtype == float


def test_polars_takes_the_columns(mixed):
    pytest.importorskip("polars")
    frame = SegmentedPlayer(mixed).to_polars()
    assert frame["tick"].to_list() == [1, 2, 3, 4]
    assert frame["name"].to_list() == [None, "a", "3", None]
    assert frame["at.deep.y"].to_list() == [[1, 2], None, None, None]


def test_arrow_takes_the_columns(mixed):
    pytest.importorskip("pyarrow")
    table = SegmentedPlayer(mixed).to_arrow()
    assert table.num_rows == 4
    assert str(table.schema.field("loss").type) == "double"
    assert table["name"].to_pylist() == [None, "a", "3", None]


def test_an_empty_journal_is_an_empty_table(run):
    StateJournal(run).seal()
    assert JournalPlayer(run).to_columns() == {"tick": [], "mono_ns": [], "wall_ns": []}
