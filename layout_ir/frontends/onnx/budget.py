"""How much import may compute.

A file of a hundred bytes can ask for terabytes: 45 Concats that double, an outer sum, a product of constant matrices.
So what a node would make and how many steps that takes is computed before anything is done, and taken from the budget
of the model. What does not fit stays an op, where there is one, and is an error otherwise.

Budgets are for new values only: what the file holds is not counted, nor are values with one element everywhere, which
take no memory. They grow with the weights that are read, so that large models can transpose and dequantize all of
them. A mask of 4096 x 4096 in single precision is 64 MiB.
"""

from __future__ import annotations

FLOOR_BYTES = 256 << 20
BYTES_PER_BYTE = 8

FLOOR_STEPS = 1 << 30
"""About four seconds: one step is a multiplication and addition of a matrix product, 1 to 4 ns."""
STEPS_PER_BYTE = 64

PER_NODE = 4
"""The part of the whole that one node may take: a quarter. Evaluation needs several times the result."""

STEPS_PER_ELEMENT = 8
"""Of an op that NumPy does at once: 2 to 20 ns."""


class Budget:
    """What is left of the bytes and steps that a model may use."""

    def __init__(self) -> None:
        self._weights = 0
        self._bytes = 0
        self._steps = 0

    def grow(self, size: int) -> None:
        """Weights of `size` bytes were read from the model."""
        self._weights += size

    def refusal(self, size: int, steps: int) -> str | None:
        """Why `size` bytes and `steps` steps do not fit, in words that continue "its result ..."; None if they do."""
        for used, new, most, what in (
            (self._bytes, size, FLOOR_BYTES + BYTES_PER_BYTE * self._weights, "bytes"),
            (self._steps, steps, FLOOR_STEPS + STEPS_PER_BYTE * self._weights, "steps"),
        ):
            if new > most // PER_NODE:
                return f"takes {new} {what}, at most {most // PER_NODE} are spent at import on a node of this model"
            if used + new > most:
                left = most - used
                return f"takes {new} {what}, but only {left} of the {most} spent at import on this model are left"
        return None

    def spend(self, size: int, steps: int) -> str | None:
        """Take `size` bytes and `steps` steps; `refusal` if they are too many, and then nothing is taken."""
        refusal = self.refusal(size, steps)
        if refusal is None:
            self._bytes += size
            self._steps += steps
        return refusal
