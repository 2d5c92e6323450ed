"""The module that comes out, and graphs that are not valid."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import DictionaryAttr, NameLoc, StringAttr, TensorType

from layout_ir.dialects import nn
from layout_ir.dialects.layout import ReorderOp
from layout_ir.dialects.nn.model_names import names_at
from layout_ir.frontends.onnx import OnnxImportError, from_onnx
from tests.frontends.onnx.models import (
    NEWEST,
    constants_of,
    ints,
    load,
    main_of,
    model,
    node,
    only,
    ops_of,
    shape_of,
)
from tests.frontends.onnx.onnxruntime_oracle import check_like_onnx_runtime

X = {"x": (1, 3, 8, 8)}
A = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
B = np.array([2, 3, 5], np.float32)


def test_names_and_locations_are_kept():
    source = model([node("Relu", "in/put:0", "y", name="first relu")], {"in/put:0": (2, 3)})
    function = main_of(from_onnx(source))
    relu, reorder, _ = function.body.block.ops
    assert function.body.block.args[0].name_hint == "in_put_0"[:6]  # xDSL numbers names by itself
    assert relu.results[0].name_hint == "y"
    assert isinstance(relu.location, NameLoc) and relu.location.desc.data == "first relu"
    assert isinstance(reorder, ReorderOp)
    for attributes, name in ((function.arg_attrs, "in/put:0"), (function.res_attrs, "y")):
        assert attributes is not None
        assert attributes.data[0] == DictionaryAttr({"onnx.name": StringAttr(name)})


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [
        ((), "() : []"),
        ((4,), "(a) : [a]"),
        ((4, 3), "(n, c) : [n, c]"),
        ((4, 3, 2), "(n, c, w) : [n, c, w]"),
        ((4, 3, 2, 2), "(n, c, h, w) : [n, c, h, w]"),
        ((4, 3, 2, 2, 2), "(n, c, d, h, w) : [n, c, d, h, w]"),
        ((4, 3, 2, 2, 2, 1), "(a, b, c, d, e, f) : [a, b, c, d, e, f]"),
    ],
)
def test_plain_formats(shape: tuple[int, ...], wanted: str):
    function = main_of(from_onnx(model([node("Relu", "x")], {"x": shape})))
    for type in (*function.function_type.inputs, *function.function_type.outputs):
        assert isinstance(type, TensorType)
        assert str(type.encoding) == f"#layout.format<{wanted}>"


def test_initializers_that_are_inputs_too_are_constants():
    source = model([node("Add", "x w")], {"x": (2,), "w": (2,)}, constants={"w": np.ones(2, np.float32)})
    assert len(main_of(from_onnx(source)).body.block.args) == 1


def test_dead_nodes_and_unused_initializers_are_dropped():
    nodes = [node("Relu", "x"), node("NoSuchOp", "x", "z"), node("Shape", "u", "s"), node("Exp", "x", "u")]
    source = model(nodes[:2], X, constants={"w": np.ones(9, np.float32)})
    assert [op.name for op in ops_of(source)] == ["nn.relu"]
    # Exp is alive as a node, as its shape is asked for, and dead as an op.
    shape = model([nodes[3], nodes[2], node("Reshape", "x s")], X)
    assert ops_of(shape) == []


def test_an_input_may_be_an_output():
    function = main_of(from_onnx(model([node("Identity", "x")], X)))
    assert [op.name for op in function.body.block.ops] == ["func.return"]


def test_a_constant_may_be_an_output():
    function = main_of(from_onnx(model([], {}, ["w"], {"w": np.ones((2, 3), np.float32)})))
    assert [op.name for op in function.body.block.ops] == ["nn.constant", "layout.reorder", "func.return"]


def test_a_value_may_be_returned_twice():
    function = main_of(from_onnx(model([node("Relu", "x")], X, ["y", "y"])))
    assert len(function.function_type.outputs) == 2


def test_optional_inputs_may_be_left_out():
    constants = {"hi": np.array(6, np.float32)}
    op = only(model([node("Clip", "x - hi")], X, constants=constants))
    assert (op.min, op.max) == (-np.inf, 6.0)


def test_local_functions_are_inlined():
    body = [helper.make_node("Relu", ["a"], ["b"]), helper.make_node("Exp", ["b"], ["c"])]
    opsets = [helper.make_opsetid("", NEWEST)]
    function = helper.make_function("mine", "f", ["a"], ["c"], body, opsets)
    source = model([helper.make_node("f", ["x"], ["y"], domain="mine")], X)
    source.opset_import.append(helper.make_opsetid("mine", 1))
    source.functions.append(function)
    assert [op.name for op in ops_of(source)] == ["nn.relu", "nn.exp"]


def test_import_does_not_change_the_proto(tmp_path: Path):
    source = load("squeezenet")
    before = source.SerializeToString(deterministic=True)
    from_onnx(source)
    assert source.SerializeToString(deterministic=True) == before


def test_shape_arithmetic_on_values_computed_at_run_time():
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "n"),
        node("Unsqueeze", "n axis", "n1"),
        node("Concat", "n1 rest", "target", axis=0),
        node("Reshape", "x target"),
    ]
    constants = {"zero": np.array(0, np.int64), "axis": ints(0), "rest": ints(-1)}
    assert shape_of(only(model(nodes, {"x": (2, 3, 4)}, constants=constants))) == (2, 12)


def test_weights_replace_constants():
    nodes = [node("ConstantOfShape", "s", "w"), node("Add", "x w", "z"), node("Add", "z v")]
    source = model(nodes, {"x": (2, 3)}, constants={"s": ints(2, 3), "v": B})
    function = main_of(from_onnx(source, weights={"w": A, "v": 2 * B}))
    literals = [op.literal.data.data for op in function.body.block.ops if isinstance(op, nn.ConstantOp)]
    assert literals == [A.tobytes(), (2 * B).tobytes()]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (
            {"w": np.zeros(4, np.float32)},
            r"weights\['w'\] is float32 \(4,\), but the value in the model is float32 \(3,\)",
        ),
        (
            {"w": np.zeros(3)},
            r"weights\['w'\] is float64 \(3,\), but the value in the model is float32 \(3,\)",
        ),
        ({"v": B}, "weights names 'v', which is no constant of the model"),
        ({"x": B}, "weights names 'x', which is no constant of the model"),
        ({"y": B}, "weights names 'y', which is computed at run time"),
    ],
)
def test_negative_weights(weights: dict[str, Any], message: str):
    with pytest.raises(OnnxImportError, match=message):
        from_onnx(model([node("Add", "x w")], {"x": (3,)}, constants={"w": B}), weights=weights)


def test_negative_unsupported_op():
    source = model([node("Relu", "x", "z"), node("NonZero", "z", name="wave")], X)
    with pytest.raises(
        OnnxImportError,
        match=rf"node 1 'wave' \(NonZero\): op ai\.onnx\.NonZero \(opset {NEWEST}\) has no translation, "
        r"and cannot be kept as it is: output 0 'y' has no static type: its shape \(4, \?\) is only known at run time",
    ):
        from_onnx(source)


def test_negative_op_of_another_domain():
    source = model([helper.make_node("Relu", ["x"], ["y"], domain="com.microsoft")], X)
    source.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    with pytest.raises(
        OnnxImportError,
        match=r"op com\.microsoft\.Relu \(opset 1\) has no translation.* the model says none|only known at run",
    ):
        from_onnx(source)


def test_negative_names_defined_twice():
    with pytest.raises(
        OnnxImportError, match=r"value 'y' is defined twice: by node 0 'a' \(Relu\) and by node 1 'y'"
    ):
        from_onnx(model([node("Relu", "x", name="a"), node("Exp", "x")], X))
    with pytest.raises(OnnxImportError, match="value 'x' is defined twice: by an input and by node 0"):
        from_onnx(model([node("Relu", "x", "x")], X, ["x"]))
    with pytest.raises(
        OnnxImportError, match="value 'w' is defined twice: by an initializer and by an initializer"
    ):
        source = model([node("Add", "x w")], X, constants={"w": B})
        source.graph.initializer.append(numpy_helper.from_array(B, "w"))
        from_onnx(source)


def test_negative_undefined_values():
    with pytest.raises(OnnxImportError, match=r"node 0 'y' \(Add\) uses 'w', which nothing defines"):
        from_onnx(model([node("Add", "x w")], X))
    with pytest.raises(OnnxImportError, match="the graph uses 'z', which nothing defines"):
        from_onnx(model([node("Relu", "x")], X, ["z"]))
    with pytest.raises(
        OnnxImportError, match=r"uses 'z' before node 1 'z' .* computes it: .* not in topological order"
    ):
        from_onnx(model([node("Add", "x z"), node("Exp", "y", "z")], X))


# --- uses of an op that its translation does not know -------------------------------------------------------------

FLOAT = TensorProto.FLOAT


@pytest.mark.parametrize(
    ("nodes", "outputs", "opset"),
    [
        ([node("MaxPool", "x", "y m", kernel_shape=[2, 2], strides=[2, 2])], {"y": None, "m": None}, 12),
        ([node("Resize", "x - s", mode="cubic")], {"y": None}, 13),
        ([node("Resize", "x - s", mode="linear", antialias=1)], {"y": None}, 18),
        ([node("Resize", "x - s", coordinate_transformation_mode="half_pixel_symmetric")], {"y": None}, 19),
        ([node("Dropout", "x", "y m")], {"y": (1, 3, 8, 8), "m": None}, 13),
        # What a Resize gives is known by the shape that the model states.
        ([node("Resize", "x - - n")], {"y": (1, 3, 5, 4)}, 13),
    ],
)  # fmt: skip
def test_a_use_that_the_translation_does_not_know_stays_opaque(
    nodes: list[onnx.NodeProto], outputs: dict[str, tuple[int, ...] | None], opset: int
):
    constants = {"s": np.array([1, 1, 0.5, 1.5], np.float32)} if "s" in nodes[0].input else {}
    inputs: dict[str, Any] = {"x": np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype(np.float32)}
    source = model([node("Relu", "x", "r"), *nodes], X, tuple(outputs), constants, opset=opset)
    source.graph.node[1].input[0] = "r"
    if "n" in nodes[0].input:
        source.graph.input.append(helper.make_tensor_value_info("n", TensorProto.INT64, [4]))
        inputs["n"] = ints(1, 3, 5, 4)
    for value in source.graph.output:
        kind = FLOAT
        if value.name == "m":
            kind = TensorProto.BOOL if nodes[0].op_type == "Dropout" else TensorProto.INT64
        value.CopyFrom(helper.make_tensor_value_info(value.name, kind, outputs[value.name]))
    check_like_onnx_runtime(source, inputs, opaque=1)


def test_what_was_made_before_a_translation_gave_up_is_taken_back():
    # The sum of a skip normalization is made before its scale is seen to be of another type.
    source = model(
        [node("SkipSimplifiedLayerNormalization", "x k s", domain="com.microsoft")],
        {"x": (2, 5, 8), "k": (2, 5, 8)}, constants={"s": np.ones(8, np.float16)},
    )  # fmt: skip
    source.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    assert [op.name for op in ops_of(source)] == ["nn.opaque"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        # Not valid, so nothing that could be kept.
        (model([node("Relu", "x", colour=1)], X), "attribute colour is not supported; and as it is: .*none of that"),
        (model([node("MaxPool", "x", "y m q", kernel_shape=[2, 2])], X, ("y", "q")), "the op at most 2"),
        # Valid, but nobody knows its shape.
        (model([node("Reshape", "x n")], {**X, "n": (2,)}), "'n' is computed at run time.*; and as it is: "),
    ],
)  # fmt: skip
def test_negative_what_can_neither_be_translated_nor_kept(source: onnx.ModelProto, message: str):
    with pytest.raises(OnnxImportError, match=message):
        from_onnx(source)


# --- names, and what the model says about itself ---


def test_nodes_and_values_keep_their_names_in_locations():
    source = model(
        [node("Split", "x", "a b", axis=0, num_outputs=2, name="/cut"), node("Add", "a b", name="plus")],
        {"x": [2, 3]},
    )
    module = from_onnx(source)
    found = [names_at(op) for op in main_of(module).body.block.ops if op.results][:3]
    assert found == [("/cut", "a"), ("/cut", "b"), ("plus", "y")]


def test_a_value_that_a_node_passes_on_keeps_its_first_name():
    source = model([node("Relu", "x", "a", name="r"), node("Identity", "a", name="i")], {"x": [2]})
    (relu,) = ops_of(source)
    assert names_at(relu) == ("r", "a")


def test_a_folded_batch_normalization_leaves_the_node_of_the_convolution_and_its_own_value():
    one = np.ones(4, np.float32)
    source = model(
        [node("Conv", "x w", "c", name="conv"), node("BatchNormalization", "c s s s s", name="norm")],
        {"x": [1, 4, 3, 3]},
        constants={"w": np.ones((4, 4, 1, 1), np.float32), "s": one},
    )
    (conv,) = ops_of(source)
    assert names_at(conv) == ("conv", "y")


def test_quantized_constants_stay_on_wish():
    source = model(
        [node("DequantizeLinear", "w s", "d"), node("Mul", "x d")],
        {"x": [3]},
        constants={"w": np.array([1, 2, 3], np.int8), "s": np.array(0.5, np.float32)},
    )
    assert [op.name for op in ops_of(source)] == ["nn.mul"]
    assert [op.name for op in ops_of(source, keep_quantized=True)] == ["nn.opaque", "nn.mul"]
    (constant,) = [op for op in constants_of(from_onnx(source, keep_quantized=True)) if op.infer() == (3,)]
    assert str(constant.infer_element()) == "i8"


@pytest.mark.parametrize("weights", [3, "w", ["w"], [("w", B)]])
def test_negative_weights_are_a_dict(weights: Any):
    source = model([node("Add", "x w")], {"x": (3,)}, constants={"w": B})
    with pytest.raises(OnnxImportError, match=r"^weights = .* is no dict from names of constants to arrays$"):
        from_onnx(source, weights=weights)
    from_onnx(source, weights={})


def test_weights_that_are_transposed_are_not_kept_beside_what_came_of_them(tmp_path: Path):
    weights = {f"w{k}": np.full((512, 512), k, np.float32) for k in range(6)}
    for array in weights.values():
        array[0, 1] = 7  # no splats
    nodes = [
        each
        for k in range(6)
        for each in (
            node("Transpose", f"w{k}", f"t{k}"),
            node("MatMul", f"{f'y{k - 1}' if k else 'x'} t{k}", f"y{k}"),
        )
    ]
    path = tmp_path / "net.onnx"
    path.write_bytes(model(nodes, {"x": (4, 512)}, ("y5",), weights).SerializeToString())
    from_onnx(path)
    tracemalloc.start()
    module = from_onnx(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    constants = [
        op.literal.data.data for op in main_of(module).body.block.ops if isinstance(op, nn.ConstantOp)
    ]
    assert constants == [array.T.tobytes() for array in weights.values()]
    # One is transposed at a time: itself, its transpose, and the bytes of that.
    assert peak < (6 + 2.5) * weights["w0"].nbytes


def test_negative_weights_that_another_node_uses_as_they_are_stay_one_constant(tmp_path: Path):
    w = np.arange(1 << 16, dtype=np.float32).reshape(256, 256)
    nodes = [
        node("Transpose", "w", "t"),
        node("MatMul", "x t", "a"),
        node("MatMul", "a w", "b"),
        node("Transpose", "w", "again"),
        node("MatMul", "b again", "c"),
        node("MatMul", "c w"),
    ]
    path = tmp_path / "net.onnx"
    path.write_bytes(model(nodes, {"x": (4, 256)}, constants={"w": w}).SerializeToString())
    constants = [
        op.literal.data.data
        for op in main_of(from_onnx(path)).body.block.ops
        if isinstance(op, nn.ConstantOp)
    ]
    assert constants.count(w.tobytes()) == 1 and constants.count(w.T.tobytes()) == len(constants) - 1
