"""Single ops on tensors that lie in given layouts."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    Signedness,
    TensorType,
)
from xdsl.ir import Attribute
from xdsl.utils.test_value import create_ssa_value

from layout_ir.algebra.format import Format
from layout_ir.backends.reference.tensor import Tensor, interior
from layout_ir.dialects import nn
from layout_ir.dialects.layout import FormatAttr, layout_of, with_format
from layout_ir.dialects.nn.tensor_types import round_to
from tests.backends.reference.catalog.cases import Case
from tests.backends.reference.formats import roomy_format

Array = NDArray[Any]

ELEMENTS: dict[str, Attribute] = {
    "f64": Float64Type(), "f32": Float32Type(), "f16": Float16Type(), "bf16": BFloat16Type(),
    "i1": IntegerType(1), **{f"i{bits}": IntegerType(bits) for bits in (8, 16, 32, 64)},
    **{f"ui{bits}": IntegerType(bits, Signedness.UNSIGNED) for bits in (8, 16, 32, 64)},
}  # fmt: skip


def tensor_type(
    shape: Sequence[int], dtype: str, format: Format | str | None = None
) -> TensorType[Attribute]:
    """A tensor type; without a format it is dense and row-major."""
    type = TensorType(ELEMENTS[dtype], list(shape))
    if format is None:
        return type
    return TensorType(ELEMENTS[dtype], list(shape), FormatAttr(Format.of(format)))


def plain_op(case: Case) -> nn.NNOp:
    """The op of a case with every tensor dense and row-major."""
    operands = [
        create_ssa_value(tensor_type(a.shape, d)) for a, d in zip(case.arrays, case.dtypes, strict=True)
    ]
    return case.op(
        *operands, result_type=tensor_type(case.expected.shape, case.result_dtype), **case.attributes
    )


def formatted_op(case: Case, rng: Random) -> nn.NNOp:
    """The op of a case with random formats that its verifier accepts: equal where they must be, pads as it reads them.

    The result claims what the op provides, or nothing.
    """
    plain = plain_op(case)
    if case.op is nn.ReduceMinOp and case.dtype in ("i64", "ui64"):
        return plain  # the largest of them is no double, so no policy can promise it
    bound = (
        [value for value in plain.formatted_operands() if _rank(value) == _rank(plain.result)]
        if plain.SAME_FORMAT
        else []
    )
    common = roomy_format(rng, [_shape(value) for value in (*bound, plain.result)])
    types: list[TensorType[Attribute]] = []
    for number, value in enumerate(plain.operands):
        format = common if value in bound else roomy_format(rng, [_shape(value)])
        padded = format.bind(_shape(value)).padded_dims()
        neutral = [read.neutral for read in plain.pad_reads(number) if read.dim in padded]
        policy = neutral[0] if neutral else rng.choice(("undef", "zero", 1))
        types.append(with_format(value.type, format.with_pad(policy)))
    claim: Any = "undef"
    if rng.random() < 0.7:
        open_result = case.op(
            *map(create_ssa_value, types), result_type=_typed(plain, common), **case.attributes
        )
        provided = open_result.pad_result(open_result.operand_pads())
        held = None if provided is None else round_to(provided, plain.result.type.element_type)
        # What is not whole may differ in its last bit from what NumPy computes.
        claim = "undef" if held is None or held % 1 else int(held)
    operands = [create_ssa_value(type) for type in types]
    return case.op(*operands, result_type=_typed(plain, common.with_pad(claim)), **case.attributes)


def _typed(plain: nn.NNOp, format: Format) -> TensorType[Attribute]:
    return with_format(plain.result.type, format)


def _shape(value: Any) -> tuple[int, ...]:
    return value.type.get_shape()


def _rank(value: Any) -> int:
    return len(_shape(value))


def stored_operands(op: nn.NNOp, case: Case) -> list[Tensor]:
    """The arrays of a case in the formats of the op's operands."""
    triples = zip(case.arrays, op.operands, case.dtypes, strict=True)
    return [Tensor.store(array, layout_of(value.type), dtype) for array, value, dtype in triples]


def with_pads(tensor: Tensor, value: Any, dims: Sequence[int]) -> Tensor:
    """`tensor` with `value` in those pads that lie along `dims` and no other dim."""
    layout = tensor.layout
    box = np.array(tensor.box())
    kept = np.array(box)
    along = tuple(slice(None) if d in dims else s for d, s in enumerate(interior(layout)))
    box[along] = value
    box[interior(layout)] = kept[interior(layout)]
    result = Tensor(np.array(tensor.buffer), layout, tensor.dtype)
    result.write_box(box)
    return result


def pad_mask(tensor: Tensor) -> Array:
    """True at the pads of the padded box."""
    mask = np.ones(tensor.layout.padded_shape, np.bool_)
    mask[interior(tensor.layout)] = False
    return mask
