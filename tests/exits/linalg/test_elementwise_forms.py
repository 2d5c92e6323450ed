"""Every elementwise op computes as linalg what the reference computes, in every element type, NaN and bounds too."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
import pytest
from xdsl.builder import Builder
from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint

from layout_ir.algebra.format import Format
from layout_ir.dialects import nn
from layout_ir.dialects.layout import with_format
from layout_ir.dialects.layout.types import attribute_of
from layout_ir.dialects.nn.tensor_types import ELEMENTS
from layout_ir.elements.element_types import element_type
from layout_ir.elements.numpy_types import Array, narrow, storage
from tests.exits.linalg.agreement import Program, assert_agree
from tests.programs import parse

SHAPE = (2, 11, 3, 2)
FORMATS = ("[n, h, w, c]", "[n, c, h, w, c:8], pad = undef")

OPS = [
    op for op in nn.NN.operations if issubclass(op, nn.ElementwiseOp) and op not in (nn.ExpandOp, nn.CastOp)
]


def numbers(dtype: str, seed: int) -> Array:
    """Elements of `SHAPE`: small ones, zeros, ones, bounds, NaN and infinities."""
    rng = np.random.default_rng(seed)
    known = element_type(dtype)
    if known.kind == "bool":
        return rng.integers(0, 2, SHAPE).astype(np.bool_)
    if known.is_float:
        values = rng.standard_normal(SHAPE) * 2
        values.flat[rng.permutation(values.size)[:12]] = (
            [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 1e4, -1e4, np.nan, np.inf, -np.inf]
        )  # fmt: skip
        return narrow(values, dtype)
    low, high = map(int, known.range)
    whole = rng.integers(max(low, -9), min(high, 9) + 1, SHAPE).astype(storage(dtype))
    whole.flat[rng.permutation(whole.size)[:10]] = [low, high, low, high, 0, 0, 1, low + 1, 3, high - 1]
    return whole


def elements(dtype: str, shape: tuple[int, ...], seed: int) -> Array:
    """Small elements of any shape."""
    rng = np.random.default_rng(seed)
    if element_type(dtype).is_float:
        return narrow(rng.standard_normal(shape), dtype)
    return rng.integers(0 if dtype == "ui8" else -9, 10, shape).astype(storage(dtype))


def program(op: type[nn.ElementwiseOp], dtype: str, factors: str) -> Program:
    """The op on tensors in one format, whose pads hold anything."""
    fmt = Format.parse(f"(n, c, h, w) : {factors}")
    names = [name for name, _ in op.get_irdl_definition().operands]
    dtypes = ["i1" if name == "condition" else dtype for name in names]
    types = [with_format(TensorType(attribute_of(d), list(SHAPE)), fmt) for d in dtypes]
    made = "i1" if issubclass(op, nn.ComparisonOp | nn.AndOp | nn.OrOp | nn.XorOp | nn.NotOp) else dtype
    result = with_format(TensorType(attribute_of(made), list(SHAPE)), fmt)
    function = FuncOp("main", FunctionType.from_lists(types, [result]))
    builder = Builder(InsertPoint.at_end(function.body.block))
    value = builder.insert(op(*cast("list[SSAValue]", list(function.args)), result_type=result))
    builder.insert(ReturnOp(value))
    return ModuleOp([function]), [numbers(d, k) for k, d in enumerate(dtypes)]


@pytest.mark.parametrize("dtype", ELEMENTS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_elementwise_ops_compute_what_the_reference_computes(dtype: str, tmp_path: Path):
    programs = {
        f"{op.name.replace('.', '_')}_{number}": program(op, dtype, factors)
        for op in OPS if dtype in op.ALLOWED
        for number, factors in enumerate(FORMATS)
    }  # fmt: skip
    assert len(programs) > 2
    assert_agree(programs, tmp_path)


@pytest.mark.parametrize("source", ELEMENTS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_casts_between_all_element_types_are_exact(source: str, tmp_path: Path):
    programs: dict[str, Program] = {}
    shape = "x".join(map(str, SHAPE))
    for target in ELEMENTS:
        if target != source:
            module = parse(
                f"func.func @main(%x: tensor<{shape}x{source}>) -> tensor<{shape}x{target}> {{\n"
                f"%y = nn.cast %x : (tensor<{shape}x{source}>) -> tensor<{shape}x{target}>\n"
                f"func.return %y : tensor<{shape}x{target}> }}"
            )
            programs[f"to_{target}"] = module, [numbers(source, 5)]
    assert_agree(programs, tmp_path, exact=True)
