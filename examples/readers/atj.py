"""Reads and checks an `.atj` study: written from `docs/formats/atj.md`, with Python's standard library alone.

    python3 examples/readers/atj.py study.atj

Prints the header, every operation, and the trials that they add up to, as JSON. Exit code 1 when the published history
does not hold, 2 when the file is not there.
"""

import hashlib
import json
import sys
from pathlib import Path

VERSION = 6
LINE_MAX = 2048
MASK = (1 << 64) - 1
NAME = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


class DamagedError(Exception):
    """The published history does not hold; `what` is one word."""

    def __init__(self, what):
        super().__init__(what)
        self.what = what


def fnv1a(data):
    """FNV-1a of 64 bits."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & MASK
    return value


def need(condition, what):
    """Refuse what does not hold."""
    if not condition:
        raise DamagedError(what)


def parse(line, what):
    """Read a line of JSON: an object."""
    try:
        value = json.loads(line)
    except ValueError as error:
        raise DamagedError(what) from error
    need(isinstance(value, dict), what)
    return value


def apply(trials, op):
    """Change the trials as an operation says: state and final values alone."""
    kind = op["kind"]
    if kind in ("create-trial", "lifecycle-reserve", "outbox-replacement"):
        trials[op["trial"]] = {
            "study": op["study"],
            "number": op["number"],
            "state": "Waiting",
            "values": None,
        }
    elif kind == "transition":
        trials[op["trial"]]["state"] = op["to"]
    elif kind == "set-values":
        trials[op["trial"]]["values"] = op["values"]
    elif kind == "lifecycle-claim":
        trials[op["trial"]]["state"] = "Running"
    elif kind in ("lifecycle-abandon", "lifecycle-fail-stale"):
        trials[op["trial"]]["state"] = "Failed"
    elif kind == "lifecycle-fenced" and op["mutation"]["kind"] == "pause":
        trials[op["trial"]]["state"] = "Paused"
    elif kind == "lifecycle-terminal":
        trials[op["trial"]]["state"] = op["outcome"]["state"]
        trials[op["trial"]]["values"] = op["outcome"].get("values")


class Study:
    """The operations of a study file, in their order."""

    def __init__(self, path):
        self.path = Path(path)
        data = self.path.read_bytes()
        first, newline, rest = data.partition(b"\n")
        need(newline == b"\n" and first.startswith(b'{"record":"header"'), "header")
        self.header = parse(first, "header")
        version = self.header.get("format")
        need(isinstance(version, int) and 1 <= version <= VERSION, "version")
        self.torn = False
        if version < VERSION:
            self.operations = self._of_lines(rest)
        else:
            self.operations = self._of_extents(len(first) + 1, rest)

    def _of_lines(self, rest):
        """Versions 1 to 5: a last line without its end is a torn append."""
        *lines, tail = rest.split(b"\n")
        self.torn = tail != b""
        return self._operations(lines, 1)

    def _operations(self, lines, first):
        found = [parse(line, "operation") for line in lines]
        for at, line in enumerate(found):
            need(line.get("record") == "op" and line.get("seq") == first + at, "sequence")
        return found

    def _of_extents(self, header_len, rest):
        need(rest.endswith(b"\n") and rest.count(b"\n") == 1 and len(rest) <= LINE_MAX, "head")
        head = parse(rest, "head")
        payloads, pointer = [], head["tip"]
        # Where the next extent must end: in operations and in the stream.
        last, end = head["ops"], head["bytes"]
        while pointer is not None:
            meta, payload = self._extent(pointer)
            need(meta["last"] == last and meta["first"] <= meta["last"], "sequence")
            need(meta["start"] + meta["payload_len"] == end, "stream")
            payloads.append((meta["first"], payload))
            last, end, pointer = meta["first"] - 1, meta["start"], meta["previous"]
        need(last == 0, "sequence")
        need(end == header_len, "stream")
        operations = []
        for first, payload in reversed(payloads):
            need(payload.endswith(b"\n"), "operation")
            operations += self._operations(payload[:-1].split(b"\n"), first)
        need(len(operations) == head["ops"], "sequence")
        return operations

    def _extent(self, pointer):
        name = pointer["file"]
        need(name.startswith("data-") and set(name) <= NAME, "pointer")
        path = self.path.with_name(self.path.name + ".d") / name
        need(path.exists(), "pointer")
        with path.open("rb") as file:
            file.seek(pointer["offset"])
            extent = file.read(pointer["len"])
        need(len(extent) == pointer["len"], "pointer")
        line, newline, payload = extent.partition(b"\n")
        need(newline == b"\n" and len(line) < LINE_MAX, "extent")
        meta = parse(line, "extent")
        need(meta.get("magic") == "atune.extent/6", "extent")
        need(len(payload) == meta["payload_len"], "extent")
        need(fnv1a(payload) == meta["checksum"], "checksum")
        return meta, payload

    def trials(self):
        """Give the trials that the operations add up to: study, number, state and final values."""
        trials = {}
        for line in self.operations:
            apply(trials, line["op"])
        return [trials[key] for key in sorted(trials)]

    def names(self):
        """Give the names by which runs and traces know the studies."""
        made = (line["op"] for line in self.operations if line["op"]["kind"] == "create-study")
        facts = [self.header["created_at_millis"], self.header["created_by"]]
        texts = (["daybook.study", *facts, op["study"], op["config"]["name"]] for op in made)
        joined = ("\n".join(map(str, text)) for text in texts)
        return [hashlib.sha256(text.encode()).hexdigest()[:32] for text in joined]

    def facts(self):
        """Give everything that the file says."""
        return {
            "header": self.header,
            "operations": self.operations,
            "names": self.names(),
            "trials": self.trials(),
            "torn": self.torn,
        }


def main(path):
    """Print what is in a study; answer the exit code."""
    if not Path(path).exists():
        print(json.dumps({"error": f"{path} is not there"}))
        return 2
    try:
        facts = Study(path).facts()
    except DamagedError as error:
        print(json.dumps({"error": error.what}))
        return 1
    print(json.dumps(facts, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
