"""Random damage to the bytes of a file."""

from __future__ import annotations

from scripts.torture.family import Random

WAYS = ("flip", "set", "truncate", "zero", "duplicate", "swap", "append", "delete", "insert")
BLOCK = 4096  # bytes, at most, of a block that is zeroed, duplicated or swapped
PAGE = 4096
MOST_PAGES = 6  # that are replaced by earlier ones


def spoiled(data: bytes, random: Random) -> tuple[bytes, str]:
    """Return damaged bytes, and the damage in words."""
    found, done = bytearray(data), []
    for _ in range(1 if random.integers(3) else int(random.integers(2, 5))):
        if not found:
            break
        way = WAYS[int(random.integers(len(WAYS)))]
        at = int(random.integers(len(found)))
        size = min(1 + int(random.integers(BLOCK) * random.random() ** 3), len(found) - at)
        _apply(found, way, at, size, random)
        done.append(f"{way} {at}" if way in ("flip", "set", "truncate") else f"{way} {at}+{size}")
    return bytes(found), ", ".join(done)


def with_earlier_pages(data: bytes, earlier: bytes, random: Random) -> tuple[bytes, str]:
    """Return a file in which some pages are of another state, as after lost writes, and how."""
    found = bytearray(data)
    most = -(-len(data) // PAGE)
    pages = random.integers(most, size=int(random.integers(1, MOST_PAGES + 1))).tolist()
    for page in pages:
        at = page * PAGE
        found[at : at + PAGE] = earlier[at : at + PAGE].ljust(PAGE, b"\0")
    return bytes(found[: len(data)]), f"earlier pages {sorted(set(pages))}"


def _apply(found: bytearray, way: str, at: int, size: int, random: Random) -> None:
    other = int(random.integers(len(found)))
    if way == "flip":
        found[at] ^= 1 << int(random.integers(8))
    elif way == "set":
        found[at] = int(random.integers(256))
    elif way == "truncate":
        del found[at:]
    elif way == "zero":
        found[at : at + size] = bytes(size)
    elif way == "duplicate":
        found[at:at] = found[at : at + size]
    elif way == "swap":
        first, second = found[at : at + size], found[other : other + size]
        found[at : at + len(second)] = second
        found[other : other + size] = first[: len(second)]
    elif way == "append":
        found += random.bytes(size)
    elif way == "delete":
        del found[at : at + size]
    else:
        found[at:at] = random.bytes(size)
