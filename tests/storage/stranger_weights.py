"""Reader of synaptic weights written only from docs/format.md, see `stranger`."""

from __future__ import annotations

import struct
import zipfile

from tests.storage.stranger import numbers, read


def read_weights(path: str) -> dict[tuple[int, int], float]:
    """Return the synaptic weight per (source, target); undirected: in both directions."""
    network = read(path)
    meta, found = network["meta"], {}
    with zipfile.ZipFile(path) as archive:
        for block in range(-(-meta["neurons"] // meta["block_size"])):
            first = block * meta["block_size"]
            data = archive.read(f"weights/{block:08d}")
            plain = numbers(data[1:])
            ends = [
                (vertex, other)
                for vertex, record in enumerate(network["lists"][first:], first)
                for other, incoming, _, _ in record
                if not incoming and vertex < first + meta["block_size"]
            ]
            owner = first
            for gap, size in zip(plain[1 : 1 + 2 * plain[0] : 2], plain[2::2], strict=False):
                owner += gap
                assert size > 0
                ends.append((owner, owner))
            at = 1
            for _ in range(1 + 2 * plain[0]):  # the numbers before the weights
                while data[at] >= 128:
                    at += 1
                at += 1
            if data[0] == 0:
                values = [n // 2 if n % 2 == 0 else -(n + 1) // 2 for n in numbers(data[at:])]
            else:
                form = {1: "f", 2: "d"}[data[0]]
                values = list(struct.unpack(f"<{len(ends)}{form}", data[at:]))
            found.update(zip(ends, map(float, values), strict=True))
    return found
