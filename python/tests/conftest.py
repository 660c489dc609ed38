"""What the tests of all packages share."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def run(tmp_path):
    """The path of a journal that does not exist yet."""
    return tmp_path / "run.omni"


@pytest.fixture(scope="session")
def daybook():
    """Call the built program, and give what it said."""
    programs = os.environ.get("DAYBOOK_PROGRAMS", str(ROOT / "target" / "debug"))
    program = Path(programs) / "daybook"
    assert program.exists(), f"{program} is not built"

    def call(*arguments, code=0):
        done = subprocess.run(
            [program, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == code, (arguments, done.stdout, done.stderr)
        return done.stdout

    return call
