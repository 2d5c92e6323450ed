"""An LSTM on integers of 8 bits, as a node of the executor: what a DynamicQuantizeLSTM is behind its first product.

With D directions, T steps, N sequences and H hidden elements, gates in the order of ONNX (input, output, forget, cell),
its inputs are the products of the sequence with the weights, i32 (T, N, D * 4 * H); the scale of the sequence, f32 ();
the weights of states, as `packed` has them for each direction, one direction behind the other; scales of both weights,
the bias, and, where weights lie in quads, their sums over hidden elements, f32 (D, `rows`, 4 * H); then, each of which
may be left out, peepholes f32 (D, 3 * H), lengths i32 (N), and the first states and cells, f32 (D, N, H).

The hidden states of all sequences of a direction are rounded together to 256 levels of their range, as
DynamicQuantizeLinear does, before each product; the sums are exact. Results are those of LSTM, and memory that the node
needs meanwhile, i32 (D, `scratch(N)`), which holds nothing of worth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from layout_ir.dialects.nn.integer_products import PackedIntegerConv
from layout_ir.dialects.nn.recurrent_activations import DIRECTIONS, Activation, activations_of
from layout_ir.dialects.nn.tensor_types import Shape
from layout_ir.elements.numpy_types import Array
from layout_ir.errors import LayoutError

INTEGER_LSTM = "layout_ir::IntegerLSTM"
"""The node, as `OpaqueOp.title` has it; its attributes are those of LSTM, the columns of a `panel`, and whether
weights lie in `quads`."""

GATES = 4


@dataclass(frozen=True, slots=True)
class IntegerLstm:
    """What the attributes of a node say."""

    hidden: int
    panel: int
    """Columns of the weights of states that lie side by side."""
    reverse: tuple[bool, ...]
    """Per direction, whether it begins at the end."""
    activations: tuple[tuple[Activation, ...], ...]
    """Per direction, those of the gates, of what the cell takes in, and of the cell."""
    in_quads: bool = False
    """Whether the weights of four hidden elements lie side by side, as the kernel for one sequence reads them."""
    clip: float | None = None
    input_forget: bool = False

    @staticmethod
    def of_node(attribute: Callable[..., Any]) -> IntegerLstm:
        """That of a node whose attributes are `attribute(name, default)`. Raises LayoutError where they say none."""
        direction = attribute("direction", "forward")
        counts = hidden, panel = [attribute(name, 0) for name in ("hidden_size", "panel")]
        lists = names, alpha, beta = [
            attribute(name, ()) for name in ("activations", "activation_alpha", "activation_beta")
        ]
        clip = attribute("clip", None)
        if (
            direction not in DIRECTIONS
            or not all(isinstance(count, int) and count > 0 for count in counts)
            or not all(isinstance(each, tuple | list) for each in lists)
            or not isinstance(clip, float | None)
        ):
            raise LayoutError(f"a {INTEGER_LSTM} has no such attributes")
        directions = DIRECTIONS[direction]
        return IntegerLstm(
            hidden,
            panel,
            tuple(direction == "reverse" or d == 1 for d in range(directions)),
            activations_of("LSTM", names, alpha, beta, directions),
            bool(attribute("quads", 0)),
            clip,
            bool(attribute("input_forget", 0)),
        )

    @property
    def directions(self) -> int:
        """The number of directions, 1 or 2."""
        return len(self.reverse)

    @property
    def columns(self) -> int:
        """Elements of all gates."""
        return GATES * self.hidden

    @property
    def rows(self) -> int:
        """Rows of numbers for the columns: scales of both weights, the bias, and sums of weights in quads."""
        return 3 + self.in_quads

    @property
    def quads(self) -> int:
        """Quads of hidden elements."""
        return -(-self.hidden // 4)

    @property
    def packing(self) -> PackedIntegerConv:
        """How the weights of states (columns, hidden) of a direction are packed where they are not in quads."""
        return PackedIntegerConv((), (), (), self.columns, self.panel)

    @property
    def packed_shape(self) -> Shape:
        """The shape of the packed weights of a direction."""
        if self.in_quads:
            return -(-self.columns // self.panel), self.quads, self.panel, 4
        return self.packing.packed_shape(self.hidden)

    def packed(self, weights: Array) -> Array:
        """Weights of states (columns, hidden) of a direction as a node takes them, zeros where there are none; those in
        quads are i8."""
        if not self.in_quads:
            return self.packing.packed(weights)
        panels, quads, panel, _ = self.packed_shape
        whole = np.zeros((panels * panel, quads * 4), np.int8)
        whole[: self.columns, : self.hidden] = weights
        parts = whole.reshape(panels, panel, quads, 4)
        return np.ascontiguousarray(parts.transpose(0, 2, 1, 3))

    def unpacked(self, packed: Array) -> Array:
        """The weights from which `packed` makes this array."""
        if not self.in_quads:
            return self.packing.unpacked(packed, self.hidden)
        panels, quads, panel, _ = packed.shape
        whole = packed.transpose(0, 2, 1, 3).reshape(panels * panel, quads * 4)
        return whole[: self.columns, : self.hidden]

    def scratch(self, batch: int) -> int:
        """Numbers of 32 bits that a direction of so many sequences needs: their products, states, and the levels of
        these, two bytes each."""
        return batch * (self.columns + self.hidden + 2 * self.quads)
