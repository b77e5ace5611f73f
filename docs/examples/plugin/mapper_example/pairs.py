"""Files of pairs: a magic number, the number of neurons, and a record per synapse."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mapper.extend import (
    BadInputError,
    ImportJob,
    Loss,
    NetworkFile,
    NetworkMeta,
    PartialFile,
    edge_blocks,
    real_weights,
    require_room,
)

MAGIC = b"PAIRS01\n"
HEADER_BYTES = len(MAGIC) + 8
RECORD = np.dtype([("source", "<u4"), ("target", "<u4"), ("weight", "<f8")])
RECORDS = 1 << 18
"""Records that are read at once: memory does not depend on the size of the file."""
NEURON_BYTES = 64


def load(job: ImportJob) -> NetworkMeta:
    """Convert a file to a network file; raise `BadInputError` if it is damaged."""
    with job.source.open("rb") as file:
        header = file.read(HEADER_BYTES)
        rest = job.source.stat().st_size - HEADER_BYTES
        if len(header) < HEADER_BYTES or not header.startswith(MAGIC):
            raise BadInputError(f"{job.source}: has no header of pairs; is it another format?")
        if rest % RECORD.itemsize:
            raise BadInputError(
                f"{job.source}: {rest} bytes are not whole records of {RECORD.itemsize}; "
                "is the file complete?"
            )
        neurons = int.from_bytes(header[len(MAGIC) :], "little")
        require_room(f"{job.source}: {neurons:,} neurons", neurons * NEURON_BYTES, job.memory)
        records = rest // RECORD.itemsize
        with job.writer(neurons) as writer:
            for first in range(0, records, RECORDS):
                count = min(RECORDS, records - first)
                block = np.frombuffer(file.read(count * RECORD.itemsize), RECORD)
                writer.add(
                    block["source"].astype(np.int64), block["target"].astype(np.int64),
                    block["weight"].astype(np.float64),
                )  # fmt: skip
                job.progress((first + count) / records)
            return writer.finish({"format": "pairs", "source": job.source.name})


def save(net: NetworkFile, destination: Path) -> list[Loss]:
    """Write a record per synapse; the file gets its name when it is complete."""
    with PartialFile(destination) as file:
        file.write(MAGIC + net.vertices.to_bytes(8, "little"))
        for edges in edge_blocks(net):
            block = np.empty(edges.source.size, RECORD)
            block["source"], block["target"] = edges.source, edges.target
            block["weight"] = real_weights(edges.weight, net.meta.weight_unit)
            file.write(block.tobytes())
        file.commit()
    return []
