"""The examples of the guide run as they stand, one after the other."""

import re

import pytest
from conftest import ROOT


@pytest.mark.parametrize(("page", "count"), [("python.md", 5), ("attending-a-run.md", 1)])
def test_every_example_of_the_guide_runs(tmp_path, monkeypatch, page, count):
    monkeypatch.chdir(tmp_path)
    guide = ROOT / "docs" / "guide" / page
    text = guide.read_text(encoding="utf-8")
    examples = list(re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    assert len(examples) >= count
    names = {}
    for example in examples:
        # The line numbers of a failure are those of the guide.
        blank = "\n" * text[: example.start(1)].count("\n")
        exec(compile(blank + example[1], guide, "exec"), names)


def test_the_example_of_the_packages_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "python" / "README.md").read_text(encoding="utf-8")
    for example in re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        exec(compile(example, "README.md", "exec"), {})
