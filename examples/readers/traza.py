"""Reads and checks a segment of traces: written from `docs/formats/traza-segment.md`, with Python's standard library alone.

    python3 examples/readers/traza.py segment-00000000000000000000.seg [TRACE_ID]

Prints the spans of all records, or of one trace by its index, as JSON. Exit code 1 when a checksum or a structure does
not hold, 2 when the file is not there or its codec is Zstandard and this Python has none.
"""

import json
import struct
import sys
import zlib
from pathlib import Path

MAGIC, VERSION = b"TRAZASEG", 8
HEADER = struct.Struct("<8sHHI14QI")
WRAPPER = struct.Struct("<IIQ")
BLOCK = struct.Struct("<QQIIQ")
RECORD = struct.Struct("<QIIII")
PAIR = struct.Struct("<I16s")
PROLOGUE = struct.Struct("<IIIIQQ")
RAW, LZ4, ZSTD = range(3)
BLOCK_LEN_MAX = 131_072
PAGE = 4096
MASK = (1 << 64) - 1
KEYS = ((0x243F6A8885A308D3, 0x9E3779B97F4A7C15), (0xB7E151628AED2A6B, 0x6A09E667F3BCC908))
START = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)


class DamagedError(Exception):
    """Something does not hold; `section` is where."""

    def __init__(self, section):
        super().__init__(section)
        self.section = section


class UnsupportedError(Exception):
    """A version or codec that this reader does not know."""


def need(condition, section):
    """Refuse what does not hold."""
    if not condition:
        raise DamagedError(section)


def lz4(data, length, section):
    """Decompress an LZ4 block to exactly so many bytes."""
    need(length <= 256 * len(data) + 64, section)
    out, at = bytearray(), 0
    try:
        while at < len(data):
            token, at = data[at], at + 1
            count, at = _length(data, at, token >> 4)
            need(at + count <= len(data), section)
            out += data[at : at + count]
            at += count
            if at == len(data):
                break
            distance, at = int.from_bytes(data[at : at + 2], "little"), at + 2
            count, at = _length(data, at, token & 15)
            need(0 < distance <= len(out) and len(out) + count + 4 <= length, section)
            for _ in range(count + 4):
                out.append(out[-distance])
    except IndexError as error:
        raise DamagedError(section) from error
    need(len(out) == length, section)
    return bytes(out)


def _length(data, at, count):
    if count == 15:
        while True:
            byte, at = data[at], at + 1
            count += byte
            if byte != 255:
                break
    return count, at


def zstd(data, length, section):
    """Decompress a Zstandard frame, with a Python that can."""
    try:
        from compression import zstd as module
    except ImportError as error:
        raise UnsupportedError("codec 2: Python 3.14 or newer has Zstandard") from error
    out = module.decompress(data)
    need(len(out) == length, section)
    return out


class Body:
    """The body of a section, read from its front to its end."""

    def __init__(self, data, section):
        self.data, self.section, self.at = data, section, 0

    def take(self, count):
        """Give the next bytes."""
        need(self.at + count <= len(self.data), self.section)
        self.at += count
        return self.data[self.at - count : self.at]

    def varint(self):
        """Give the next number: canonical LEB128 of up to 64 bits."""
        value = shift = 0
        while True:
            (byte,) = self.take(1)
            value |= (byte & 127) << shift
            need(shift < 63 or byte <= 1, self.section)
            if byte < 128:
                need(byte or not shift, self.section)
                return value
            shift += 7

    def text(self):
        """Give the next text."""
        try:
            return self.take(self.varint()).decode()
        except UnicodeDecodeError as error:
            raise DamagedError(self.section) from error

    def postings(self, count_max, below):
        """Give the next posting list: ascending offsets below a bound."""
        count = self.varint()
        need(count <= count_max, self.section)
        offsets = []
        for index in range(count):
            step = self.varint()
            need(step > 0 or index == 0, self.section)
            offsets.append(step + (offsets[-1] if offsets else 0))
            need(offsets[-1] < below, self.section)
        return offsets

    def end(self):
        """Refuse bytes that are left over."""
        need(self.at == len(self.data), self.section)


def rotate(value, bits):
    """Rotate 64 bits to the left."""
    return ((value << bits) | (value >> (64 - bits))) & MASK


def half(message, k0, k1):
    """One half of a digest: SipHash with one round a word and three at the end."""
    a, b, c, d = k0 ^ START[0], k1 ^ START[1], k0 ^ START[2], k1 ^ START[3]
    whole = len(message) // 8 * 8
    tail = int.from_bytes(message[whole:], "little") | (len(message) & 255) << 56
    words = [int.from_bytes(message[at : at + 8], "little") for at in range(0, whole, 8)] + [tail]
    for step, word in enumerate([*words, 0, 0, 0]):
        if step < len(words):
            d ^= word
        elif step == len(words):
            c ^= 0xFF
        a = (a + b) & MASK
        b = rotate(b, 13) ^ a
        a = rotate(a, 32)
        c = (c + d) & MASK
        d = rotate(d, 16) ^ c
        a = (a + d) & MASK
        d = rotate(d, 21) ^ a
        c = (c + b) & MASK
        b = rotate(b, 17) ^ c
        c = rotate(c, 32)
        if step < len(words):
            a ^= word
    return a ^ b ^ c ^ d


def digest(message):
    """Give the 16 bytes of a digest."""
    return b"".join(half(message, *key).to_bytes(8, "little") for key in KEYS)


def pair_digest(key, text):
    """Give the digest of an attribute's key and index text."""
    return digest(struct.pack("<I", len(key.encode())) + key.encode() + text.encode())


class Segment:
    """A segment, opened: every section checked, blocks when they are read."""

    def __init__(self, data):
        self.data = data
        self._read_header()
        self._read_directory()
        self._read_offsets()
        self._read_traces()
        self._read_attributes()
        self._read_content()

    def _read_header(self):
        data = self.data
        need(data[:8] == MAGIC, "header")
        need(len(data) >= HEADER.size, "header")
        fields = HEADER.unpack_from(data)
        _, version, header_len, self.codec = fields[:4]
        if version != VERSION:
            raise UnsupportedError(f"version {version}")
        need(header_len == HEADER.size, "header")
        need(zlib.crc32(data[: HEADER.size - 4]) == fields[-1], "header")
        if self.codec not in (RAW, LZ4, ZSTD):
            raise UnsupportedError(f"codec {self.codec}")
        (
            self.record_count,
            records_at,
            records_len,
            offsets_at,
            offsets_len,
            trace_at,
            trace_len,
            attribute_at,
            self.first_time,
            self.last_time,
            content_at,
            directory_at,
            directory_len,
            self.logical_len,
        ) = fields[4:-1]
        follow = records_at == HEADER.size and directory_at == records_at + records_len
        follow = (
            follow and offsets_at == directory_at + directory_len and trace_at == offsets_at + offsets_len
        )
        follow = follow and attribute_at == trace_at + trace_len and attribute_at <= content_at <= len(data)
        need(follow and self.record_count * RECORD.size <= self.logical_len, "header")
        need((self.record_count == 0) == (self.logical_len == 0) == (records_len == 0), "header")
        self.records_at, self.records_len = records_at, records_len
        self.places = {
            "directory": (directory_at, offsets_at),
            "offsets": (offsets_at, trace_at),
            "trace": (trace_at, attribute_at),
            "attribute": (attribute_at, content_at),
            "content": (content_at, len(data)),
        }

    def _body(self, section):
        start, end = self.places[section]
        need(end - start >= WRAPPER.size, section)
        crc, flags, length = WRAPPER.unpack_from(self.data, start)
        need(zlib.crc32(self.data[start + 4 : end]) == crc, section)
        need(flags in (0, 1), section)
        stored = self.data[start + WRAPPER.size : end]
        if flags == 1:
            need(section != "content", section)
            return Body(lz4(stored, length, section), section)
        need(len(stored) == length, section)
        return Body(stored, section)

    def _read_directory(self):
        body = self._body("directory")
        need(len(body.data) % BLOCK.size == 0, "directory")
        self.blocks = list(BLOCK.iter_unpack(body.data))
        stored = logical = time = 0
        for index, (start, offset, length, _, first) in enumerate(self.blocks):
            need(offset == stored and length & 0x7FFFFFFF, "directory")
            need(start == 0 if index == 0 else start > logical, "directory")
            need(first >= time, "directory")
            stored, logical, time = stored + (length & 0x7FFFFFFF), start, first
        need(stored == self.records_len and bool(self.blocks) == bool(self.record_count), "directory")

    def _read_offsets(self):
        body = self._body("offsets")
        self.offsets = []
        for index in range(self.record_count):
            step = body.varint()
            need((step == 0) == (index == 0), "offsets")
            self.offsets.append(step + (self.offsets[-1] if self.offsets else 0))
            need(self.offsets[-1] < self.logical_len, "offsets")
        body.end()

    def _read_traces(self):
        body = self._body("trace")
        self.traces = {}
        for _ in range(body.varint()):
            trace = body.text()
            need(trace not in self.traces, "trace")
            self.traces[trace] = body.postings(self.record_count, self.logical_len)
        body.end()

    def _read_attributes(self):
        body = self._body("attribute")
        self.keys = [body.text() for _ in range(body.varint())]
        need(len(set(self.keys)) == len(self.keys), "attribute")
        self.pairs = {}
        for _ in range(body.varint()):
            key, value = body.varint(), body.take(16)
            need(key < len(self.keys) and (key, value) not in self.pairs, "attribute")
            self.pairs[key, value] = body.postings(self.record_count, self.logical_len)
        body.end()

    def _read_content(self):
        body = self._body("content")
        _, self.group, groups, self.hashes, self.summary_bits, self.row_count = PROLOGUE.unpack(
            body.take(PROLOGUE.size)
        )
        self.rows = None
        if groups == 0:
            return
        need(groups == -(-self.record_count // self.group), "content")
        self.summary = body.take(self.summary_bits // 8)
        self.row_len = -(-groups // 8)
        pages = -(-self.row_count * self.row_len // PAGE)
        sums = struct.unpack(f"<{pages}I", body.take(4 * pages))
        self.rows = body.take(self.row_count * self.row_len)
        body.end()
        for index, crc in enumerate(sums):
            need(zlib.crc32(self.rows[index * PAGE : (index + 1) * PAGE]) == crc, "content")

    def _block(self, index):
        start, offset, length, crc, _ = self.blocks[index]
        end = self.blocks[index + 1][0] if index + 1 < len(self.blocks) else self.logical_len
        at = self.records_at + offset
        stored = self.data[at : at + (length & 0x7FFFFFFF)]
        need(zlib.crc32(stored) == crc, "records")
        if length >> 31 or self.codec == RAW:
            need(len(stored) == end - start, "records")
            return stored
        return (lz4 if self.codec == LZ4 else zstd)(stored, end - start, "records")

    def records(self):
        """Give all records in their order: logical offset, time, trace, pairs and span."""
        logical = b"".join(map(self._block, range(len(self.blocks))))
        need(len(logical) == self.logical_len, "records")
        found = []
        for start, end in zip(self.offsets, [*self.offsets, self.logical_len][1:], strict=True):
            found.append(self._record(logical[start:end], start))
        times = [record["time"] for record in found]
        need(times == sorted(times), "records")
        if found:
            need((times[0], times[-1]) == (self.first_time, self.last_time), "records")
        return found

    def _record(self, data, offset):
        need(len(data) >= RECORD.size, "records")
        time, trace_len, pairs, payload_len, _ = RECORD.unpack_from(data)
        payload_at = RECORD.size + trace_len + pairs * PAIR.size
        need(payload_at + payload_len <= len(data), "records")
        trace = data[RECORD.size : RECORD.size + trace_len].decode()
        stored = list(PAIR.iter_unpack(data[RECORD.size + trace_len : payload_at]))
        span = json.loads(data[payload_at : payload_at + payload_len])
        need(span["trace_id"] == trace and span["start_time_ns"] == time, "records")
        return {"offset": offset, "time": time, "trace": trace, "pairs": stored, "span": span}

    def trace(self, trace_id):
        """Give the spans of a trace: its index proposes, the records decide."""
        wanted = set(self.traces.get(trace_id, []))
        return [r["span"] for r in self.records() if r["offset"] in wanted and r["trace"] == trace_id]

    def with_attribute(self, key, texts):
        """Give the spans with a pair of this key and one of these index texts, which the span confirms."""
        if key not in self.keys:
            return []
        number = self.keys.index(key)
        digests = {pair_digest(key, text) for text in texts}
        wanted = {at for value in digests for at in self.pairs.get((number, value), [])}
        spans = [r["span"] for r in self.records() if r["offset"] in wanted]
        return [span for span in spans if json.dumps(span["attributes"].get(key)) in texts]

    def groups_with(self, word):
        """Give the ordinals of the records that may hold a word, by the filters alone."""
        everything = range(self.record_count)
        if self.rows is None:
            return list(everything)
        value = digest(word.lower().encode()[:40])
        low, high = int.from_bytes(value[:8], "little"), int.from_bytes(value[8:], "little") | 1
        hashes = [(low + index * high) & MASK for index in range(self.hashes)]
        if not all(
            self.summary[h % self.summary_bits // 8] >> (h % self.summary_bits % 8) & 1 for h in hashes
        ):
            return []
        rows = [h % self.row_count * self.row_len for h in hashes]
        return [
            record
            for record in everything
            if all(
                self.rows[row + record // self.group // 8] >> (record // self.group % 8) & 1 for row in rows
            )
        ]


def main(path, trace_id=None):
    """Print the spans of a segment; answer the exit code."""
    if not Path(path).exists():
        print(json.dumps({"error": f"{path} is not there"}))
        return 2
    try:
        segment = Segment(Path(path).read_bytes())
        spans = segment.trace(trace_id) if trace_id else [record["span"] for record in segment.records()]
    except DamagedError as error:
        print(json.dumps({"error": f"damaged {error.section}"}))
        return 1
    except UnsupportedError as error:
        print(json.dumps({"error": str(error)}))
        return 2
    print(json.dumps(spans, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
