"""Shards: runs of consecutive chunks, determined by the graph alone, and their owners."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mapper.planning.worker_plan import LEAST_SHARDS, SHARD_ENTRIES

MOST_SHARDS = 1 << 16


class Shards:
    """Division of the chunks of a graph into shards, and the owner of each shard.

    Initially owner i of w has every w-th shard from the i-th on, so that a pass in the order of the
    chunks keeps all owners busy.
    """

    def __init__(self, chunks: int, entries: int, owners: int, together: int = 1) -> None:
        """together : consecutive chunks with one owner, see `mapper.executors.sections`."""
        self._chunks = chunks
        self._window = max(1, SHARD_ENTRIES * chunks // max(1, entries))
        size = max(1, min(self._window, chunks // LEAST_SHARDS), -(-chunks // MOST_SHARDS))
        self.size = -(-size // together) * together
        self.count = -(-chunks // self.size)
        self._owner = [shard % owners for shard in range(self.count)]

    def of(self, chunk: int) -> int:
        """Return the shard of a chunk."""
        return chunk // self.size

    def owner(self, chunk: int) -> int:
        """Return the owner of a chunk."""
        return self.owner_of(self.of(chunk))

    def owner_of(self, shard: int) -> int:
        """Return the owner of a shard."""
        return self._owner[shard]

    def chunks_of(self, shard: int) -> range:
        """Return the chunks of a shard."""
        return range(shard * self.size, min((shard + 1) * self.size, self._chunks))

    @property
    def window(self) -> int:
        """Number of shards per owner in one window."""
        return max(1, self._window // self.size)

    def held(self, owner: int) -> int:
        """Return the number of shards of an owner."""
        return self._owner.count(owner)

    def give_away(self, owner: int, others: Sequence[int], one_in: int = 1) -> int:
        """Move shards of an owner to others, fewest shards first; return how many.

        one_in : move one of every `one_in` shards, rounded up
        """
        others = sorted(others, key=self.held)
        mine = [shard for shard, one in enumerate(self._owner) if one == owner][::one_in]
        for place, shard in enumerate(mine):
            self._owner[shard] = others[place % len(others)]
        return len(mine)

    def by_owner(self, chunks: Sequence[int], places: Sequence[int]) -> dict[int, list[int]]:
        """Return places of chunks in a list, by the owner of the chunk."""
        found: dict[int, list[int]] = {}
        for place in places:
            found.setdefault(self.owner(chunks[place]), []).append(place)
        return found

    def windows(self, chunks: Sequence[int], owners: int) -> Iterator[range]:
        """Yield places in a list of chunks, one window of all owners at a time."""
        step = self._window * owners
        for low in range(0, len(chunks), step):
            yield range(low, min(low + step, len(chunks)))
