"""Lists of cores as users write them: core ids, [x, y] pairs, or both."""

from __future__ import annotations

from typing import Any

from chipsim.errors import ChipError


def core_ids(listed: object, field: str, what: str, width: int, height: int) -> tuple[int, ...]:
    """Return the core ids of a list of ids and [x, y] pairs; ids are not range-checked here.

    field : name of the key, for messages
    what : name of one item, for messages

    Raises `ChipError` if the list is malformed or a pair is outside the mesh.
    """
    if not isinstance(listed, list | tuple):
        raise ChipError(f"{field} is {listed!r}; give a list of core ids or [x, y] pairs")
    ids: list[int] = []
    for item in listed:
        if isinstance(item, list | tuple):
            if len(item) != 2 or not all(type(part) is int for part in item):
                raise ChipError(f"{field} holds {item!r}; give a core id or an [x, y] pair")
            x, y = item
            if not (0 <= x < width and 0 <= y < height):
                raise ChipError(f"{what} [{x}, {y}] is outside the {width}x{height} mesh")
            ids.append(y * width + x)
        else:
            ids.append(item)
    return tuple(ids)


def core_pairs(listed: object, field: str, what: str, width: int, height: int) -> Any:
    """Return the pairs of core ids of a list of pairs, each of two ids or [x, y] pairs.

    Arguments and errors as in `core_ids`; other values than pairs are returned as they are.
    """
    if not isinstance(listed, list | tuple):
        raise ChipError(
            f"{field} is {listed!r}; give a list of pairs of cores, such as [[[1, 2], [2, 2]]]"
        )
    return tuple(
        core_ids(pair, field, what, width, height) if isinstance(pair, list | tuple) else pair
        for pair in listed
    )
