"""Cores as a user lists them: by their ids, by [x, y] pairs, or by both."""

from __future__ import annotations

from chipsim.errors import ChipError


def core_ids(listed: object, field: str, what: str, width: int, height: int) -> tuple[int, ...]:
    """Core ids of a list that holds ids and [x, y] pairs; ids are not checked here.

    field : the key of the list; what : one of what it lists, in messages
    Raises `ChipError` if it is no such list, or a pair is outside of the mesh.
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
