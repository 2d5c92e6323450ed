"""Ops of dialects that xDSL has only in part, in the forms of MLIR 22.

linalg_relayout.py      linalg.pack and linalg.unpack
linalg_named.py         named structured ops: products, convolutions, poolings, elementwise ops, as one table
linalg_bodies.py        their scalar bodies
linalg_forms.py         linalg.generic, map, reduce, softmax and Winograd transforms
linalg_syntax.py        what their custom forms have in common
arith_ops.py            ops of arith on tensors, flags, and ops that xDSL lacks
math_ops.py             ops of math that xDSL lacks
complex_ops.py          those of complex
elementwise_syntax.py   what forms of ops of arith and math have in common
tosa_ops.py             ops of tosa, as one table
tosa_variables.py       ... its variables
tensor_ops.py           ops of tensor that xDSL lacks
loop_ops.py             scf.forall, and forms of the loops that xDSL has
bufferization_ops.py    ops of bufferization, in full
memref_ops.py           globals, views and atomic updates of memref
dma_ops.py              its copies beside the program
affine_ops.py           affine.if, affine.max, digits of indices
affine_accesses.py      reads and writes of affine, whose subscripts may have symbols
affine_parallel.py      affine.parallel
index_ops.py            the dialect index
func_ops.py             func.call_indirect, weights of branches, attributes of declarations
function_syntax.py      the custom form of functions
ml_program_ops.py       ops of ml_program
shape_ops.py            the dialect shape
quant_ops.py            the dialect quant
vector_ops.py           ops of vector that xDSL lacks: shapes and constants;
vector_products.py      ... sums and products;
vector_memory_ops.py    ... reads and writes of memory, and masks
verbatim_attributes.py  attributes that are carried as text: quantized types, encodings of sparse tensors
operand_syntax.py       operands, bindings and types that their forms have in common
wider_ops.py            ops that xDSL verifies more strictly than MLIR
word_attributes.py      attributes that are one word

`with_additions` adds them to xDSL's own dialect, which stays as it is for everyone else. Modules are imported with the
dialect that they are for: a program of functions alone does not pay for `linalg`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from xdsl.ir import Attribute, Dialect, Operation


def added_ops(dialect: str) -> tuple[type[Operation], ...]:
    """The ops that are added to a dialect; they take the place of an op that has the name already."""
    match dialect:
        case "affine":
            from layout_ir.dialects.upstream.affine_accesses import ACCESS_OPS
            from layout_ir.dialects.upstream.affine_ops import AFFINE_OPS
            from layout_ir.dialects.upstream.affine_parallel import PARALLEL_OPS

            return (*AFFINE_OPS, *ACCESS_OPS, *PARALLEL_OPS)
        case "arith":
            from layout_ir.dialects.upstream.arith_ops import ARITH_OPS

            return ARITH_OPS
        case "math":
            from layout_ir.dialects.upstream.math_ops import MATH_OPS

            return MATH_OPS
        case "func":
            from layout_ir.dialects.upstream.func_ops import FUNC_OPS

            return FUNC_OPS
        case "cf":
            from layout_ir.dialects.upstream.func_ops import CF_OPS

            return CF_OPS
        case "index":
            from layout_ir.dialects.upstream.index_ops import INDEX_OPS

            return INDEX_OPS
        case "linalg":
            from layout_ir.dialects.upstream.linalg_forms import FORM_OPS
            from layout_ir.dialects.upstream.linalg_named import NAMED_OPS
            from layout_ir.dialects.upstream.linalg_relayout import PackOp, UnPackOp

            return (PackOp, UnPackOp, *FORM_OPS, *NAMED_OPS)
        case "memref":
            from layout_ir.dialects.upstream.dma_ops import DMA_OPS
            from layout_ir.dialects.upstream.memref_ops import MEMREF_OPS
            from layout_ir.dialects.upstream.wider_ops import WIDER_OPS

            return (*MEMREF_OPS, *DMA_OPS, *WIDER_OPS["memref"])
        case "scf":
            from layout_ir.dialects.upstream.loop_ops import SCF_OPS

            return SCF_OPS
        case "tensor":
            from layout_ir.dialects.upstream.tensor_ops import TENSOR_OPS
            from layout_ir.dialects.upstream.wider_ops import WIDER_OPS

            return (*TENSOR_OPS, *WIDER_OPS["tensor"])
        case "tosa":
            from layout_ir.dialects.upstream.tosa_ops import TOSA_OPS
            from layout_ir.dialects.upstream.tosa_variables import VARIABLE_OPS
            from layout_ir.dialects.upstream.wider_ops import WIDER_OPS

            return (*TOSA_OPS.values(), *WIDER_OPS["tosa"], *VARIABLE_OPS)
        case "vector":
            from layout_ir.dialects.upstream.vector_memory_ops import VECTOR_MEMORY_OPS
            from layout_ir.dialects.upstream.vector_ops import VECTOR_OPS
            from layout_ir.dialects.upstream.vector_products import VECTOR_PRODUCTS

            return (*VECTOR_OPS, *VECTOR_PRODUCTS, *VECTOR_MEMORY_OPS)
        case "ml_program":
            from layout_ir.dialects.upstream.ml_program_ops import ML_PROGRAM_OPS

            return ML_PROGRAM_OPS
        case "shape":
            from layout_ir.dialects.upstream.shape_ops import SHAPE_OPS

            return SHAPE_OPS
        case "bufferization":
            from layout_ir.dialects.upstream.bufferization_ops import BUFFERIZATION_OPS

            return BUFFERIZATION_OPS
        case "complex":
            from layout_ir.dialects.upstream.complex_ops import COMPLEX_OPS

            return COMPLEX_OPS
        case "quant":
            from layout_ir.dialects.upstream.quant_ops import QUANT_OPS

            return QUANT_OPS
        case _:
            return ()


def added_attributes(dialect: str) -> tuple[type[Attribute], ...]:
    """The attributes and types that are added likewise."""
    match dialect:
        case "index":
            from layout_ir.dialects.upstream.index_ops import ComparisonAttr

            return (ComparisonAttr,)
        case "linalg":
            from layout_ir.dialects.upstream.word_attributes import LINALG_ATTRIBUTES

            return LINALG_ATTRIBUTES
        case "shape":
            from layout_ir.dialects.upstream.shape_ops import SHAPE_TYPES

            return SHAPE_TYPES
        case "tosa":
            from layout_ir.dialects.upstream.tosa_ops import BlockScaledIntegerType, ShapeType
            from layout_ir.dialects.upstream.word_attributes import TOSA_ATTRIBUTES

            return (ShapeType, BlockScaledIntegerType, *TOSA_ATTRIBUTES)
        case "vector":
            from layout_ir.dialects.upstream.vector_products import IteratorTypeAttr
            from layout_ir.dialects.upstream.word_attributes import PunctuationAttr

            return (IteratorTypeAttr, PunctuationAttr)
        case "gpu" | "ml_program" | "quant" | "sparse_tensor":
            from layout_ir.dialects.upstream.verbatim_attributes import VERBATIM_ATTRIBUTES

            return VERBATIM_ATTRIBUTES[dialect]
        case _:
            return ()


def with_additions(name: str, load: Callable[[], Dialect]) -> Dialect:
    """The dialect that `load` returns and `name` names, with what is added to it, as a new object."""
    dialect = load()
    ops, attributes = added_ops(name), added_attributes(name)
    names = {added.name for added in (*ops, *attributes)}
    return replace(
        dialect,
        _operations=[*(op for op in dialect.operations if op.name not in names), *ops],
        _attributes=[*(each for each in dialect.attributes if each.name not in names), *attributes],
    )
