"""Constants: initializers, shared where they were, and filled by a node where they are large and of one value."""

from __future__ import annotations

import numpy as np
import pytest

import layout_ir as li
from layout_ir.api.onnx_export import to_onnx
from layout_ir.exits.onnx import node_writer
from tests.exits.onnx.models import check, counts, evaluate, onnx, with_opset
from tests.frontends.onnx.models import model, node
from tests.programs import parse

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_a_constant_that_several_ops_use_is_one_initializer():
    w = np.arange(3, dtype=np.float32)
    source = model(
        [
            node("Add", "x w", "a"),
            node("Mul", "a w", "b"),
            node("ReduceSum", "b axes", "c"),
            node("ReduceSum", "x axes", "d"),
            node("Add", "c d"),
        ],
        {"x": [2, 3]},
        constants={"w": w, "axes": np.array([1])},
        opset=17,
    )
    went = to_onnx(li.from_onnx(source))
    check(went)
    assert sorted(tensor.name for tensor in went.graph.initializer) == ["axes", "w"]
    np.testing.assert_array_equal(evaluate(went, [X])[0], evaluate(source, [X])[0])


def test_negative_constants_of_other_values_are_two():
    one, two = np.ones(3, np.float32), np.full(3, 2, np.float32)
    source = model(
        [node("Add", "x v", "a"), node("Mul", "a w")], {"x": [2, 3]}, constants={"v": one, "w": two}, opset=17
    )
    assert {tensor.name for tensor in to_onnx(li.from_onnx(source)).graph.initializer} == {"v", "w"}


@pytest.mark.parametrize(("extent", "filled"), [(3, False), (300, True)])
def test_a_large_constant_of_one_value_is_filled_by_a_node(extent: int, filled: bool):
    text = f"""
    func.func @main(%x: tensor<{extent}xf32>) -> tensor<{extent}xf32> {{
      %c = nn.constant dense<0.5> : tensor<{extent}xf32>
      %y = nn.add %x, %c : tensor<{extent}xf32>
      func.return %y : tensor<{extent}xf32>
    }}
    """
    went = to_onnx(parse(text))
    check(went)
    assert counts(went)["ConstantOfShape"] == filled
    x = np.arange(extent, dtype=np.float32)
    np.testing.assert_array_equal(evaluate(went, [x])[0], x + np.float32(0.5))


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f64", "i8", "ui8", "i64", "i1"])
def test_elements_of_every_type_are_stored_as_they_are(dtype: str):
    values = "[true, false, true]" if dtype == "i1" else "[1, 0, 2]"
    text = f"""
    func.func @main() -> tensor<3x{dtype}> {{
      %c = nn.constant dense<{values}> : tensor<3x{dtype}>
      func.return %c : tensor<3x{dtype}>
    }}
    """
    went = to_onnx(parse(text))
    check(went)
    (tensor,) = went.graph.initializer
    stored = onnx.numpy_helper.to_array(tensor).astype(np.float64)
    np.testing.assert_array_equal(stored, [1, 0, 1 if dtype == "i1" else 2])


def test_negative_a_model_that_is_too_large(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(node_writer, "LARGEST", 4000)
    values = ", ".join(map(str, range(1200)))
    text = f"""
    func.func @main() -> tensor<1200xf32> {{
      %c = nn.constant dense<[{values}]> : tensor<1200xf32>
      func.return %c : tensor<1200xf32>
    }}
    """
    with pytest.raises(li.LayoutError, match="the constants of the program take more than 4000 bytes"):
        to_onnx(parse(text))


def test_negative_a_splat_that_would_be_too_large_is_not_even_made():
    # Before version 20, ConstantOfShape makes no bf16, so that all elements are written.
    text = f"""
    func.func @main() -> tensor<{1 << 40}xbf16> {{
      %c = nn.constant dense<1.0> : tensor<{1 << 40}xbf16>
      func.return %c : tensor<{1 << 40}xbf16>
    }}
    """
    with pytest.raises(li.LayoutError, match="the constants of the program take more than"):
        to_onnx(with_opset(parse(text), 17))


def test_negative_values_that_were_left_out():
    text = """
    func.func @main() -> tensor<3xf32> {
      %c = nn.constant dense_resource<__elided__> : tensor<3xf32>
      func.return %c : tensor<3xf32>
    }
    """
    with pytest.raises(
        li.LayoutError, match=r"nn\.constant has no form in ONNX: the values of this constant were left out"
    ):
        to_onnx(parse(text))
