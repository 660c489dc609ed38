"""The independent readers of `examples/readers` against the conformance vectors of `docs/formats/vectors`."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VECTORS = ROOT / "docs" / "formats" / "vectors"


def reader(name):
    spec = importlib.util.spec_from_file_location(
        f"reader_{name}", ROOT / "examples" / "readers" / f"{name}.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cases(name):
    """Every case of a format with the bytes of its files, those of others changed as it says."""
    known, found = {}, []
    document = json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))
    assert document["format"] == name
    for case in document["cases"]:
        if "of" not in case:
            files = {path: bytes.fromhex(text) for path, text in case["files"].items()}
        else:
            files = dict(known[case["of"]])
            files[case["file"]] = changed(files[case["file"]], case["changes"])
        known[case["name"]] = files
        found.append(pytest.param(files, case["expect"], id=case["name"]))
    return found


def changed(data, changes):
    for change in changes:
        if "cut" in change:
            data = data[: change["cut"]]
        elif "append" in change:
            data = data + bytes.fromhex(change["append"])
        else:
            put = bytes.fromhex(change["put"])
            data = data[: change["at"]] + put + data[change["at"] + len(put) :]
    return data


def place(files, folder):
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def assert_says(found, wanted):
    """Every member that is wanted is there with that value; a list has no more elements."""
    if isinstance(wanted, dict):
        for name, value in wanted.items():
            assert_says(found[name], value)
    elif isinstance(wanted, list):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert_says(one, other)
    else:
        assert (found, type(found)) == (wanted, type(wanted))


@pytest.mark.parametrize(("files", "expect"), cases("omni"))
def test_a_reader_of_runs_from_the_format_page_alone_says_what_the_vector_says(files, expect, tmp_path):
    omni = reader("omni")
    place(files, tmp_path)
    base = tmp_path / "run.omni"
    if "unreadable" in expect:
        with pytest.raises(omni.NotReadableError):
            omni.read_set(base)
        assert omni.main(base) == 1
        return
    found = [journal.facts() for journal in omni.read_set(base)]
    assert_says(found, expect["files"])
    codes = {"intact": 0, "damaged": 1, "unproven": 2}
    assert omni.main(base) == codes[expect["verdict"]]


@pytest.mark.parametrize(("files", "expect"), cases("atj"))
def test_a_reader_of_studies_from_the_format_page_alone_says_what_the_vector_says(files, expect, tmp_path):
    atj = reader("atj")
    place(files, tmp_path)
    path = tmp_path / "study.atj"
    if "damaged" in expect:
        with pytest.raises(atj.DamagedError) as caught:
            atj.Study(path)
        assert caught.value.what == expect["damaged"]
        assert atj.main(path) == 1
        return
    found = atj.Study(path).facts()
    assert found == expect
    assert atj.main(path) == 0


@pytest.mark.parametrize(("files", "expect"), cases("traza-segment"))
def test_a_reader_of_segments_from_the_format_page_alone_says_what_the_vector_says(files, expect):
    traza = reader("traza")
    (data,) = files.values()
    if "unsupported" in expect:
        with pytest.raises(traza.UnsupportedError):
            traza.Segment(data)
        return
    if "damaged" in expect:
        with pytest.raises(traza.DamagedError) as caught:
            traza.Segment(data).records()
        assert caught.value.section == expect["damaged"]
        return
    segment = traza.Segment(data)
    words = {word: segment.groups_with(word) for word in expect["words"]}
    assert (segment.keys, words) == (expect["keys"], expect["words"])
    assert (segment.codec, len(segment.blocks)) == (expect["codec"], expect["blocks"])
    if segment.codec == traza.ZSTD and sys.version_info < (3, 14):
        with pytest.raises(traza.UnsupportedError):
            segment.records()
        return
    spans = [record["span"] for record in segment.records()]
    assert spans == expect["spans"]
    for trace, ordinals in expect["traces"].items():
        assert segment.trace(trace) == [spans[at] for at in ordinals]
    for question in expect["attributes"]:
        found = segment.with_attribute(question["key"], [question["text"]])
        assert found == [spans[at] for at in question["ordinals"]]


def test_the_pairs_of_a_record_follow_from_its_span():
    traza = reader("traza")
    files = next(case.values[0] for case in cases("traza-segment") if case.id == "raw")
    segment = traza.Segment(*files.values())
    for record in segment.records():
        span = record["span"]
        texts = {"\0service": span["service"], "\0name": span["name"]}
        if span.get("$tenant"):
            texts["\0tenant"] = span["$tenant"]
        for key, value in span["attributes"].items():
            texts[key] = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        wanted = sorted(
            (segment.keys.index(key), traza.pair_digest(key, text)) for key, text in texts.items()
        )
        assert record["pairs"] == wanted
