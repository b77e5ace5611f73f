"""Maps are read from the parts that hold them at the end of a layer."""

from __future__ import annotations

from mapper.compiler.artifacts.columns import current_parts


def test_copies_of_a_part_are_not_read() -> None:
    """A core that sent its part of a joined map may overwrite it before the layer ends."""
    whole = {"rows": [0, 6], "channels": [0, 32]}
    copies = [{"rows": [0, 2], "channels": [16, 32]}, {"rows": [2, 6], "channels": [16, 32]}]
    assert current_parts([whole, *copies]) == [whole]
    assert current_parts([*copies, whole]) == [whole]
    assert current_parts(copies) == copies
    assert current_parts([copies[0], copies[0]]) == [copies[0], copies[0]]
