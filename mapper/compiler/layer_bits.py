"""Precision of layers, as `--bits` gives it: a default, then exceptions by layer name."""

from __future__ import annotations

from collections.abc import Collection
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

from mapper.errors import UsageError

Bits = Literal[8, 16]
Rule = tuple[str, Bits]
"""A layer name, or a pattern of names, and its bits."""
BITS: dict[str, Bits] = {"8": 8, "16": 16}
AUTO = "auto"
FORM = "give 8, 16 or auto, then NAME=8 or NAME=16 per layer, such as 8,conv1=16"


class LayerBits(NamedTuple):
    """Bits of the activations and weights of each layer.

    default : of layers without a rule
    raises : whether the verification loop may raise layers without a rule to 16 bits
    rules : bits by layer name; a name with `*` or `?` matches several layers, and the last rule
        that matches a layer applies
    """

    default: Bits = 8
    raises: bool = False
    rules: tuple[Rule, ...] = ()

    @classmethod
    def parse(cls, text: int | str) -> LayerBits:
        """Return the precision that `--bits` describes; raise `UsageError` that quotes a word."""
        first, *words = str(text).split(",")
        if first != AUTO and first not in BITS:
            raise UsageError(f"--bits {text}: {first!r} is not a default; {FORM}")
        rules = []
        for word in words:
            name, _, bits = word.rpartition("=")
            if not name or bits not in BITS:
                raise UsageError(f"--bits {text}: {word!r} is not a layer with its bits; {FORM}")
            rules.append((name, BITS[bits]))
        return cls(BITS.get(first, 8), first == AUTO, tuple(rules))

    @property
    def has_16(self) -> bool:
        """Whether some layers must have 16 bits."""
        return self.default == 16 or any(bits == 16 for _, bits in self.rules)


def rule_of(rules: Collection[Rule], names: Collection[str]) -> Bits | None:
    """Return the bits of the last rule that matches a layer, None if none does.

    names : ONNX nodes of the layer
    """
    found = [bits for pattern, bits in rules if matches(pattern, names)]
    return found[-1] if found else None


def matches(pattern: str, names: Collection[str]) -> bool:
    """Return whether a rule's name is one of some names, or a pattern for one."""
    return pattern in names or any(fnmatchcase(name, pattern) for name in names)
