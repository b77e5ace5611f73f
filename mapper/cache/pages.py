"""Check of a database file before LMDB maps it: a damaged file would end the process.

LMDB trusts its file: an invalid page number or offset in it makes the process read outside the map.
This check visits all pages that a transaction may read, except the contents of large values, which
carry a checksum. Format of version 1 (LMDB 0.9), 64 bits, little-endian: `mdb.c`, "Page header",
"Meta page content" and "Header for a single key/data pair".

A page begins with its number, a padding, flags, and the ends of its lists of nodes. A node has a
size and flags, the size of its key, the key, and its data: the number of a page in branches, a
value or the number of the first page of a large value in leaves.
"""

from __future__ import annotations

import mmap
import struct
from itertools import pairwise

PAGE = mmap.PAGESIZE
"""Bytes of a page: LMDB takes the page size of the machine that creates the file."""
MAGIC, VERSION = 0xBEEFC0DE, 1
FREE, MAIN = 0, 1
"""The two trees of a file: free pages, and entries."""
DEEPEST = 32
LAST = 1 << 28
"""Highest page number, in files of 1 TiB."""
NONE = (1 << 64) - 1
"""Root of an empty tree."""

_BRANCH, _LEAF, _OVERFLOW, _META = 1, 2, 4, 8
_KINDS = _BRANCH | _LEAF | _OVERFLOW | _META | 0x20 | 0x40
_LARGE = 1  # flag of a node whose data is on other pages
_WHOLE_KEYS, _USED = 0x08, 0x4000  # flags of a tree: keys are numbers; it is in use
_HEADER = struct.Struct("<QHHHH")
_COUNT = struct.Struct("<I")
_NODE = struct.Struct("<HHHH")
_HEAD = struct.Struct("<IIQQ")
_TREE = struct.Struct("<IHHQQQQQ")
_TAIL = struct.Struct("<QQ")


class DamagedError(Exception):
    """A database file that LMDB must not open."""


def check(data: memoryview) -> None:
    """Raise `DamagedError` unless LMDB can read the file without leaving it.

    data : the whole file
    """
    try:
        _Check(data).run()
    except (struct.error, IndexError) as error:
        raise DamagedError("a page is cut off") from error


class _Check:
    def __init__(self, data: memoryview) -> None:
        self.data, self.pages = data, len(data) // PAGE
        self.last, self.used = 0, bytearray()
        self.least = b"", False  # key that the next one must exceed (True) or reach

    def run(self) -> None:
        if self.pages < 2:
            raise DamagedError("it is shorter than two pages")
        metas = [self._meta(0), self._meta(1)]
        # Transaction N writes page N % 2. Otherwise a damaged number would select the older state.
        even, odd = metas[0][0], metas[1][0]
        if even % 2 or (abs(even - odd) != 1 and (even or odd)):
            raise DamagedError("its transactions are not consecutive")
        self._trees(metas[metas[0][0] < metas[1][0]])

    def _meta(self, page: int) -> tuple[int, int, tuple[tuple[int, ...], ...]]:
        """Return transaction, last page and trees of one of the two descriptions of the file."""
        _, _, flags, *_ = self._header(page)
        at = page * PAGE + _HEADER.size
        magic, version, _, size = _HEAD.unpack_from(self.data, at)
        at += _HEAD.size
        trees = tuple(_TREE.unpack_from(self.data, at + one * _TREE.size) for one in (FREE, MAIN))
        last, transaction = _TAIL.unpack_from(self.data, at + 2 * _TREE.size)
        if flags & _KINDS != _META or (magic, version) != (MAGIC, VERSION):
            raise DamagedError("its header is invalid")
        if trees[MAIN][0]:  # size of the values of a key, which only trees of other kinds have
            raise DamagedError("its tree is of another kind")
        if trees[FREE][0] != PAGE or last < 1 or size < (last + 1) * PAGE or last > LAST:
            raise DamagedError("it is larger than its header says")
        return transaction, last, trees

    def _trees(self, meta: tuple[int, int, tuple[tuple[int, ...], ...]]) -> None:
        _, self.last, trees = meta
        self.used = bytearray(self.last + 1)
        for which, (_, flags, depth, _, _, _, entries, root) in enumerate(trees):
            if flags & ~_USED != (_WHOLE_KEYS if which == FREE else 0):
                raise DamagedError("its tree is of another kind")
            if root == NONE:
                if entries or depth:
                    raise DamagedError("its tree has no root")
                continue
            if depth > DEEPEST:
                raise DamagedError("its tree is too deep")
            self.least = b"", False
            found = self._tree(root, depth, which)
            if found != entries:
                raise DamagedError("entries are missing")

    def _tree(self, page: int, depth: int, which: int) -> int:
        """Return the number of entries of a tree of some depth."""
        self._visit(page)
        number, _, flags, lower, upper = self._header(page)
        leaf = depth == 1
        if number != page or flags & _KINDS != (_LEAF if leaf else _BRANCH) or depth < 1:
            raise DamagedError("a page is of another kind")
        if not _HEADER.size <= lower <= upper <= PAGE or lower % 2:
            raise DamagedError("a page overlaps itself")
        count = (lower - _HEADER.size) // 2
        if not leaf and count < 2:
            raise DamagedError("a page has no branches")
        begin = page * PAGE
        places = struct.unpack_from(f"<{count}H", self.data, begin + _HEADER.size)
        total, ends = 0, []
        for index, place in enumerate(places):
            if not upper <= place <= PAGE - _NODE.size:
                raise DamagedError("an entry is outside its page")
            low, high, flags, key = _NODE.unpack_from(self.data, begin + place)
            stop = place + _NODE.size + key
            if which == FREE and key != 8 and not (key == 0 and not leaf):
                raise DamagedError("a list of free pages is damaged")
            if leaf or index:
                self._key(bytes(self.data[begin + stop - key : begin + stop]), leaf, which)
            if leaf:
                total += 1
                stop += self._leaf(begin, stop, low | high << 16, flags, which)
            else:
                total += self._tree(low | high << 16 | flags << 32, depth - 1, which)
            ends.append((place, stop + stop % 2))
        free = upper
        for place, stop in sorted(ends):
            if place != free:
                raise DamagedError("an entry is not where the previous one ends")
            free = stop
        if free != PAGE:
            raise DamagedError("a page has gaps")
        return total

    def _key(self, key: bytes, leaf: bool, which: int) -> None:
        """Require that keys increase, as searches do: pages of another tree or time do not fit.

        leaf : it is the key of an entry; otherwise the least one of the entries that follow
        """
        found = key if which == MAIN else key[::-1]  # numbers are little-endian
        if (found, False) < self.least:
            raise DamagedError("keys are not in order")
        self.least = found, leaf

    def _leaf(self, begin: int, stop: int, size: int, flags: int, which: int) -> int:
        """Check an entry, and return the bytes of its data on the page.

        stop : end of its key on the page; size : bytes of its value
        """
        if flags & ~_LARGE:
            raise DamagedError("an entry has unknown flags")
        here = 8 if flags else size
        if stop + here > PAGE:
            raise DamagedError("an entry is outside its page")
        at = begin + stop
        if flags:
            (page,) = struct.unpack_from("<Q", self.data, at)
            at = page * PAGE + _HEADER.size
            self._large(page, size)
        if which == FREE:
            self._free(at, size)
        return here

    def _large(self, page: int, size: int) -> None:
        """Check the pages of a large value."""
        number, _, flags, *_ = self._header(page)
        (pages,) = _COUNT.unpack_from(self.data, page * PAGE + 12)
        needed = -(-(_HEADER.size + size) // PAGE)
        if number != page or flags & _KINDS != _OVERFLOW or pages < needed:
            raise DamagedError("the pages of a value are damaged")
        self._visit(page, pages)

    def _free(self, at: int, size: int) -> None:
        """Check a list of free pages: their number, and the pages in decreasing order."""
        count = struct.unpack_from("<Q", self.data, at)[0] if size >= 8 else 0
        if size < 8 or 8 * (count + 1) > size:
            raise DamagedError("a list of free pages is damaged")
        free = struct.unpack_from(f"<{count}Q", self.data, at + 8)
        if any(a <= b for a, b in pairwise(free)):
            raise DamagedError("a list of free pages is damaged")
        for page in free:
            self._visit(page, written=False)

    def _visit(self, page: int, count: int = 1, written: bool = True) -> None:
        """Require that pages exist and have one use only.

        written : they are in the file, which may end before free pages that were never written
        """
        stop = page + count
        if not 1 < page < stop <= (min(self.last + 1, self.pages) if written else self.last + 1):
            raise DamagedError("it refers to a page that does not exist")
        if any(self.used[page:stop]):
            raise DamagedError("a page is used twice")
        self.used[page:stop] = b"\1" * count

    def _header(self, page: int) -> tuple[int, int, int, int, int]:
        found: tuple[int, int, int, int, int] = _HEADER.unpack_from(self.data, page * PAGE)
        return found
