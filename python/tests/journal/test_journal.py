"""Records written from Python are read back as written, by Python and by the `daybook` program."""

import json
import os
import struct
from datetime import UTC, datetime, timedelta

import pytest

from omniloop import (
    Durability,
    FrameKind,
    JournalPlayer,
    Recorder,
    RotationPolicy,
    SegmentedPlayer,
    StateJournal,
    journal_segments,
    verify_chain,
)

KEYS = {
    "ok",
    "declared_chained",
    "checkpoints",
    "head",
    "break_at",
    "records",
    "finalized",
    "unverified_tail",
    "truncated",
    "index",
    "trailing_bytes",
}


def write(path, ticks, **options):
    with StateJournal(path, **options) as journal:
        for number in range(ticks):
            journal.append("telemetry", {"number": number})
    return path


def test_a_record_comes_back_with_its_stamp_and_bytes(run):
    with StateJournal(run) as journal:
        stamp = journal.append(FrameKind.TELEMETRY, {"loss": 0.5, "näme": "ü"})
        journal.append("input", b"\x00raw")
        assert journal.append("control", '{"command":"step"}').tick == 1
    player = JournalPlayer(run)
    record = player.read_next_record()
    assert (record.kind, record.tick, record.mono_ns, record.wall_ns) == (
        "telemetry",
        1,
        stamp.mono_ns,
        stamp.wall_ns,
    )
    assert record.json() == {"loss": 0.5, "näme": "ü"}
    assert record.payload.decode() == '{"loss":0.5,"näme":"ü"}'
    raw = player.read_next_record()
    assert raw.payload == b"\x00raw"
    with pytest.raises(ValueError):
        raw.json()
    assert record == JournalPlayer(run).read_next_record() != raw


def test_the_player_tells_what_the_seed_names(run):
    write(run, 200)
    player = JournalPlayer(str(run))
    assert player.version() == 2
    # 200 records, a checkpoint after each 64th, and the closing one.
    assert player.record_count() == 204
    assert player.is_segmented() is False
    assert player.segment_index() is None
    player.seek_to_tick(150)
    assert player.read_next_record().tick == 150
    kinds = set()
    while (record := player.read_next_record()) is not None:
        kinds.add(record.kind)
    assert kinds == {"telemetry", "chain"}
    player.seek_to_tick(0)
    assert {record.kind for record in player} == {"telemetry"}
    assert not player.is_truncated()


def test_a_rotated_set_reads_as_one_stream(run):
    write(run, 25, rotation=RotationPolicy(max_records=10))
    names = journal_segments(run)
    assert [os.path.basename(name) for name in names] == ["run.omni", "run.1.omni", "run.2.omni"]
    player = SegmentedPlayer(run)
    assert player.segment_count() == 3
    assert player.paths() == names
    assert player.record_count() == 28
    assert [record.tick for record in player] == list(range(1, 26))
    player.seek_to_tick(15)
    assert player.read_next_data_record().tick == 15
    assert (player.segment_index(), JournalPlayer(names[2]).segment_index()) == (1, 2)
    os.remove(names[1])
    with pytest.raises(OSError):
        SegmentedPlayer(run).check_complete()


def test_an_unrotated_journal_is_a_set_of_one(run):
    write(run, 3)
    player = SegmentedPlayer(run)
    assert player.segment_count() == 1
    assert len(list(player)) == 3


def test_slices_by_tick_take_what_lies_between_and_leave_the_place(run):
    write(run, 100)
    for player in (JournalPlayer(run), SegmentedPlayer(run)):
        player.read_next_record()
        assert [record.tick for record in player[10:13]] == [10, 11, 12]
        assert [record.tick for record in player[:3]] == [1, 2]
        assert [record.tick for record in player[99:]] == [99, 100]
        assert [record.json()["number"] for record in player[7]] == [6]
        assert player[50:50] == player[1000:] == []
        assert player.read_next_record().tick == 2
        with pytest.raises(ValueError):
            player[1:9:2]
        with pytest.raises(ValueError):
            player[-3:]


def test_slices_by_time_take_what_lies_between(run):
    write(run, 50)
    player = JournalPlayer(run)
    middle = player[25][0].wall_ns
    assert [record.tick for record in player.times(stop=middle)] == list(range(1, 25))
    assert [record.tick for record in player.times(start=middle)] == list(range(25, 51))
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    after = epoch + timedelta(microseconds=player[50][0].wall_ns // 1000 + 1)
    assert len(player[epoch:after]) == 50
    assert player[after : after + timedelta(hours=1)] == []
    with pytest.raises(ValueError, match="time zone"):
        player[datetime(2020, 1, 1) :]


def test_the_verification_has_the_seeds_keys_and_finds_a_changed_byte(run):
    write(run, 100)
    result = verify_chain(run)
    assert set(result) == KEYS
    assert result["ok"] is True
    assert result["declared_chained"] is True
    assert result["checkpoints"] == 2
    assert len(bytes.fromhex(result["head"])) == 32
    assert result["break_at"] is None
    damaged = bytearray(run.read_bytes())
    damaged[32 + 36 + 3] ^= 1
    run.write_bytes(damaged)
    result = verify_chain(run)
    assert result["ok"] is False
    assert result["break_at"] == {"type": "CrcMismatch", "offset": 32, "tick": 1}


def test_a_changed_time_breaks_the_digest(run):
    write(run, 100)
    damaged = bytearray(run.read_bytes())
    damaged[32 + 24] ^= 1
    run.write_bytes(damaged)
    assert verify_chain(run)["break_at"]["type"] == "DigestMismatch"


def test_a_journal_that_was_not_sealed_says_so_and_a_torn_tail_is_no_error(run):
    journal = StateJournal(run)
    for number in range(10):
        journal.append("telemetry", {"number": number})
    journal.flush()
    content = run.read_bytes()
    journal.seal()
    cut = run.with_name("cut.omni")
    cut.write_bytes(content[:-3])
    player = JournalPlayer(cut)
    assert player.record_count() is None
    assert len(list(player)) == 9
    assert player.is_truncated()
    assert not player.is_finalized()


def test_a_reader_follows_a_journal_that_is_being_written(run):
    with StateJournal(run) as journal:
        journal.append("telemetry", {"a": 1})
        journal.flush()
        player = JournalPlayer(run)
        assert len(list(player)) == 1
        journal.append("telemetry", {"a": 2})
        journal.sync()
        player.refresh()
        assert [record.tick for record in player] == [2]


def test_a_legacy_file_has_version_1(run):
    payload = b'{"loss":1}'
    run.write_bytes((struct.pack("<I", len(payload)) + payload) * 3)
    player = JournalPlayer(run)
    assert player.version() == 1
    assert [record.tick for record in player] == [1, 2, 3]
    assert verify_chain(run)["break_at"] == {"type": "NotChained"}


def test_the_queue_of_a_recorder_ends_up_in_the_journal(run):
    with Recorder(run) as recorder:
        assert all(recorder.record("telemetry", {"number": number}) for number in range(1000))
    assert len(list(JournalPlayer(run))) == 1000
    assert verify_chain(run)["ok"]


def test_a_full_queue_drops_telemetry_and_nothing_else(run):
    with Recorder(run, policy="drop_telemetry", queue_records=1) as recorder:
        kept = sum(recorder.record("telemetry", {"number": number}) for number in range(3000))
        for number in range(10):
            assert recorder.record("input", {"channel": "c", "value": number})
        dropped = recorder.dropped
        closed = recorder.close()
    assert kept + dropped == 3000
    assert closed["dropped"] == dropped
    records = list(JournalPlayer(run))
    assert sum(record.kind == "telemetry" for record in records) == kept
    assert sum(record.kind == "input" for record in records) == 10
    lost = [record.json() for record in records if record.kind == "control"]
    assert sum(record["count"] for record in lost if record["command"] == "drop") == dropped


@pytest.mark.parametrize(
    "durability",
    [
        Durability.buffered(),
        Durability.each_record(),
        Durability.every_n(3),
        Durability.every_ms(1),
    ],
    ids=repr,
)
def test_every_durability_writes_the_same_records(run, durability):
    write(run, 20, durability=durability)
    assert len(list(JournalPlayer(run))) == 20


def test_a_signed_journal_is_verified_by_the_program(run, daybook, tmp_path):
    key = tmp_path / "key.pem"
    daybook("key", "new", "-o", key)
    write(run, 100, signing_key=key.read_text())
    kinds = []
    player = JournalPlayer(run)
    while (record := player.read_next_record()) is not None:
        kinds.append(record.kind)
    assert kinds.count("signature") == 1
    report = json.loads(daybook("verify", run, "--trust", tmp_path / "key.pub.pem", "--json"))
    assert report["verdict"] == "intact"


def test_what_python_writes_the_program_reads_and_the_other_way_round(run, daybook, tmp_path):
    write(run, 70, rotation=RotationPolicy(max_records=32))
    assert json.loads(daybook("verify", run, "--json"))["verdict"] == "intact"
    lines = daybook("export", run, "--to", "jsonl").splitlines()
    assert len(lines) == 70
    other = tmp_path / "other.omni"
    daybook("record", "-o", other, "--", "echo", "hello")
    records = [record.json() for record in SegmentedPlayer(other) if record.kind != "telemetry"]
    assert records[0]["event"] == "start"
    assert records[-1]["exit"] == {"code": 0}
    assert verify_chain(other)["ok"]
