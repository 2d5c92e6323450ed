"""Extensions of dialects that are not ours, loaded when a program has ops of them.

As an extension of MLIR's `DialectRegistry` does, an extension gives the ops of a dialect what they do not bring along:
options, and what they do with pads. The one of arith, linalg, math, tensor and tosa (`selection.options.foreign`)
derives both from what the ops say of themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from layout_ir.algebra.layout import Layout
    from layout_ir.interfaces import PadBehaviour
    from layout_ir.passes.selection.options.conv_kernels import Model

PadsLeft = Callable[["Sequence[Layout]", "Sequence[float | None]"], "float | None"]
"""(layouts of the results, what the pads of each operand hold) -> what those of the results hold, None if unknown."""


class DialectExtension(Protocol):
    """Four functions; a module that has them is an extension."""

    def model_of(self, op: Operation) -> Model | None:
        """The model of `op`; None where it is only known by its types."""
        ...

    def behaviour_of(self, op: Operation) -> PadBehaviour | None:
        """What `op` does with pads; None where nothing is known of it."""
        ...

    def pads_left_of(self, op: Operation) -> PadsLeft | None:
        """What `behaviour_of` says that `op` leaves, as a function that needs no types; None where it is no such."""
        ...

    def class_key_of(self, op: Operation) -> Hashable | None:
        """What the answers about `op` follow from beside its Python class, its attributes and the types of its
        tensors; equal for ops that are alike. None where they may follow from the ops around it as well."""
        ...


_loaders: dict[str, Callable[[], DialectExtension]] = {}


def register_extension(dialect: str, load: Callable[[], DialectExtension]) -> None:
    """Lets the extension that `load` returns speak for the ops of `dialect`; `load` is called at the first such op.

    What is registered for single classes (`MODELS`, `PAD_BEHAVIOURS`) takes precedence.
    """
    _loaders[dialect] = cache(load)


def is_extended(op: Operation) -> bool:
    """Whether there is an extension of the dialect of `op`."""
    return op.dialect_name() in _loaders


def extension_of(op: Operation) -> DialectExtension | None:
    """The extension of the dialect of `op`; None where there is none."""
    load = _loaders.get(op.dialect_name())
    return None if load is None else load()
