"""What the translation of an op is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from layout_ir.frontends.onnx.builder import Builder
from layout_ir.frontends.onnx.errors import OnnxImportError
from layout_ir.frontends.onnx.node import Node
from layout_ir.frontends.onnx.values import Value

Translate = Callable[[Builder, Node], Value | Sequence[Value]]


@dataclass(frozen=True, slots=True)
class Translation:
    """`translate` appends ops for a node and returns its outputs, as many as are supported.

    With `takes_constants` it is asked for nodes with constant inputs too, instead of their evaluation.
    """

    translate: Translate
    takes_constants: bool = False


def normalize_axis(axis: int, rank: int) -> int:
    """An axis that may count from the end, from 0. Raises OnnxImportError if it is out of range."""
    if not -rank <= axis < rank:
        raise OnnxImportError(f"axis {axis} is not in {-rank}..{rank - 1}")
    return axis % rank if rank else 0


def normalize_axes(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Ascending axes from 0. Raises OnnxImportError if one is out of range or given twice."""
    result = sorted(normalize_axis(axis, rank) for axis in axes)
    if len(set(result)) != len(result):
        raise OnnxImportError(f"axes {list(axes)} name a dim of rank {rank} twice")
    return tuple(result)
