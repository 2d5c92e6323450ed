"""A model that goes out: what became of its Transposes, and its data in other files, which nobody has read yet."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from layout_ir.argument_checks import checked_path
from layout_ir.passes.onnx.model_boundary import (
    BoundaryChange,
)
from layout_ir.passes.onnx.model_constants import PendingTensor
from layout_ir.passes.onnx.model_file import is_pending, tensors_within, write_model
from layout_ir.passes.onnx.order_plan import Place
from layout_ir.passes.onnx.orders import Order, compose
from layout_ir.passes.onnx.remaining import Remaining
from layout_ir.selection.solver.selection_problem import Solution

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True)
class Traffic:
    """How many Transposes there are, the bytes that they read and write, and what that costs the target."""

    count: int
    nbytes: int
    cost: int


@dataclass
class OptimizedModel:
    """A model that goes out, and what became of its Transposes."""

    stored: onnx.ModelProto
    """The model without its external data, and without what is `pending`."""
    folder: Path | None
    """The folder of the file that it came from, in which its external data are."""
    pending: dict[str, PendingTensor]
    """The tensors of those data that are in another order now; and weights that are still in the file of the model."""
    target: str
    before: Traffic
    after: Traffic
    remaining: list[Remaining]
    """The Transposes that are left, those that move most first."""
    obligations: list[BoundaryChange]
    """What inputs and outputs that are free ask of callers."""
    solution: Solution
    certificate: dict[str, Any] | None = None
    notes: list[str] = field(default_factory=list[str])
    """What the proof does not speak of."""
    transposed: frozenset[str] = frozenset()
    """The results of the Transposes that the model had, by name; those in the bodies of functions are not known."""
    places: dict[str, Place] = field(default_factory=dict[str, Place])
    """The value of the model that came in that a tensor is, and in which order, () for its own; others are
    themselves."""
    has_subgraphs: bool = True
    """Whether some node may have subgraphs."""

    @property
    def gain(self) -> int:
        """How much less the Transposes cost than before."""
        return self.before.cost - self.after.cost

    def place(self, name: str, order: Order) -> Place:
        """Value `name` of the model that goes out in order `order`, as a value of the model that came in."""
        root, own = self.places.get(name, (name, ()))
        return root, compose(own, order) if own else order

    @property
    def model(self) -> onnx.ModelProto:
        """The model; tensors in external files are in it where their order changed, and references where not.

        Raises OnnxImportError where the files do not hold them, or the file of the model was written to meanwhile.
        """
        for tensor in tensors_within(self.stored):
            if is_pending(tensor) and tensor.name in self.pending:
                tensor.CopyFrom(self.pending[tensor.name].written(tensor.name, self.folder))
        self.pending.clear()
        return self.stored

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model to `path`, and its external data, if it has any, to a file beside it that ends in `.data`.

        Raises OSError, LayoutError where `path` is none, and OnnxImportError where the files that it came with do not
        hold its data, or its file was written to meanwhile.
        """
        write_model(self.stored, self.folder, checked_path(path), self.pending)
