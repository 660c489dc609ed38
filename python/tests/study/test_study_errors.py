"""Every kind of error of the core has a class of its own here."""

import os
import pickle
import re

import pytest
from conftest import ROOT

import atune
import daybook
from atune import create_study, errors, load_study

CORE = ROOT / "crates/atune_core/src"
RAISE = (ROOT / "crates/daybook-py/src/atune/raise.rs").read_text(encoding="utf-8")
ENUMS = {
    "JournalError": CORE / "storage/journal/error.rs",
    "StorageError": CORE / "storage/mod.rs",
    "StudyError": CORE / "study/error.rs",
    "WorkerError": CORE / "worker/error.rs",
}


@pytest.mark.parametrize("enum", ENUMS)
def test_no_kind_of_error_is_left_out(enum):
    source = ENUMS[enum].read_text(encoding="utf-8")
    body = re.search(rf"pub enum {enum} \{{(.*?)\n\}}", source, re.DOTALL)[1]
    variants = set(re.findall(r"^    (\w+)\b.*[,{(]$", body, re.MULTILINE))
    assert len(variants) > 3
    raised = set(re.findall(rf"{enum}::(\w+)", RAISE))
    # What another backend says has no kind of its own.
    assert variants - {"Other"} <= raised


def test_every_class_that_is_raised_exists_and_the_other_way_round():
    raised = set(re.findall(r'"(\w+Error)"', RAISE))
    raised |= {"MisuseError", "SchedulerError"}
    defined = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert raised <= defined
    assert defined - {"Error"} <= raised
    for name in raised:
        assert issubclass(getattr(errors, name), atune.Error)


def missing(path):
    load_study(path)


def damaged(path):
    create_study(path)
    for file in (path.with_name("study.atj.d")).glob("data-*"):
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    load_study(path)


def cut(path):
    create_study(path)
    path.write_bytes(path.read_bytes()[:-5])
    load_study(path)


def newer(path):
    create_study(path)
    path.write_bytes(path.read_bytes().replace(b'"format":6', b'"format":7'))
    load_study(path)


def other(path):
    path.write_bytes(b"MZ\x90 something else")
    load_study(path)


def unknown(path):
    create_study(path, study_name="here")
    load_study(path, "there")


def taken(path):
    for _ in range(2):
        create_study(path, study_name="here")


def refused_sampler(path):
    create_study(path, sampler="random")
    load_study(path, sampler="tpe").ask()


def no_best(path):
    _ = create_study(path).best_trial


@pytest.mark.parametrize(
    ("cause", "own", "common"),
    [
        (missing, errors.StudyIOError, FileNotFoundError),
        (damaged, errors.CorruptError, OSError),
        (cut, errors.Error, Exception),
        (newer, errors.UnsupportedError, ValueError),
        (other, errors.NotAStudyError, ValueError),
        (unknown, errors.UnknownNameError, KeyError),
        (taken, errors.NameTakenError, ValueError),
        (refused_sampler, errors.OtherComponentError, ValueError),
        (no_best, errors.NoBestError, ValueError),
    ],
)
def test_what_goes_wrong_is_an_error_of_its_kind(tmp_path, cause, own, common):
    path = tmp_path / "study.atj"
    with pytest.raises(own) as caught:
        cause(path)
    error = caught.value
    assert isinstance(error, common)
    assert isinstance(error, daybook.Error)
    assert not str(error).startswith('"')
    if isinstance(error, OSError):
        assert os.path.dirname(error.path).startswith(str(tmp_path))
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (type(error), str(error))
