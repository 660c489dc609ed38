"""Reads and verifies an `.omni` journal: written from `docs/formats/omni.md`, with Python's standard library alone.

    python3 examples/readers/omni.py run.omni

Prints what is in the journal and what its bytes prove, as JSON. Signatures are listed and not checked: the standard
library has no Ed25519. Exit code 0 for intact, 2 for unproven, 1 for damaged or no journal.
"""

import hashlib
import json
import struct
import sys
import zlib
from pathlib import Path

MAGIC, INDEX_MAGIC, TRAILER_MAGIC = b"OMNILOG1", b"OMNIIDX1", b"OMNIEND1"
FILE_HEADER = struct.Struct("<8sIIQQ")
RECORD_HEADER = struct.Struct("<IB3sQQQI")
INDEX_ENTRY = struct.Struct("<QQ")
TRAILER = struct.Struct("<8sQQ")
INDEX_HEADER = struct.Struct("<8sQ")
SEGMENTED, CHAINED = 1, 2
KINDS = ("telemetry", "mutation", "control", "lifecycle", "hash", "input", "chain", "signature", "guardrail")
CHAIN, SIGNATURE = KINDS.index("chain"), KINDS.index("signature")
EVERY = 64


class NotReadableError(Exception):
    """The bytes are no journal, or one of a version that this reader does not know."""


class Journal:
    """One file: its header, its records, and what is wrong with them."""

    def __init__(self, data):
        self.data = data
        self.records = []
        self.sealed = self.truncated = False
        self.head = None
        # Pairs of a word and the ordinal of the record, or None for the file.
        self.damage = []
        if data[: len(MAGIC)] != MAGIC:
            self._read_legacy()
            return
        if len(data) < FILE_HEADER.size:
            raise NotReadableError("the file ends inside its header")
        _, self.version, self.flags, self.created_wall_ns, self.segment_index = FILE_HEADER.unpack_from(data)
        if self.version != 2:
            raise NotReadableError(f"version {self.version}")
        self._find_end()
        self._walk()
        self._verify_chain()
        if self.sealed:
            self._verify_index()

    def _read_legacy(self):
        """Bare payloads with their lengths, if they fit the whole file."""
        self.version, self.flags, self.created_wall_ns, self.segment_index = 1, 0, 0, 0
        at = 0
        while at < len(self.data):
            length = int.from_bytes(self.data[at : at + 4], "little")
            payload = self.data[at + 4 : at + 4 + length]
            if len(self.data) < at + 4 or length == 0 or len(payload) < length:
                raise NotReadableError("neither a journal nor a legacy file")
            tick = len(self.records) + 1
            self.records.append(
                {"offset": at, "kind": 0, "tick": tick, "mono_ns": 0, "wall_ns": 0, "payload": payload}
            )
            at += 4 + length
        if not self.records:
            raise NotReadableError("empty")

    def _find_end(self):
        """Where the records end: at the index of a sealed file, else at the end of the file."""
        self.end = len(self.data)
        last = len(self.data) - TRAILER.size
        if last < FILE_HEADER.size:
            return
        magic, index_offset, self.record_count = TRAILER.unpack_from(self.data, last)
        if magic != TRAILER_MAGIC:
            return
        entries = last - index_offset - INDEX_HEADER.size
        if FILE_HEADER.size <= index_offset and entries >= 0:
            magic, count = INDEX_HEADER.unpack_from(self.data, index_offset)
            if magic == INDEX_MAGIC and entries == count * INDEX_ENTRY.size:
                self.end, self.sealed = index_offset, True
                return
        # A payload may merely end like a trailer; then the records reach the end of the file.
        at = FILE_HEADER.size
        while at + RECORD_HEADER.size <= len(self.data):
            at += RECORD_HEADER.size + int.from_bytes(self.data[at : at + 4], "little")
        if at != len(self.data):
            self.damage.append(("index", None))

    def _walk(self):
        at, tick, mono = FILE_HEADER.size, 0, 0
        while at < self.end:
            ordinal = len(self.records)
            whole = self.end - at >= RECORD_HEADER.size
            length = int.from_bytes(self.data[at : at + 4], "little")
            zeros = whole and not any(self.data[at : at + RECORD_HEADER.size])
            if (
                not whole
                or at + RECORD_HEADER.size + length > self.end
                or (zeros and not any(self.data[at : self.end]))
            ):
                if self.sealed:
                    self.damage.append(("length", ordinal))
                self.truncated = not self.sealed
                return
            _, kind, padding, record_tick, mono_ns, wall_ns, crc = RECORD_HEADER.unpack_from(self.data, at)
            payload = self.data[at + RECORD_HEADER.size : at + RECORD_HEADER.size + length]
            if kind >= len(KINDS):
                self.damage.append(("kind", ordinal))
                return
            if zlib.crc32(payload) != crc:
                self.damage.append(("crc", ordinal))
            if any(padding):
                self.damage.append(("padding", ordinal))
            if record_tick < tick or mono_ns < mono:
                # A checkpoint or signature that comes first has no record before it.
                self.damage.append(("order", ordinal))
            tick, mono = record_tick, mono_ns
            record = {
                "offset": at,
                "kind": kind,
                "tick": tick,
                "mono_ns": mono,
                "wall_ns": wall_ns,
                "payload": payload,
            }
            self.records.append(record)
            at += RECORD_HEADER.size + length

    def _verify_chain(self):
        header = self.data[: FILE_HEADER.size]
        value = hashlib.sha256(b"omniloop-chain-v1-genesis" + header).digest()
        covered = 0
        for ordinal, record in enumerate(self.records):
            if record["kind"] == CHAIN:
                if len(record["payload"]) != 32:
                    self.damage.append(("checkpoint", ordinal))
                elif record["payload"] != value:
                    self.damage.append(("chain", ordinal))
                    # What follows is compared with what this checkpoint claims.
                    value = record["payload"]
                self.head = record["payload"].hex()
                covered = ordinal + 1
            at = record["offset"]
            step = self.data[at : at + RECORD_HEADER.size] + record["payload"]
            value = hashlib.sha256(b"omniloop-chain-v1-step" + value + step).digest()
        behind = [record["kind"] for record in self.records[covered:]]
        self.covered = covered
        # Where the walk could not go on, that is the damage.
        stopped = any(what in ("kind", "length") for what, _ in self.damage)
        if self.sealed and not stopped and behind not in ([], [SIGNATURE]):
            self.damage.append(("tail", covered))

    def _verify_index(self):
        entries = [INDEX_ENTRY.pack(r["tick"], r["offset"]) for r in self.records[::EVERY]]
        index = INDEX_HEADER.pack(INDEX_MAGIC, len(entries)) + b"".join(entries)
        trailer = TRAILER.pack(TRAILER_MAGIC, self.end, len(self.records))
        if self.data[self.end :] != index + trailer:
            self.damage.append(("index", None))

    def verdict(self):
        """Intact, unproven or damaged."""
        if self.damage:
            return "damaged"
        chained = self.version == 2 and self.head is not None
        return "intact" if self.sealed and chained else "unproven"

    def facts(self):
        """Give everything that the file says, and what is wrong with it, the gravest place first."""
        first = min(self.damage, key=lambda found: (found[1] is None, found[1] or 0), default=None)
        return {
            "version": self.version,
            "segmented": bool(self.flags & SEGMENTED),
            "chained": bool(self.flags & CHAINED),
            "created_wall_ns": self.created_wall_ns,
            "segment_index": self.segment_index,
            "sealed": self.sealed,
            "truncated": self.truncated,
            "head": self.head,
            "signers": sorted({r["payload"][:32].hex() for r in self.records if r["kind"] == SIGNATURE}),
            "records": [{**r, "kind": KINDS[r["kind"]], "payload": r["payload"].hex()} for r in self.records],
            "verdict": self.verdict(),
            "damage": None if first is None else {"what": first[0], "record": first[1]},
        }


def segment_path(base, ordinal):
    """Where a segment of a set is: its ordinal goes before the last extension."""
    if ordinal == 0:
        return base
    return base.with_name(f"{base.stem}.{ordinal}{base.suffix}")


def read_set(base):
    """Read a journal and the segments that follow it."""
    files, last = [], (0, True)
    while (path := segment_path(base, len(files))).exists():
        journal = Journal(path.read_bytes())
        ordinal = len(files)
        tick, sealed = last
        if ordinal and not sealed:
            journal.damage.append(("not_sealed", None))
        if journal.flags & SEGMENTED and journal.segment_index != ordinal:
            journal.damage.append(("ordinal", None))
        data = [r for r in journal.records if r["kind"] not in (CHAIN, SIGNATURE)]
        if data and data[0]["tick"] < tick:
            journal.damage.append(("order", None))
        last = (data[-1]["tick"] if data else tick, journal.sealed)
        files.append(journal)
        if not journal.flags & SEGMENTED:
            break
    return files


def main(path):
    """Print what is in a journal; answer the exit code."""
    base = Path(path)
    if not base.exists():
        print(json.dumps({"error": f"{path} is not there"}))
        return 2
    try:
        files = [journal.facts() for journal in read_set(base)]
    except NotReadableError as error:
        print(json.dumps({"error": str(error)}))
        return 1
    print(json.dumps(files, indent=1))
    verdicts = {file["verdict"] for file in files}
    return 1 if "damaged" in verdicts else 2 if "unproven" in verdicts else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
