"""Targets: what they take, and what a Transpose costs them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.helper as oh
import pytest

import layout_ir as li
from layout_ir.backends.onnxruntime.fused_model import fused_model
from layout_ir.errors import LayoutError
from layout_ir.passes.onnx.consumers import CONSUMERS
from tests.passes.onnx.optimized import (
    FLOAT,
    check_optimized,
    initializer,
    model_of,
    op_types,
    transpose,
    value,
)


@pytest.mark.parametrize("name", CONSUMERS)
def test_fewer_bytes_cost_less_and_of_as_many_fewer_transposes(name: str):
    cost = CONSUMERS[name].transpose_cost
    assert cost(4096) < cost(8192) < 2 * cost(4096)


def test_negative_unknown_targets_and_boundaries():
    model = model_of([transpose("x", "y", 1, 0)], [value("x", 2, 3)], [value("y", 3, 2)])
    with pytest.raises(
        LayoutError, match=r"unknown target 'cpu' for an ONNX model .*: targets are onnx, ort-cpu"
    ):
        li.optimize_onnx(model, "cpu")
    with pytest.raises(LayoutError, match="outputs = 'all' is unknown, expected 'keep' or 'free'"):
        li.optimize_onnx(model, outputs="all")  # pyright: ignore[reportArgumentType]


def test_products_with_flags_are_for_onnx_runtime_alone():
    nodes = [transpose("k", "kt", 0, 1, 3, 2), oh.make_node("MatMul", ["q", "kt"], ["s"])]
    nodes += [oh.make_node("Softmax", ["s"], ["p"]), oh.make_node("MatMul", ["p", "k"], ["y"])]
    model = model_of(nodes, [value("q", 2, 3, 4, 5), value("k", 2, 3, 6, 5)], [value("y", 2, 3, 4, 5)])
    assert check_optimized(model, target="onnx").after.count == 1
    result = check_optimized(model, target="ort-cpu")
    assert result.after.count == 0
    assert op_types(result.model) == ["FusedMatMul", "Softmax", "MatMul"]


def test_the_domain_of_those_is_imported_where_they_are_in_a_subgraph():
    inner = [transpose("q", "t", 0, 2, 1), oh.make_node("MatMul", ["t", "k"], ["o"])]
    branch = oh.make_graph(inner, "then", [], [value("o", 2, 4, 6)])
    other = oh.make_graph([oh.make_node("MatMul", ["z", "k"], ["p"])], "else", [], [value("p", 2, 4, 6)])
    nodes = [oh.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=other)]
    inputs = [value("q", 2, 5, 4), value("k", 2, 5, 6), value("z", 2, 4, 5), value("c", dtype=9)]
    model = model_of(nodes, inputs, [value("y", 2, 4, 6)])
    del model.opset_import[1:]
    new = li.optimize_onnx(model, "ort-cpu").model
    assert {entry.domain: entry.version for entry in new.opset_import} == {"": 18, "com.microsoft": 1}


# Networks on integers -------------------------------------------------------------------------------------------------


def _between_quantizations(op_type: str, weights: tuple[int, ...], transposed: bool) -> onnx.ModelProto:
    """Conv or MatMul between DequantizeLinear and QuantizeLinear, in the style of channels last."""
    shape = (2, 8, 8, 4) if op_type.startswith("Conv") else (2, 8, 4)
    order = (0, 3, 1, 2) if op_type.startswith("Conv") else (0, 2, 1)
    back = (0, 2, 3, 1) if op_type.startswith("Conv") else (0, 2, 1)
    nodes = [
        oh.make_node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        oh.make_node("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
    ]
    if transposed:
        nodes += [transpose("xd", "xt", *order), oh.make_node("QuantizeLinear", ["xt", "s", "z"], ["tq"])]
        nodes.append(oh.make_node("DequantizeLinear", ["tq", "s", "z"], ["td"]))
    last = "td" if transposed else "xd"
    nodes += [
        oh.make_node("DequantizeLinear", ["w", "s", "z"], ["wd"]),
        oh.make_node(op_type, [last, "wd"], ["c"]),
        oh.make_node("QuantizeLinear", ["c", "s", "z"], ["cq"]),
        oh.make_node("DequantizeLinear", ["cq", "s", "z"], ["cd"]),
        transpose("cd", "y", *back),
    ]
    given = shape if transposed else [shape[d] for d in order]
    constants = [
        initializer("s", np.float32(0.05)),
        initializer("z", np.int8(3)),
        initializer("w", np.random.default_rng(0).integers(-99, 99, weights).astype(np.int8)),
    ]
    return model_of(nodes, [value("x", *given)], [oh.make_tensor_value_info("y", FLOAT, None)], constants)


def _integer_nodes(model: onnx.ModelProto, folder: Path) -> int:
    """The nodes on integers that ONNX Runtime makes of a model."""
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return sum(op_type.startswith("QLinear") for op_type in op_types(fused_model(str(path))))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("op_type", "weights"), [("Conv", (4, 4, 3, 3)), ("MatMul", (8, 4))])
def test_no_transpose_parts_what_becomes_an_operator_on_integers(
    op_type: str, weights: tuple[int, ...], transposed: bool, tmp_path: Path
):
    model = _between_quantizations(op_type, weights, transposed)
    wanted = _integer_nodes(model, tmp_path)
    assert wanted
    result = check_optimized(model, target="ort-cpu", tolerance=0.2, compares_bytes=False)
    assert _integer_nodes(result.model, tmp_path) >= wanted


def test_integers_that_are_moved_between_quantizations_count_as_what_they_are():
    model = _between_quantizations("ConvTranspose", (4, 4, 3, 3), transposed=True)
    result = check_optimized(model, target="ort-cpu", tolerance=0.2, compares_bytes=False)
    assert result.after.nbytes == 2 * 2 * 4 * (8 * 8 + 10 * 10)


def test_negative_what_is_on_floats_is_moved_as_integers_where_these_are_less():
    nodes = [
        oh.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        transpose("q", "y", 1, 0),
    ]
    constants = [initializer("s", np.float32(0.05)), initializer("z", np.int8(3))]
    model = model_of(
        nodes, [value("x", 64, 32)], [value("y", 32, 64, dtype=onnx.TensorProto.INT8)], constants
    )
    assert check_optimized(model, target="ort-cpu").after.nbytes == 2 * 64 * 32


def _product_of_dequantized(dtype: type, *, is_constant: bool = False) -> onnx.ModelProto:
    """A product of heads between integers of this type, its operands transposed as floats; w may be a constant."""
    constants = [initializer("s", np.float32(0.01)), initializer("z", dtype(3))]
    if is_constant:
        weights = np.random.default_rng(0).integers(-99, 99, (6, 4)).astype(np.int8)
        constants += [initializer("w", weights), initializer("zw", np.int8(0))]
    nodes = [
        *_through_integers("q"),
        transpose("qd", "a", 1, 2, 0),
        oh.make_node("DequantizeLinear", ["w", "s", "zw"], ["b"]),
        oh.make_node("MatMul", ["a", "b"], ["c"]),
        oh.make_node("QuantizeLinear", ["c", "s", "z"], ["ci"]),
        oh.make_node("DequantizeLinear", ["ci", "s", "z"], ["y"]),
    ]
    if not is_constant:
        nodes[3:4] = [*_through_integers("k"), transpose("kd", "b", 1, 0, 2)]
    inputs = [value("q", 6, 3, 5), *([] if is_constant else [value("k", 6, 3, 4)])]
    return model_of(nodes, inputs, [value("y", 3, 5, 4)], constants, opset=21, ir_version=10)


def _through_integers(name: str) -> list[onnx.NodeProto]:
    return [
        oh.make_node("QuantizeLinear", [name, "s", "z"], [f"{name}i"]),
        oh.make_node("DequantizeLinear", [f"{name}i", "s", "z"], [f"{name}d"]),
    ]


def test_a_product_between_integers_of_16_bits_is_one_of_floats():
    result = check_optimized(_product_of_dequantized(np.int16), target="ort-cpu")
    assert "FusedMatMul" in op_types(result.model) and result.after.count == 0


@pytest.mark.parametrize(("dtype", "is_constant"), [(np.int8, False), (np.uint8, False), (np.int16, True)])
def test_negative_one_between_bytes_or_with_a_constant_of_bytes_has_no_flags(dtype: type, is_constant: bool):
    model = _product_of_dequantized(dtype, is_constant=is_constant)
    result = check_optimized(model, target="ort-cpu", tolerance=0.2)
    assert "MatMul" in op_types(result.model) and result.after.count > 0
