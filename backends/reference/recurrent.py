"""RNN, GRU and LSTM as the ONNX standard defines them, with all of their attributes.

The onnx package leaves out the lengths of sequences, clipping, other activations and coupled gates, and says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from layout_ir.dialects.nn.recurrent_activations import DIRECTIONS, Activation, activations_of
from layout_ir.elements.numpy_types import Array
from layout_ir.errors import LayoutError

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


@dataclass(frozen=True, slots=True)
class Options:
    """The attributes of a node of RNN, GRU or LSTM."""

    direction: str = "forward"
    activations: Sequence[str] = ()
    """Per direction those of `DEFAULTS`, in this order; empty for these themselves."""
    alpha: Sequence[float] = ()
    beta: Sequence[float] = ()
    clip: float | None = None
    batch_first: bool = False
    """Whether the first dim of tensors is the batch, and not the sequence or the direction (`layout` = 1)."""
    linear_before_reset: bool = False
    input_forget: bool = False
    rounds_states: bool = False
    """Whether the hidden states of all sequences are rounded to 256 levels before they are multiplied."""


@dataclass(frozen=True, slots=True)
class Operands:
    """The inputs of a node. With D directions, G gates, T steps, N sequences, I inputs and H hidden elements."""

    x: Array
    """(T, N, I)"""
    w: Array
    """(D, G * H, I)"""
    r: Array
    """(D, G * H, H)"""
    b: Array | None = None
    """(D, 2 * G * H): those of w, then those of r."""
    lengths: Array | None = None
    """(N): the steps of each sequence; T of all where it is left out."""
    h: Array | None = None
    """(D, N, H): the state before the first step; zeros where it is left out."""
    c: Array | None = None
    """(D, N, H): the cell of LSTM before the first step, as `h`."""
    p: Array | None = None
    """(D, 3 * H): peepholes of LSTM's input, output and forget gates."""


def recurrent(operator: str, given: Operands, options: Options) -> tuple[Array, Array, Array]:
    """All states (T, D, N, H), the last ones (D, N, H) and the last cells, which are those of LSTM alone.

    Steps behind the end of a sequence give zeros, and sequences without a step a last state of zeros. Raises
    LayoutError where activations are unknown, or directions, lengths or activations do not fit the operands.
    """
    x, h, c = given.x, given.h, given.c
    if options.batch_first:
        x = x.swapaxes(0, 1)
        h, c = (None if state is None else state.swapaxes(0, 1) for state in (h, c))
    steps, batch, _ = x.shape
    hidden, directions = given.r.shape[-1], len(given.w)
    if directions != DIRECTIONS.get(options.direction):
        raise LayoutError(f"{operator} has direction {options.direction!r}, but weights of {directions}")
    dtype = np.result_type(x.dtype, np.float32)
    zeros = np.zeros((directions, batch, hidden), dtype)
    h, c = (zeros if state is None else state.astype(dtype) for state in (h, c))
    lengths = np.full(batch, steps) if given.lengths is None else given.lengths.astype(np.int64)
    if not ((lengths >= 0) & (lengths <= steps)).all():
        raise LayoutError(f"sequence_lens of {operator} are {lengths.tolist()}, but there are {steps} steps")
    activations = activations_of(operator, options.activations, options.alpha, options.beta, directions)
    states = np.zeros((steps, directions, batch, hidden), dtype)
    last, cells = zeros.copy(), zeros.copy()
    for d in range(directions):
        cell = _Cell.of(operator, given, options, activations[d], d, dtype)
        backward = options.direction == "reverse" or d == 1
        states[:, d], last[d], cells[d] = _unrolled(cell, x.astype(dtype), lengths, h[d], c[d], backward)
    if options.batch_first:
        states, last, cells = states.transpose(2, 0, 1, 3), last.swapaxes(0, 1), cells.swapaxes(0, 1)
    return states.astype(x.dtype), last.astype(x.dtype), cells.astype(x.dtype)


def _unrolled(
    cell: _Cell, x: Array, lengths: Array, h: Array, c: Array, backward: bool
) -> tuple[Array, Array, Array]:
    """One direction: states (T, N, H), the last state and the last cell of each sequence."""
    steps, batch = x.shape[:2]
    states = np.zeros((steps, batch, h.shape[-1]), x.dtype)
    sequences = np.arange(batch, dtype=np.int64)
    for step in range(steps):
        runs = step < lengths
        # Backwards, a sequence begins with its own last step, and not with what is behind its end.
        at = np.where(runs, lengths - 1 - step, 0) if backward else np.full(batch, step)
        # A state is multiplied once more behind the end of its sequence: ONNX Runtime has its range take part.
        seen = on_levels(np.where((step <= lengths)[:, None], h, 0)) if cell.options.rounds_states else h
        new_h, new_c = cell.step(x[at, sequences], seen, c)
        h, c = np.where(runs[:, None], new_h, h), np.where(runs[:, None], new_c, c)
        states[at[runs], sequences[runs]] = new_h[runs]
    begun = (lengths > 0)[:, None]
    return states, np.where(begun, h, 0), np.where(begun, c, 0)


def on_levels(x: Array) -> Array:
    """The numbers that DynamicQuantizeLinear, and DequantizeLinear behind it, make of f32."""
    low, high = np.min(x, initial=0), np.max(x, initial=0)
    scale = (high - low) / np.float32(255) if high > low else np.float32(1)
    zero_point = np.rint(np.clip(-low / scale, 0, 255))
    levels = np.clip(np.rint(x / scale) + zero_point, 0, 255)
    return (levels - zero_point) * scale


@dataclass(frozen=True, slots=True)
class _Cell:
    """One direction of an operator: its weights, split by gate, and its functions."""

    operator: str
    w: list[Array]
    r: list[Array]
    of_w: list[Array]
    """Per gate, the bias of w."""
    of_r: list[Array]
    peepholes: list[Array]
    activations: Sequence[Activation]
    options: Options

    @staticmethod
    def of(
        operator: str,
        given: Operands,
        options: Options,
        activations: Sequence[Activation],
        d: int,
        dtype: np.dtype,
    ) -> _Cell:
        gates, hidden = _GATES[operator], given.r.shape[-1]
        b = np.zeros(2 * gates * hidden) if given.b is None else given.b[d]
        p = np.zeros(3 * hidden) if given.p is None else given.p[d]
        biases = np.split(b.astype(dtype), 2 * gates)
        w, r = (np.split(weights[d].astype(dtype), gates) for weights in (given.w, given.r))
        peepholes = np.split(p.astype(dtype), 3)
        return _Cell(operator, w, r, biases[:gates], biases[gates:], peepholes, activations, options)

    def step(self, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
        """State and cell (N, H) behind a step on x (N, I)."""
        match self.operator:
            case "RNN":
                return self._activated(0, self._gate(0, x, h)), c
            case "GRU":
                return self._gru(x, h), c
            case _:
                return self._lstm(x, h, c)

    def _gru(self, x: Array, h: Array) -> Array:
        update = self._activated(0, self._gate(0, x, h))
        reset = self._activated(0, self._gate(1, x, h))
        if self.options.linear_before_reset:
            behind = reset * (h @ self.r[2].T + self.of_r[2])
        else:
            behind = (reset * h) @ self.r[2].T + self.of_r[2]
        made = self._activated(1, x @ self.w[2].T + self.of_w[2] + behind)
        return (1 - update) * made + update * h

    def _lstm(self, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
        of_input, of_output, of_forget = self.peepholes
        taken = self._activated(0, self._gate(0, x, h) + of_input * c)
        kept = (
            1 - taken
            if self.options.input_forget
            else self._activated(0, self._gate(2, x, h) + of_forget * c)
        )
        c = kept * c + taken * self._activated(1, self._gate(3, x, h))
        shown = self._activated(0, self._gate(1, x, h) + of_output * c)
        # The cell is no gate: ONNX Runtime, too, leaves it as it is, where the standard speaks of all activations.
        return shown * self.activations[2](np, c), c

    def _gate(self, gate: int, x: Array, h: Array) -> Array:
        return x @ self.w[gate].T + h @ self.r[gate].T + self.of_w[gate] + self.of_r[gate]

    def _activated(self, number: int, values: Array) -> Array:
        clip = self.options.clip
        return self.activations[number](np, values if clip is None else np.clip(values, -clip, clip))
