"""The guide is run as it stands: its commands in their order, and each answer is held against the one that is printed."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from server import PROGRAMS, Server

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "trace-server.md"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SERVE = re.compile(r"^((?:\w+=\S+ )*)daybook serve --data (\S+)(.*)$")
PORT = "4318"
# What no two runs have in common, in whatever object it stands.
VOLATILE = {"generation", "elapsed_ns", "buffer_age_seconds", "path"}
# A line that may be any line.
ANY = "…"


def blocks():
    """Each command with the answer that is printed directly under it, if there is one."""
    found = list(FENCE.finditer(GUIDE.read_text(encoding="utf-8")))
    text = GUIDE.read_text(encoding="utf-8")
    for index, match in enumerate(found):
        kind, body = match.groups()
        if kind != "sh":
            continue
        answer = None
        behind = found[index + 1] if index + 1 < len(found) else None
        if behind and behind[1] != "sh" and not text[match.end() : behind.start()].strip():
            answer = behind.groups()
        yield body.strip(), answer


def values(text):
    """The JSON values that stand one after the other."""
    decoder, at, found = json.JSONDecoder(), 0, []
    while at < len(text):
        value, at = decoder.raw_decode(text, at)
        found.append(blank(value))
        at += len(text[at:]) - len(text[at:].lstrip())
    return found


def blank(value):
    """The same without what is different every time."""
    if isinstance(value, dict):
        return {name: None if name in VOLATILE else blank(member) for name, member in value.items()}
    if isinstance(value, list):
        return [blank(member) for member in value]
    return value


def check(command, kind, wanted, found):
    if kind == "json":
        assert values(found.strip()) == values(wanted.strip()), command
        return
    wanted, found = wanted.strip().splitlines(), found.strip().splitlines()
    assert len(wanted) == len(found), (command, found)
    for line, other in zip(wanted, found):
        assert line in (ANY, other) or meaning(line) == meaning(other), (command, found)


def meaning(line):
    """Versions of jq differ in how they spell a number."""
    try:
        return json.loads(line)
    except ValueError:
        return line


def test_every_command_of_the_guide_answers_as_it_says(tmp_path):
    missing = [name for name in ("bash", "curl", "jq", "openssl") if shutil.which(name) is None]
    assert not missing, f"install {', '.join(missing)}"
    server, answers = None, 0
    environment = {**os.environ, "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"}
    try:
        for command, answer in blocks():
            serve = SERVE.match(command)
            if serve:
                variables, folder, flags = serve.groups()
                if server:
                    assert server.stop() == 0, "".join(server.lines)
                env = dict(pair.split("=", 1) for pair in variables.split())
                server = Server(folder, *flags.split(), env=env, command=("daybook", "serve"), cwd=tmp_path)
                continue
            # Another server may have the port that the guide says.
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", command.replace(PORT, str(server.port))],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                encoding="utf-8",
                timeout=60,
            )
            assert done.returncode == 0, (command, done.stdout, done.stderr)
            if answer:
                check(command, *answer, done.stdout)
                answers += 1
        assert server.stop() == 0
    finally:
        if server:
            server.kill()
    assert answers > 20, "the guide was not read to its end"
