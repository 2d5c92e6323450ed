"""Every op gives the numbers of its oracle, in every format, and its pads are what the type says."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from layout_ir.backends.reference.semantics import SEMANTICS
from layout_ir.backends.reference.tensor import Tensor, policy_element
from layout_ir.dialects import layout, nn
from layout_ir.elements.element_types import element_type
from layout_ir.elements.numpy_types import poison, storage
from tests.backends.reference.catalog import MAKERS, case
from tests.backends.reference.catalog.cases import Case
from tests.backends.reference.catalog.numbers import WIDE_UNSIGNED, to_numbers
from tests.backends.reference.programs import formatted_op, pad_mask, plain_op, stored_operands, with_pads
from tests.seeds import seeds

OPS = sorted(MAKERS, key=lambda op: op.name)
TOLERANCE = {"f64": 1e-12, "f32": 2e-5, "f16": 4e-3, "bf16": 3e-2}
by_op = pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)


def check(case: Case, result: Tensor) -> None:
    assert result.dtype == case.result_dtype
    actual = to_numbers(result.logical(), result.dtype)
    assert actual.shape == case.expected.shape
    if not element_type(case.result_dtype).is_float:
        expected = case.expected
        if case.result_dtype in WIDE_UNSIGNED:  # computed on i64
            expected = to_numbers(expected.astype(storage(case.result_dtype)), case.result_dtype)
        np.testing.assert_array_equal(actual, expected)
        return
    scale = max(1.0, float(np.abs(case.expected[np.isfinite(case.expected)]).max(initial=0)))
    tolerance = max(TOLERANCE[case.result_dtype], TOLERANCE.get(case.dtype, 0))
    np.testing.assert_allclose(actual, case.expected, rtol=tolerance, atol=tolerance * scale)


def run(op: nn.NNOp, operands: list[Tensor]) -> Tensor:
    with np.errstate(all="ignore"):
        return SEMANTICS[type(op)](op, *operands)


def same_bits(left: NDArray[Any], right: NDArray[Any]) -> bool:
    return np.ascontiguousarray(left).tobytes() == np.ascontiguousarray(right).tobytes()


def test_every_op_of_both_dialects_has_semantics():
    ops = {op for dialect in (nn.NN, layout.LayoutDialect) for op in dialect.operations}
    assert ops - {nn.OpaqueOp} <= set(SEMANTICS)


def test_every_nn_op_is_in_the_catalog():
    assert {op for op in nn.NN.operations if op not in (nn.ConstantOp, nn.OpaqueOp)} == set(OPS)


@by_op
def test_row_major_op_gives_what_the_oracle_gives(op: type[nn.NNOp]):
    for seed in range(25):
        one = case(Random(seed), op)
        check(one, run(plain_op(one), stored_operands(plain_op(one), one)))


@pytest.mark.parametrize(
    ("op", "dtype"),
    [(op, dtype) for op in OPS for dtype in op.ALLOWED if dtype != "f32"],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
@pytest.mark.parametrize("half", seeds(1, 2))
def test_other_element_types_give_what_the_oracle_gives(op: type[nn.NNOp], dtype: str, half: int):
    for seed in range(half, 6, 2):
        one = case(Random(seed), op, dtype)
        formatted = formatted_op(one, Random(seed))
        formatted.verify_()
        check(one, run(formatted, stored_operands(formatted, one)))


@by_op
@pytest.mark.parametrize("half", seeds(1, 2))
def test_op_in_any_format_gives_what_the_oracle_gives_and_pads_as_its_type_says(op: type[nn.NNOp], half: int):
    padded = 0
    for seed in range(half, 60, 2):
        rng = Random(seed)
        one = case(rng, op)
        formatted = formatted_op(one, rng)
        formatted.verify_()
        result = run(formatted, stored_operands(formatted, one))
        check(one, result)
        # An unclaimed pad is poison; a claimed one holds the claim.
        pads = result.box()[pad_mask(result)]
        padded += pads.size > 0
        promised = to_numbers(np.full_like(pads, policy_element(result.layout, result.dtype)), result.dtype)
        np.testing.assert_array_equal(to_numbers(pads, result.dtype), promised)
        # Nothing is written outside the padded box.
        outside = np.ones(len(result.buffer), np.bool_)
        outside[result.layout.addresses(padded=True)] = False
        holes = result.buffer[outside]
        assert same_bits(holes, np.full_like(holes, poison(result.dtype)))
    assert padded > 10 or op in (nn.CastOp,)


@by_op
@pytest.mark.parametrize("half", seeds(1, 2))
def test_op_reads_the_pads_that_it_says_it_reads_and_no_others(op: type[nn.NNOp], half: int):
    read, ignored = 0, 0
    for seed in range(half, 80, 2):
        rng = Random(seed)
        one = case(rng, op)
        formatted = formatted_op(one, rng)
        operands = stored_operands(formatted, one)
        clean = run(formatted, operands)
        for number, tensor in enumerate(operands):
            reads = {r.dim for r in formatted.pad_reads(number)}
            for dim in tensor.layout.padded_dims():
                spoilt = with_pads(tensor, poison(tensor.dtype), [dim])
                result = run(formatted, [*operands[:number], spoilt, *operands[number + 1 :]])
                if dim in reads:
                    read += 1
                    assert np.isnan(result.logical()).any()
                else:
                    ignored += 1
                    assert same_bits(result.logical(), clean.logical())
    example = formatted_op(case(Random(0), op), Random(0))
    assert bool(read) == any(example.pad_reads(number) for number in range(len(example.operands)))
    assert read + ignored > 20
