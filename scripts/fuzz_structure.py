"""Mutate files by structure, so that checksums, compression and headers do not hide the parser.

A mutator changes one part of a file, at random, and then repairs what surrounds the part: the
CRC-32 of a section, the directory of an archive, the hashes of a manifest. A file that cannot be
taken apart is changed byte by byte.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

Change = Callable[[bytes], bytes]
"""Changes bytes: libFuzzer's own mutations, or `scribble`."""
Mutator = Callable[[bytes, Random, Change], bytes]

NUMBERS = (
    0, 1, -1, 2, 3, 7, 16, 255, 256, 65535, 1 << 16, (1 << 31) - 1, 1 << 31, 1 << 32, 1 << 40,
    (1 << 63) - 1, 1 << 63, -(1 << 63), 1 << 64, 10**30, 0.5, -0.0, 1e-320, 1e308, -1e308,
)  # fmt: skip
VALUES = (
    *NUMBERS, True, False, None, "", "x", "0", "-1", "1e999", "\n", "\u202e", "a" * 3000, "../x",
    [], [[]], [None], {}, {"x": 1}, [1, 2], [-1], [1 << 40, 1],
)  # fmt: skip
TYPES = (
    "<i4",
    "<i8",
    "<u8",
    "|u1",
    "|b1",
    "<f2",
    "<f4",
    "<f8",
    "<c8",
    ">i4",
    "<U3",
    "|S2",
    "<M8[s]",
)
SHAPES = ((), (0,), (1,), (3, 0), (2, 2), (1 << 40,), (1 << 31, 1 << 31), (1, 1, 1, 1))
OPEN = (b"[" * 5000, b'{"a":' * 5000)  # deeper than a recursive parser allows


def scribble(random: Random) -> Change:
    """Return a change of a few random bytes, for runs without libFuzzer."""

    def change(data: bytes) -> bytes:
        found = bytearray(data or b"\0")
        for _ in range(random.randint(1, 4)):
            at, way = random.randrange(len(found) + 1), random.randrange(6)
            if way == 0:
                found[at:at] = random.randbytes(random.randint(1, 8))
            elif way == 1:
                del found[at : at + random.randint(1, 16)]
            elif way == 2:
                found[at : at + 4] = struct.pack("<I", random.choice(NUMBERS[:12]) & 0xFFFFFFFF)
            elif way == 3:
                begin = random.randrange(len(found) + 1)
                found[at:at] = found[begin : begin + random.randint(1, 32)]
            elif way == 4:
                found[at : at + 1] = random.choice(
                    b"0123456789-+.,:;#%\"'[]{}<>=\n\t \0\xff"
                ).to_bytes()
            else:
                found[at:at] = str(random.choice(NUMBERS)).encode()
        return bytes(found)

    return change


def plain(data: bytes, _random: Random, change: Change) -> bytes:
    return change(data)


def text(data: bytes, random: Random, change: Change) -> bytes:
    """Change a number or a word, or bytes; sometimes compress the file."""
    if data[:2] == b"\x1f\x8b" and random.random() < 0.8:
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error):
            return change(data)
    if random.random() < 0.4:
        words = data.split(b" ")
        words[random.randrange(len(words))] = str(random.choice(NUMBERS)).encode()
        data = b" ".join(words)
    else:
        data = change(data)
    return gzip.compress(data, mtime=0) if random.random() < 0.05 else data


def js(data: bytes, random: Random, change: Change) -> bytes:
    """Replace, drop, copy or rename a value of a JSON text."""
    if random.random() < 0.25:
        return change(data)
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return change(data)
    places: list[tuple[Any, Any]] = []
    waiting = [value] if isinstance(value, dict | list) else []
    while waiting:
        one = waiting.pop()
        keys = list(one) if isinstance(one, dict) else range(len(one))
        places += [(one, key) for key in keys]
        waiting += [one[key] for key in keys if isinstance(one[key], dict | list)]
    if not places or random.random() < 0.02:
        return random.choice(OPEN) if random.random() < 0.5 else b"1e999"
    for _ in range(random.choice((1, 1, 1, 2))):
        holder, key = random.choice(places)
        if (isinstance(holder, dict) and key not in holder) or key == len(holder):
            continue
        _change_value(holder, key, random, places)
    out = json.dumps(value)
    return out.replace('"1e999"', "1e999").encode("utf-8", "surrogatepass")


def _change_value(holder: Any, key: Any, random: Random, places: list[tuple[Any, Any]]) -> None:
    way = random.randrange(5)
    if way == 0:
        del holder[key]
    elif way == 1 and isinstance(holder, dict):
        holder[random.choice(("", "x", "name", "\n"))] = holder.pop(key)
    elif way == 2:
        other, place = random.choice(places)
        if (isinstance(other, dict) and place in other) or (
            isinstance(place, int) and place < len(other)
        ):
            holder[key] = json.loads(json.dumps(other[place]))
    elif way == 3 and isinstance(holder, list):
        holder.insert(key, holder[key])
    else:
        holder[key] = random.choice(VALUES)


def npy(data: bytes, random: Random, change: Change) -> bytes:
    """Change type, order or shape in the header of an array, or its numbers."""
    way = random.random()
    if way < 0.15:
        return change(data)
    try:
        values = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
        return _changed_npy(values, random, way)
    except Exception:  # damaged by an earlier change, or of a type that cannot be converted
        return change(data)


def _changed_npy(values: Any, random: Random, way: float) -> bytes:
    if way < 0.6:
        flat = values.reshape(-1).copy()
        if flat.size and flat.dtype.kind in "iufb":
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                picked = np.array(random.choice((*NUMBERS[:12], np.nan, np.inf)), np.float64)
                flat[random.randrange(flat.size)] = picked.astype(flat.dtype)
        return npy_bytes(flat.reshape(values.shape))
    if way < 0.8:
        shape = random.choice(SHAPES)
        size = int(np.prod(shape, dtype=object))
        if size <= 64:
            values = np.resize(values, shape) if values.size else np.zeros(shape, values.dtype)
        return npy_bytes(values, shape=shape)
    if way < 0.9:
        return npy_bytes(values, descr=random.choice(TYPES))
    return npy_bytes(values.astype(random.choice(TYPES[:8]), copy=True))


def npy_bytes(values: Any, **header: Any) -> bytes:
    """Return a file of an array; header : fields that replace the true ones."""
    out = io.BytesIO()
    true = np.lib.format.header_data_from_array_1_0(values)
    np.lib.format.write_array_header_1_0(out, {**true, **header})
    return out.getvalue() + values.tobytes()


def by_name(name: str, data: bytes, random: Random, change: Change) -> bytes:
    """Change a file inside an archive or a folder, by its extension."""
    from scripts.fuzz_libraries import hdf5, onnx

    kinds: dict[str, Mutator] = {
        "npy": npy, "npz": zipped, "json": js, "npc": sections, "nir": hdf5, "h5": hdf5,
        "bin": binary, "onnx": onnx, "png": png,
    }  # fmt: skip
    return kinds.get(name.rpartition(".")[2], plain)(data, random, change)


def binary(data: bytes, random: Random, change: Change) -> bytes:
    """Change a file of sections, a network file, or raw numbers."""
    if data[:4] == b"PK\3\4":
        return zipped(data, random, change)
    return sections(data, random, change) if data[:3] in (b"NPU", b"MAC") else change(data)


def members(data: bytes) -> dict[str, bytes]:
    """Return the members of an archive; raises various errors if it is damaged."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if sum(info.file_size for info in archive.infolist()) > 1 << 22:
            raise ValueError("too large")
        return {info.filename: archive.read(info) for info in archive.infolist()}


def archive_of(parts: dict[str, bytes], kind: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return an archive; equal parts give equal bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", kind) as archive:
        for name, part in parts.items():
            archive.writestr(zipfile.ZipInfo(name), part, kind)
    return out.getvalue()


DAMAGED = (
    zipfile.BadZipFile, zlib.error, ValueError, KeyError, OSError, EOFError, NotImplementedError,
    RuntimeError, struct.error, UnicodeError,
)  # fmt: skip


def zipped(data: bytes, random: Random, change: Change) -> bytes:
    """Change, drop, rename or add a member of an archive, or its bytes."""
    if random.random() < 0.15:
        return change(data)
    try:
        parts = members(data)
    except DAMAGED:
        return change(data)
    return archive_of(_changed_parts(parts, random, change), _method(random))


def _method(random: Random) -> int:
    return zipfile.ZIP_STORED if random.random() < 0.2 else zipfile.ZIP_DEFLATED


def _changed_parts(parts: dict[str, bytes], random: Random, change: Change) -> dict[str, bytes]:
    if not parts:
        return {"x.npy": npy_bytes(np.arange(3))}
    name, way = random.choice(list(parts)), random.random()
    parts = dict(parts)
    if way < 0.04:
        del parts[name]
    elif way < 0.08:
        parts[random.choice(("x.npy", "", "y.npy", "a\nb.npy", "../z"))] = parts.pop(name)
    elif way < 0.1:
        parts[name] = parts[random.choice(list(parts))]
    else:
        parts[name] = by_name(name or "x", parts[name], random, change)
    return parts


def network(data: bytes, random: Random, change: Change) -> bytes:
    """Change a member of a network file; its names carry no extension except meta.json."""
    return zipped(data, random, change)


def folder(data: bytes, random: Random, change: Change) -> bytes:
    """Change a file of a folder, which is kept as an archive."""
    try:
        parts = members(data)
    except DAMAGED:
        return data
    return archive_of(_changed_parts(parts, random, change))


def sealed(data: bytes, random: Random, change: Change) -> bytes:
    """Change a file of a folder with a manifest, and update the hashes."""
    try:
        parts = _changed_parts(members(data), random, change)
        manifest = json.loads(parts["manifest.json"])
        listed = manifest["files"]
        for name in set(listed) & set(parts):
            listed[name] = hashlib.sha256(parts[name]).hexdigest()
        manifest.pop("sha256", None)
        whole = (json.dumps(manifest, indent=1, sort_keys=True) + "\n").encode()
        manifest["sha256"] = hashlib.sha256(whole).hexdigest()
        parts["manifest.json"] = json.dumps(manifest).encode()
    except (*DAMAGED, TypeError, AttributeError, RecursionError):
        return data
    return archive_of(parts)


HEAD, SECTION = struct.Struct("<7sBI"), struct.Struct("<4sII")


def sections(data: bytes, random: Random, change: Change) -> bytes:
    """Change a section of a file of a compiled folder, or one of several such files."""
    if random.random() < 0.1 or len(data) < HEAD.size:
        return change(data)
    head, parts, at = data[: HEAD.size], [], HEAD.size
    for _ in range(min(HEAD.unpack(head)[2], 64)):
        if at + SECTION.size > len(data):
            return change(data)
        tag, length, _ = SECTION.unpack_from(data, at)
        at += SECTION.size
        parts.append((tag, data[at : at + length]))
        at += length
    if not parts:
        return change(data)
    if data[at:] and random.random() < 0.5:  # another of the consecutive files
        return data[:at] + sections(data[at:], random, change)
    number = random.randrange(len(parts))
    tag, part = parts[number]
    parts[number] = tag, (js if part[:1] in (b"{", b"[") else _words)(part, random, change)
    packed = [SECTION.pack(tag, len(part), zlib.crc32(part)) + part for tag, part in parts]
    return head + b"".join(packed) + data[at:]


def _words(data: bytes, random: Random, change: Change) -> bytes:
    """Replace an aligned number of 1, 2, 4 or 8 bytes, or bytes."""
    size = random.choice((1, 2, 4, 8))
    if len(data) < size or random.random() < 0.3:
        return change(data)
    at = random.randrange(len(data) // size) * size
    value = int(random.choice(NUMBERS[:18])) & ((1 << 8 * size) - 1)
    return data[:at] + value.to_bytes(size, "little") + data[at + size :]


def log(data: bytes, random: Random, change: Change) -> bytes:
    """Change the value or the name of a record of a scratch file, and its checksums."""
    heading, head = struct.Struct("<16s12sI"), struct.Struct("<IIIIQ")
    if random.random() < 0.3 or len(data) < heading.size:
        return change(data)
    seed, at, records = data[16:28], heading.size, []
    while at + head.size <= len(data):
        _, _, names, _, length = head.unpack_from(data, at)
        start = at + head.size
        if start + names + length > len(data):
            break
        records.append((data[start : start + names], data[start + names : start + names + length]))
        at = start + names + length
    if not records:
        return change(data)
    number = random.randrange(len(records))
    name, value = records[number]
    records[number] = (change(name), value) if random.random() < 0.3 else (name, change(value))
    out = data[: heading.size]
    for name, value in records:
        rest = head.pack(0, zlib.crc32(value), len(name), 0, len(value))[4:]
        crc = zlib.crc32(seed + struct.pack("<Q", len(out)) + rest + name)
        out += crc.to_bytes(4, "little") + rest + name + value
    return out


def png(data: bytes, random: Random, change: Change) -> bytes:
    """Change a chunk of a PNG image, and its checksum."""
    if random.random() < 0.2 or data[:4] != b"\x89PNG":
        return change(data)
    chunks, at = [], 8
    while at + 12 <= len(data):
        size = int.from_bytes(data[at : at + 4])
        chunks.append((data[at + 4 : at + 8], data[at + 8 : at + 8 + size]))
        at += 12 + size
    if not chunks:
        return change(data)
    number = random.randrange(len(chunks))
    kind, part = chunks[number]
    if kind == b"IDAT" and random.random() < 0.7:
        try:
            part = zlib.compress(change(zlib.decompress(part)))
        except zlib.error:
            part = change(part)
    else:
        part = change(part)
    chunks[number] = kind, part
    return data[:8] + b"".join(
        len(part).to_bytes(4) + kind + part + zlib.crc32(kind + part).to_bytes(4)
        for kind, part in chunks
    )
