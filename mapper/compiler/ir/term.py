"""Functions of one real number as expressions: the variable, an operator, and numbers.

    Term("mul", (X, Term("sigmoid", (X,))))        # SiLU: x * sigmoid(x)

`mapper.compiler.numerics.functions` computes them.
"""

from __future__ import annotations

from typing import NamedTuple


class Term(NamedTuple):
    """An expression; equal expressions are equal objects.

    name : operator, a key of `mapper.compiler.numerics.functions.FORMULAS`, or "x", the variable
    of : its operands
    numbers : its constants
    """

    name: str
    of: tuple[Term, ...] = ()
    numbers: tuple[float, ...] = ()

    def __call__(self, inner: Term) -> Term:
        """Return this function of another function."""
        if self.name == "x":
            return inner
        return self._replace(of=tuple(one(inner) for one in self.of))

    def __str__(self) -> str:
        parts = [*map(str, self.of), *(f"{number:g}" for number in self.numbers)]
        return f"{self.name}({', '.join(parts)})" if parts else self.name


X = Term("x")


def affine(factor: float, offset: float) -> Term:
    """Return factor * x + offset."""
    return Term("affine", (X,), (factor, offset))
