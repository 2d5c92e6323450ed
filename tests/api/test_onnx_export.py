"""`li.to_onnx`: programs in any layout go out as models that compute the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import layout_ir as li
from layout_ir.dialects.layout import is_any, is_tensor
from layout_ir.printing import print_module
from tests.exits.onnx.models import check, counts, evaluate
from tests.passes.programs import random_program
from tests.programs import parse

NHWC = """
!A = tensor<2x3x4x5xf32, #layout.tag<nhwc>>
func.func @main(%x : !A) -> !A {
  %y = nn.relu %x : !A
  func.return %y : !A
}
"""


def test_inputs_and_outputs_are_logical_whatever_the_signature():
    module = parse(NHWC)
    text = print_module(module)
    model = li.to_onnx(module)
    assert print_module(module) == text  # a copy was converted
    check(model)
    assert counts(model) == {"Transpose": 2, "Relu": 1}
    for value in (*model.graph.input, *model.graph.output):
        assert [dim.dim_value for dim in value.type.tensor_type.shape.dim] == [2, 3, 4, 5]
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)
    np.testing.assert_array_equal(evaluate(model, [x])[0], np.maximum(x, 0))


def test_a_blocked_argument_loses_its_pads():
    module = parse(NHWC.replace("nhwc", "nChw8c"))
    model = li.to_onnx(module)
    check(model)
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)
    np.testing.assert_array_equal(evaluate(model, [x])[0], np.maximum(x, 0))


def test_a_result_that_is_an_argument_in_another_layout():
    module = parse(NHWC.replace("%y = nn.relu %x : !A", "").replace("return %y", "return %x"))
    model = li.to_onnx(module)
    check(model)
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)
    np.testing.assert_array_equal(evaluate(model, [x])[0], x)


@pytest.mark.parametrize("optimized", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_a_random_program_goes_out_as_what_it_computes(seed: int, optimized: bool):
    _check_random_program(seed, 12, optimized)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(1000, 10**9), st.integers(1, 25))
def test_any_random_program_goes_out_and_comes_in_again(seed: int, ops: int):
    _check_random_program(seed, ops, True)


def _check_random_program(seed: int, ops: int, optimized: bool) -> None:
    module, shape = random_program(seed, ops)
    random = np.random.default_rng(seed)
    x = random.standard_normal(shape).astype(np.float32)
    want = li.run(module, [x], reorders="reference")
    # A chain of norms and quotients magnifies rounding as it magnifies changes of its input. Older kernels lose 6 bits.
    changed = x * (1 + random.uniform(-1, 1, shape) * 2.0**-16).astype(np.float32)
    rounding = [
        np.abs(there - here).max(initial=0)
        for there, here in zip(li.run(module, [changed], reorders="reference"), want, strict=True)
    ]
    if optimized:
        li.optimize(module, target="onnx")
    types = [value.type for op in module.walk() for value in op.results]
    assert any(is_tensor(type) and is_any(type) for type in types) != optimized
    model = li.to_onnx(module)
    check(model)
    again = li.from_onnx(model)
    for got in (evaluate(model, [x]), li.run(again, [x])):
        for ours, theirs, noise in zip(got, want, rounding, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4 + 2 * noise)


def test_negative_what_is_no_program():
    with pytest.raises(li.LayoutError, match="a program is a ModuleOp of xDSL, not of type str"):
        li.to_onnx("module")  # pyright: ignore[reportArgumentType]


def test_negative_a_layout_without_a_physical_tensor():
    module = parse(NHWC.replace("#layout.tag<nhwc>", "#layout.format<(n, c, h, w) : [n*128, c*20, h*5, w]>"))
    with pytest.raises(li.LayoutError, match="has no physical tensor"):
        li.to_onnx(module)
