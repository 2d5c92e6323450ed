"""Ops of dialects that xDSL has only in part, in the forms of MLIR 22.

linalg_relayout.py      linalg.pack and linalg.unpack
linalg_named.py         named structured ops: products, convolutions, poolings, elementwise ops, as one table
linalg_bodies.py        their scalar bodies
linalg_forms.py         linalg.generic, map, reduce, softmax and Winograd transforms
linalg_syntax.py        what their custom forms have in common
arith_ops.py            ops of arith and math on tensors, flags, and ops that xDSL lacks
tosa_ops.py             ops of tosa, as one table
tensor_ops.py           ops of tensor that xDSL lacks
loop_ops.py             scf.forall, and forms of the loops that xDSL has
memref_ops.py           globals, views and atomic updates of memref
affine_ops.py           affine.if, affine.max, digits of indices
index_ops.py            the dialect index
vector_ops.py           ops of vector that xDSL lacks
single_ops.py           what is missing here and there
verbatim_attributes.py  attributes that are carried as text: quantized types, encodings of sparse tensors
operand_syntax.py       operands that their forms have in common
wider_ops.py            ops that xDSL verifies more strictly than MLIR
word_attributes.py      attributes that are one word

`with_additions` adds them to xDSL's own dialect, which stays as it is for everyone else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from xdsl.ir import Attribute, Dialect, Operation

from layout_ir.dialects.upstream.affine_ops import AFFINE_OPS
from layout_ir.dialects.upstream.arith_ops import ARITH_OPS, MATH_OPS
from layout_ir.dialects.upstream.index_ops import INDEX_OPS, ComparisonAttr
from layout_ir.dialects.upstream.linalg_forms import FORM_OPS
from layout_ir.dialects.upstream.linalg_named import NAMED_OPS
from layout_ir.dialects.upstream.linalg_relayout import PackOp, RelayoutOp, UnPackOp
from layout_ir.dialects.upstream.loop_ops import SCF_OPS
from layout_ir.dialects.upstream.memref_ops import MEMREF_OPS
from layout_ir.dialects.upstream.single_ops import SINGLE_OPS
from layout_ir.dialects.upstream.tensor_ops import TENSOR_OPS
from layout_ir.dialects.upstream.tosa_ops import TOSA_OPS, BlockScaledIntegerType, ShapeType
from layout_ir.dialects.upstream.vector_ops import VECTOR_OPS, IteratorTypeAttr
from layout_ir.dialects.upstream.verbatim_attributes import (
    AddressSpaceAttr,
    AnyQuantizedType,
    BlockMappingAttr,
    CalibratedQuantizedType,
    ExternAttr,
    LaneMappingAttr,
    SparseEncodingAttr,
    ThreadMappingAttr,
    TokenType,
    UniformQuantizedType,
    WarpgroupMappingAttr,
    WarpMappingAttr,
)
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
    "affine": AFFINE_OPS,
    "arith": ARITH_OPS,
    "math": MATH_OPS,
    "linalg": (PackOp, UnPackOp, *FORM_OPS, *NAMED_OPS),
    "tosa": (*TOSA_OPS.values(), *WIDER_OPS["tosa"], *SINGLE_OPS["tosa"]),
    "vector": VECTOR_OPS,
    **{name: SINGLE_OPS[name] for name in ("func", "cf", "bufferization", "quant", "ml_program")},
    "tensor": (*TENSOR_OPS, *WIDER_OPS["tensor"]),
    "index": INDEX_OPS,
    "scf": SCF_OPS,
    "memref": (*MEMREF_OPS, *WIDER_OPS["memref"]),
}
"""The ops that are added to a dialect, by its name; they take the place of an op that has the name already."""

ATTRIBUTES: dict[str, tuple[type[Attribute], ...]] = {
    "linalg": (TypeFunctionAttr, ElementwiseKindAttr, UnaryFunctionAttr, BinaryFunctionAttr),
    "index": (ComparisonAttr,),
    "vector": (IteratorTypeAttr,),
    "ml_program": (ExternAttr, TokenType),
    "sparse_tensor": (SparseEncodingAttr,),
    "quant": (UniformQuantizedType, AnyQuantizedType, CalibratedQuantizedType),
    "gpu": (
        *(AddressSpaceAttr, BlockMappingAttr, WarpgroupMappingAttr, WarpMappingAttr, LaneMappingAttr),
        ThreadMappingAttr,
    ),
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
