"""Transposes in front of dense layers, done to their weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import onnx.numpy_helper
import pytest

import layout_ir as li
from tests.passes.onnx.optimized import check_optimized, initializer, model_of, op_types, transpose, value

RANDOM = np.random.default_rng(5)
KERNEL = initializer("k", RANDOM.standard_normal((4, 3, 1, 1)))
W = initializer("w", RANDOM.standard_normal((120, 7)))
FLAT = oh.make_node("Reshape", ["t", "flat"], ["r"])
PRODUCT = oh.make_node("MatMul", ["r", "w"], ["y"])


def _network(
    *nodes: onnx.NodeProto, weights: list[onnx.TensorProto] | None = None, batch: int | str = 2, **more: Any
) -> onnx.ModelProto:
    """A convolution to (n, 4, 5, 6), a Transpose to (n, 5, 6, 4), and what is said of its result `t`."""
    front = [oh.make_node("Conv", ["x", "k"], ["c"]), transpose("c", "t", 0, 2, 3, 1)]
    constants = [KERNEL, initializer("flat", [-1, 120]), *(weights or [W])]
    return model_of([*front, *nodes], [value("x", batch, 3, 5, 6)], [value("y", batch, 7)], constants, **more)


def _feeds(batch: int = 2) -> dict[str, Any]:
    return {"x": RANDOM.standard_normal((batch, 3, 5, 6)).astype(np.float32)}


@pytest.mark.parametrize("target", ["onnx", "ort-cpu"])
def test_the_rows_of_the_weights_take_the_order_of_the_channels(target: str):
    result = check_optimized(_network(FLAT, PRODUCT), target=target)
    assert op_types(result.model) == ["Conv", "Reshape", "MatMul"]
    found = {t.name: onnx.numpy_helper.to_array(t) for t in result.model.graph.initializer}
    (name,) = (name for name, array in found.items() if array.shape == (120, 7))
    rows = onnx.numpy_helper.to_array(W).reshape(5, 6, 4, 7).transpose(2, 0, 1, 3).reshape(120, 7)
    np.testing.assert_array_equal(found[name], rows)


def test_weights_that_had_to_be_inputs():
    model = _network(FLAT, PRODUCT, ir_version=3)
    model.graph.input.extend([value("k", 4, 3, 1, 1), value("w", 120, 7)])
    model.graph.input.append(value("flat", 2, dtype=onnx.TensorProto.INT64))
    result = check_optimized(model, _feeds())
    assert result.after.count == 0 and [each.name for each in result.model.graph.input] == ["x"]


def test_a_batch_that_the_run_time_knows():
    check = check_optimized(_network(FLAT, PRODUCT, batch="n"), _feeds())
    assert check.after.count == 0


@pytest.mark.parametrize(
    "flattening",
    [
        [oh.make_node("Flatten", ["t"], ["r"])],
        [
            oh.make_node("Shape", ["t"], ["s"], end=1),
            oh.make_node("Concat", ["s", "size"], ["asked"], axis=0),
            oh.make_node("Reshape", ["t", "asked"], ["r"]),
        ],
    ],
    ids=["Flatten", "a computed shape"],
)
def test_other_ways_to_flatten(flattening: list[onnx.NodeProto]):
    model = _network(*flattening, PRODUCT, weights=[W, initializer("size", [120])], batch="n")
    assert check_optimized(model, _feeds()).after.count == 0


@pytest.mark.parametrize("transposed", [0, 1])
def test_a_gemm_with_nodes_by_element_on_the_way(transposed: int):
    array = onnx.numpy_helper.to_array(W)
    nodes = [
        FLAT,
        oh.make_node("Mul", ["r", "scale"], ["m"]),
        oh.make_node("Sigmoid", ["m"], ["g"]),
        oh.make_node("Mul", ["m", "g"], ["a"]),
        oh.make_node("Gemm", ["a", "w", "b"], ["y"], transB=transposed),
    ]
    weights = [
        initializer("w", array.T if transposed else array),
        initializer("b", np.ones(7)),
        initializer("scale", RANDOM.standard_normal((1, 120))),
    ]
    assert check_optimized(_network(*nodes, weights=weights)).after.count == 0


def test_nodes_in_front_that_meet_again():
    nodes = [
        oh.make_node("Exp", ["t"], ["e"]),
        oh.make_node("Mul", ["e", "half"], ["h"]),
        oh.make_node("Sub", ["h", "t"], ["d"]),
        oh.make_node("Reshape", ["d", "flat"], ["r"]),
        PRODUCT,
    ]
    assert check_optimized(_network(*nodes, weights=[W, initializer("half", 0.5)])).after.count == 0


def test_quantized_weights_stay_quantized():
    quantized = onnx.numpy_helper.from_array(RANDOM.integers(-127, 127, (120, 7)).astype(np.int8), "q")
    nodes = [FLAT, oh.make_node("DequantizeLinear", ["q", "s"], ["w"], axis=1), PRODUCT]
    result = check_optimized(_network(*nodes, weights=[quantized, initializer("s", np.full(7, 0.1))]))
    assert result.after.count == 0
    kinds = [t.data_type for t in result.model.graph.initializer]
    assert onnx.TensorProto.INT8 in kinds and "DequantizeLinear" in op_types(result.model)


def test_a_weight_that_others_read_stays_beside_the_new_one():
    nodes = [
        FLAT,
        oh.make_node("MatMul", ["r", "w"], ["p"]),
        oh.make_node("ReduceSum", ["w", "zero"], ["sum"]),
    ]
    nodes += [oh.make_node("Add", ["p", "sum"], ["y"])]
    assert check_optimized(_network(*nodes, weights=[W, initializer("zero", [0])])).after.count == 0


def _with_another_output(model: onnx.ModelProto, *output: Any) -> onnx.ModelProto:
    model.graph.output.append(value(*output))
    return model


OTHERS = {
    "the flattened value is an output": _with_another_output(_network(FLAT, PRODUCT), "r", 2, 120),
    "a row of the weights per group of rows": _network(
        oh.make_node("Reshape", ["t", "groups"], ["r"]),
        oh.make_node("MatMul", ["r", "w"], ["p"]),
        oh.make_node("ReduceSum", ["p", "one"], ["y"], keepdims=0),
        weights=[
            initializer("w", RANDOM.standard_normal((60, 7))), initializer("groups", [2, 2, 60]),
            initializer("one", [1]),
        ],
    ),
    "a softmax over the row": _network(
        FLAT, oh.make_node("Softmax", ["r"], ["s"]), oh.make_node("MatMul", ["s", "w"], ["y"])
    ),
    "weights that callers give": model_of(
        [oh.make_node("Conv", ["x", "k"], ["c"]), transpose("c", "t", 0, 2, 3, 1), FLAT, PRODUCT],
        [value("x", 2, 3, 5, 6), value("w", 120, 7)], [value("y", 2, 7)], [KERNEL, initializer("flat", [-1, 120])],
    ),
    "scales along the row": _network(
        FLAT, oh.make_node("DequantizeLinear", ["q", "s"], ["w"], axis=0), PRODUCT,
        weights=[
            onnx.numpy_helper.from_array(np.ones((120, 7), np.int8), "q"), initializer("s", np.full(120, 0.1)),
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("model", OTHERS.values(), ids=OTHERS)
def test_negative_where_more_than_products_with_constants_reads_the_row(model: onnx.ModelProto):
    assert check_optimized(model).after.count == 1


def test_negative_weights_in_an_external_file_are_not_read(tmp_path: Any):
    path = tmp_path / "model.onnx"
    onnx.save_model(  # pyright: ignore[reportUnknownMemberType]
        _network(FLAT, PRODUCT), path, save_as_external_data=True, location="model.data", size_threshold=1000
    )
    assert li.optimize_onnx(path).after.count == 1
