"""Limits on the memory and time that the evaluation of constant nodes may take during import.

A file of a hundred bytes can ask for terabytes: 45 Concats that double, an outer sum, a product of constant matrices.
So the size of a node's result and the number of steps to it are computed first, and taken from the budget of the
model. A node that exceeds the budget becomes an op, or is an error where no op is supported for it.

Only new values are counted: neither constants in the file nor splats, which take no memory. The budget grows with the
weights that are read, so that a large model can transpose and dequantize all of them. A mask of 4096 x 4096 in single
precision takes 64 MiB.
"""

from __future__ import annotations

FLOOR_BYTES = 256 << 20
BYTES_PER_BYTE = 8

FLOOR_STEPS = 1 << 30
"""About four seconds: one step is a multiplication and addition of a matrix product, 1 to 4 ns."""
STEPS_PER_BYTE = 64

PER_NODE = 4
"""One node may take a quarter of the budget: its evaluation needs several times the memory of the result."""

STEPS_PER_ELEMENT = 8
"""The steps of an op that is one call of NumPy, which takes 2 to 20 ns per element."""


class Budget:
    """The bytes and steps that a model has left for evaluation."""

    def __init__(self) -> None:
        self._weights = 0
        self._bytes = 0
        self._steps = 0

    def grow(self, size: int) -> None:
        """Raises the limits for weights of `size` bytes that were read from the model."""
        self._weights += size

    def refusal(self, size: int, steps: int) -> str | None:
        """Why `size` bytes and `steps` steps exceed the budget, to follow "its result"; None where they do not."""
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
        """Takes `size` bytes and `steps` steps and returns None, or takes nothing and returns the `refusal`."""
        refusal = self.refusal(size, steps)
        if refusal is None:
            self._bytes += size
            self._steps += steps
        return refusal
