"""Ops of dialects that xDSL has only in part, in the forms of MLIR 22.

linalg_relayout.py      linalg.pack and linalg.unpack
linalg_named.py         named structured ops: products, convolutions, poolings, elementwise ops, as one table
linalg_bodies.py        their scalar bodies
linalg_forms.py         linalg.generic, map, reduce, softmax and Winograd transforms
linalg_syntax.py        what their custom forms have in common
arith_ops.py            ops of arith and math on tensors, flags, and ops that xDSL lacks
tosa_ops.py             ops of tosa, as one table
wider_ops.py            ops that xDSL verifies more strictly than MLIR
word_attributes.py      attributes that are one word

`with_additions` adds them to xDSL's own dialect, which stays as it is for everyone else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from xdsl.ir import Attribute, Dialect, Operation

from layout_ir.dialects.upstream.arith_ops import ARITH_OPS, MATH_OPS
from layout_ir.dialects.upstream.linalg_forms import FORM_OPS
from layout_ir.dialects.upstream.linalg_named import NAMED_OPS
from layout_ir.dialects.upstream.linalg_relayout import PackOp, RelayoutOp, UnPackOp
from layout_ir.dialects.upstream.tosa_ops import TOSA_OPS, BlockScaledIntegerType, ShapeType
from layout_ir.dialects.upstream.wider_ops import WIDER_OPS
from layout_ir.dialects.upstream.word_attributes import (
    BinaryFunctionAttr,
    BlockSizeAttr,
    ElementwiseKindAttr,
    ResizeModeAttr,
    TypeFunctionAttr,
    UnaryFunctionAttr,
)

ADDITIONS: dict[str, tuple[type[Operation], ...]] = {
    "arith": ARITH_OPS,
    "math": MATH_OPS,
    "linalg": (PackOp, UnPackOp, *FORM_OPS, *NAMED_OPS),
    "tosa": (*TOSA_OPS.values(), *WIDER_OPS["tosa"]),
    "tensor": WIDER_OPS["tensor"],
    "memref": WIDER_OPS["memref"],
}
"""The ops that are added to a dialect, by its name; they take the place of an op that has the name already."""

ATTRIBUTES: dict[str, tuple[type[Attribute], ...]] = {
    "linalg": (TypeFunctionAttr, ElementwiseKindAttr, UnaryFunctionAttr, BinaryFunctionAttr),
    "tosa": (ShapeType, BlockScaledIntegerType, ResizeModeAttr, BlockSizeAttr),
}
"""The attributes and types that are added likewise."""


def with_additions(name: str, load: Callable[[], Dialect]) -> Dialect:
    """The dialect that `load` returns and `name` names, with what is added to it, as a new object."""
    dialect = load()
    ops, attributes = ADDITIONS.get(name, ()), ATTRIBUTES.get(name, ())
    names = {added.name for added in (*ops, *attributes)}
    return replace(
        dialect,
        _operations=[*(op for op in dialect.operations if op.name not in names), *ops],
        _attributes=[*(each for each in dialect.attributes if each.name not in names), *attributes],
    )


__all__ = ["ADDITIONS", "PackOp", "RelayoutOp", "UnPackOp", "with_additions"]
