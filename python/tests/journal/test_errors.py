"""Every kind of error of the core has a class of its own here, and carries where it happened."""

import os
import pickle
import re
import threading

import pytest
from conftest import ROOT

import daybook
import omniloop
from omniloop import JournalPlayer, Recorder, RotationPolicy, StateJournal

SOURCE = ROOT / "crates/omniloop-core/src/journal/error.rs"


def sealed(path, ticks=3):
    with StateJournal(path) as journal:
        for number in range(ticks):
            journal.append("telemetry", {"number": number})
    return bytearray(path.read_bytes())


def missing(path):
    JournalPlayer(path.with_name("nowhere.omni"))


def corrupt(path):
    content = sealed(path)
    # The kind of the first record.
    content[32 + 4] = 77
    path.write_bytes(content)
    JournalPlayer(path).read_next_record()


def incomplete(path):
    path.write_bytes(b"OMNILOG1\x02\x00")
    JournalPlayer(path)


def unsupported(path):
    content = sealed(path)
    content[8] = 99
    path.write_bytes(content)
    JournalPlayer(path)


def misuse(path):
    StateJournal(path).append("chain", b"")


CAUSES = {
    "Io": (missing, omniloop.JournalIOError, OSError),
    "Corrupt": (corrupt, omniloop.CorruptError, OSError),
    "Incomplete": (incomplete, omniloop.IncompleteError, EOFError),
    "Unsupported": (unsupported, omniloop.UnsupportedError, ValueError),
    "Misuse": (misuse, omniloop.MisuseError, ValueError),
}


def test_no_kind_of_error_is_left_out():
    kinds = re.search(r"pub enum ErrorKind \{(.*?)\n\}", SOURCE.read_text(), re.DOTALL)[1]
    assert set(re.findall(r"^    (\w+),$", kinds, re.MULTILINE)) == set(CAUSES)


@pytest.mark.parametrize("kind", CAUSES)
def test_each_kind_of_error_has_its_class(run, kind):
    cause, own, common = CAUSES[kind]
    with pytest.raises(own) as caught:
        cause(run)
    error = caught.value
    assert isinstance(error, common)
    assert isinstance(error, omniloop.Error)
    assert isinstance(error, daybook.Error)
    others = {other for _, other, _ in CAUSES.values()} - {own}
    assert not isinstance(error, tuple(others))
    if kind != "Misuse":
        assert str(run.parent) in str(error)
        assert os.path.dirname(error.path) == str(run.parent)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.path) == (type(error), str(error), error.path)


def test_a_wrong_checksum_is_an_io_error_that_says_where(run):
    content = sealed(run)
    content[32 + 36] ^= 1
    run.write_bytes(content)
    with pytest.raises(IOError) as caught:
        JournalPlayer(run).read_next_record()
    error = caught.value
    assert type(error) is omniloop.CrcError
    assert (error.path, error.section, error.offset, error.tick) == (str(run), "payload", 32 + 36, 1)


def test_refusals_of_the_system_are_pythons_own_errors(run):
    with pytest.raises(FileNotFoundError) as caught:
        omniloop.verify_chain(run)
    assert caught.value.filename == str(run)
    sealed(run)
    with pytest.raises(FileExistsError):
        StateJournal(run)
    StateJournal(run, overwrite=True).seal()
    with pytest.raises(IsADirectoryError if os.name == "nt" else OSError):
        JournalPlayer(run.parent)


def test_a_full_disk_is_raised_and_raised_again():
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    with pytest.raises(OSError):
        StateJournal("/dev/full")


def test_a_closed_journal_says_so(run):
    journal = StateJournal(run)
    journal.seal()
    for call in (journal.seal, journal.sync, lambda: journal.append("telemetry", {})):
        with pytest.raises(omniloop.MisuseError, match="is closed"):
            call()
    recorder = Recorder(run.with_name("other.omni"))
    recorder.close()
    with pytest.raises(omniloop.MisuseError, match="is closed"):
        recorder.record("telemetry", {})


@pytest.mark.parametrize(
    "call",
    [
        lambda path: StateJournal(path).append("nonsense", {}),
        lambda path: StateJournal(path, signing_key="no key"),
        lambda path: StateJournal(path, signing_key=b"short"),
        lambda path: StateJournal(path, sign_every=3),
        lambda path: Recorder(path, policy="nonsense"),
        lambda path: Recorder(path, flush_interval=-1.0),
        lambda path: RotationPolicy(max_age=-1.0),
    ],
)
def test_a_bad_argument_is_a_misuse(run, call):
    with pytest.raises(omniloop.MisuseError):
        call(run)


def test_what_json_cannot_say_is_refused_before_anything_is_written(run):
    with StateJournal(run) as journal:
        itself = []
        itself.append(itself)
        for value in (object(), {"x": {1j}}, itself, [float("nan"), itself]):
            with pytest.raises((TypeError, ValueError, RecursionError)):
                journal.append("telemetry", value)
    assert list(JournalPlayer(run)) == []


def test_a_journal_is_shared_by_threads(run):
    with StateJournal(run) as journal:

        def work():
            for number in range(500):
                journal.append("telemetry", {"number": number})

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    player = JournalPlayer(run)
    seen = []

    def read():
        while (record := player.read_next_data_record()) is not None:
            seen.append(record.tick)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == list(range(1, 2001))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_cannot_touch_the_journal_of_its_parent(run):
    journal = StateJournal(run)
    recorder = Recorder(run.with_name("queue.omni"))
    journal.append("telemetry", {"from": "parent"})
    recorder.record("telemetry", {"from": "parent"})
    child = os.fork()
    if child == 0:
        code = 0
        for call in (lambda: journal.append("telemetry", {}), lambda: recorder.record("telemetry", {})):
            try:
                call()
                code = 1
            except omniloop.MisuseError as error:
                code |= "forked" not in str(error)
        # Whatever would be written when they are dropped, is written here.
        del journal, recorder, call
        os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    journal.seal()
    recorder.close()
    assert [record.json() for record in JournalPlayer(run)] == [{"from": "parent"}]
    for path in (run, run.with_name("queue.omni")):
        assert omniloop.verify_chain(path)["ok"]
