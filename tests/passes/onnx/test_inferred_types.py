"""Types of values: what can be inferred, and what of a file's claims is believed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import pytest

import layout_ir as li
from layout_ir.frontends.onnx.shape_inference import infer_shapes
from layout_ir.passes.onnx import inferred_types as inferred_types_module
from layout_ir.passes.onnx import repeated_inference, whole_inference
from layout_ir.passes.onnx.blocked_channels import NCHWC_DOMAIN
from layout_ir.passes.onnx.inferred_types import TypeInference, inferred_types
from layout_ir.passes.onnx.typed_graphs import typed_graphs
from tests.frontends.onnx.onnxruntime_oracle import session_results
from tests.passes.onnx.blocked_networks import runtime
from tests.passes.onnx.computed_extents import Draft, alike
from tests.passes.onnx.optimized import FLOAT, initializer, model_of, transpose, value
from tests.seeds import seeds
from tests.zoo import NETWORKS

UNKNOWN = oh.make_tensor_value_info("y", FLOAT, None)
UNKNOWN_BYTES = oh.make_tensor_value_info("y", onnx.TensorProto.UINT8, None)


def _shape(type: onnx.TypeProto) -> list[int | str]:
    return [
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in type.tensor_type.shape.dim
    ]


def _reshaping() -> onnx.ModelProto:
    nodes = [
        transpose("x", "a", 0, 2, 1),
        oh.make_node("Reshape", ["a", "s"], ["b"]),
        transpose("b", "y", 1, 0, 2),
    ]
    return model_of(nodes, [value("x", 2, 6, 4)], [UNKNOWN], [initializer("s", [2, 2, 12])])


def _flattening() -> onnx.ModelProto:
    nodes = [
        transpose("x", "a", 0, 2, 1),
        oh.make_node("Relu", ["a"], ["b"]),
        oh.make_node("Flatten", ["b"], ["y"], axis=2),
    ]
    return model_of(nodes, [value("x", 2, 6, 4)], [UNKNOWN])


@pytest.mark.parametrize("lie", [(6, 2, 4), (2, 3, 4), (4, 6, 2), (2, 12, 2), (2, 4, 3, 2), (1, 1, 1), (48,)])
@pytest.mark.parametrize("make", [_reshaping, _flattening])
def test_negative_what_a_file_says_against_what_is_inferred_is_not_believed(
    make: Callable[[], onnx.ModelProto], lie: tuple[int, ...]
):
    honest, lying = make(), make()
    lying.graph.value_info.extend([value("a", *lie), value("b", *lie)])
    lying.graph.output[0].CopyFrom(value("y", *lie))
    new = li.optimize_onnx(lying).model
    del new.graph.value_info[:]
    new.graph.output[0].CopyFrom(UNKNOWN)
    feeds = {"x": np.arange(48, dtype=np.float32).reshape(2, 6, 4)}
    (wanted,), (found,) = session_results(honest, feeds), session_results(new, feeds)
    np.testing.assert_array_equal(found, wanted)


def test_what_a_file_says_of_unknown_operators_is_believed():
    nodes = [
        oh.make_node("Thing", ["x"], ["a"], domain="my"),
        transpose("a", "b", 1, 0),
        oh.make_node("Relu", ["b"], ["y"]),
    ]
    model = model_of(nodes, [value("x", 2, 3)], [value("y", 3, "N")])
    model.graph.value_info.append(value("a", "N", 3))
    (types,) = inferred_types(model, frozenset(), {}, {}, {})
    assert [_shape(types[name]) for name in "aby"] == [["N", 3], [3, "N"], [3, "N"]]


_UNUSED = [("N", 4, 5), ("M", 4, 5), ("N", 4, "k"), ("M", "m", "k"), ("N", 4, None), (7, 4, 5)]


@pytest.mark.parametrize("said", _UNUSED, ids=str)
def test_what_is_said_of_a_result_takes_no_pass_where_nobody_uses_it(
    said: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
):
    sizes = oh.make_tensor_value_info("s", onnx.TensorProto.INT64, [3])
    passes: list[int] = []

    def counted(light: onnx.ModelProto) -> onnx.ModelProto:
        passes[-1] += 1
        return infer_shapes(light)

    for module in (repeated_inference, whole_inference):
        monkeypatch.setattr(module, "infer_shapes", counted)
    found: list[list[int | str]] = []
    for users in ([], [oh.make_node("Identity", ["y"], ["z"])]):
        nodes = [oh.make_node("Reshape", ["x", "s"], ["y"]), *users]
        results = [value("y", *said), *(value("z", *said) for _ in users)]
        model = model_of(nodes, [value("x", "N", 4, 5), sizes], results)
        passes.append(0)
        found.append(_shape(inferred_types(model, frozenset(), {}, {}, {})[0]["y"]))
    assert found[0] == found[1]
    assert passes[0] == passes[1] - 1


def test_shapes_that_are_given_replace_unknown_extents_everywhere():
    model = model_of(
        [transpose("x", "a", 1, 0), oh.make_node("Relu", ["a"], ["y"])],
        [value("x", "N", 3)],
        [value("y", 3, "N")],
    )
    (types,) = inferred_types(model, frozenset(), {"x": (7, 3)}, {}, {})
    assert _shape(types["y"]) == [3, 7]
    (types,) = inferred_types(model, frozenset(), {}, {}, {})
    assert _shape(types["y"]) == [3, "N"]


def test_subgraphs_come_after_the_graphs_around_them():
    inner = oh.make_graph(
        [transpose("x", "i", 1, 0)], "inner", [], [oh.make_tensor_value_info("i", FLOAT, None)]
    )
    outer = oh.make_graph(
        [oh.make_node("If", ["c"], ["o"], then_branch=inner, else_branch=inner)], "o", [], [value("o", 3, 2)]
    )
    other = oh.make_graph([transpose("x", "e", 1, 0)], "other", [], [value("e", 3, 2)])
    nodes = [oh.make_node("If", ["c"], ["y"], then_branch=outer, else_branch=other)]
    model = model_of(nodes, [value("x", 2, 3), value("c", dtype=9)], [value("y", 3, 2)])
    tables = inferred_types(model, frozenset(), {}, {}, {})
    assert [sorted(table) for table in tables[1:]] == [["o"], ["e"], ["i"], ["i"]] or [
        sorted(t) for t in tables[1:]
    ] == [["e"], ["o"], ["i"], ["i"]]
    assert _shape(tables[-1]["i"]) == [3, 2]


def test_an_extent_without_a_name_is_the_same_wherever_it_comes():
    model = model_of([transpose("x", "y", 1, 0)], [value("x", "N", 3)], [UNKNOWN])
    model.graph.input[0].type.tensor_type.shape.dim[0].Clear()
    (types,) = inferred_types(model, frozenset(), {}, {}, {})
    assert _shape(types["y"]) == [3, _shape(types["x"])[0]] and _shape(types["y"])[1]


def _of_runtime(op_type: str, inputs: list[str], outputs: list[str], **attributes: Any) -> onnx.NodeProto:
    return oh.make_node(op_type, inputs, outputs, domain="com.microsoft", **attributes)


def test_what_onnx_runtime_fuses_has_the_type_of_what_it_was():
    nodes = [
        _of_runtime("FusedConv", ["x", "w"], ["a"], activation="Relu", pads=[1, 1, 1, 1]),
        _of_runtime("QuickGelu", ["a"], ["b"]),
        _of_runtime("SkipLayerNormalization", ["b", "a", "g"], ["c", "", "", "d"]),
        _of_runtime("QLinearConcat", ["s", "z", "q", "s", "z", "r", "s", "z"], ["e"], axis=1),
        _of_runtime("FusedMatMul", ["c", "b"], ["f"]),
    ]
    inputs = [
        value("x", "N", 3, 8, 8),
        value("w", 4, 3, 3, 3),
        value("g", 8),
        value("s"),
        value("z", dtype=2),
    ]
    inputs += [value("q", "N", 3, dtype=2), value("r", "N", 5, dtype=2)]
    model = model_of(nodes, inputs, [value("f", "N", 4, 8, 8)])
    (types,) = inferred_types(model, frozenset(), {}, {}, {})
    assert [_shape(types[name])[:2] for name in "abcdef"] == [["N", 4]] * 4 + [["N", 8], ["N", 4]]
    assert types["e"].tensor_type.elem_type == 2


def _on_blocks(channels: int, *extents: int | str) -> onnx.ModelProto:
    """A network on blocked channels that takes NHWC and gives 12 channels last; each result but blocks is an output."""

    def node(op_type: str, inputs: list[str], output: str, **attributes: Any) -> onnx.NodeProto:
        return oh.make_node(op_type, inputs, [output], domain=NCHWC_DOMAIN, **attributes)

    nodes = [
        node("ReorderInput", ["x"], "a", channels_last=1),
        node(
            "Conv", ["a", "w"], "b", pads=[1, 1, 1, 1], strides=[2, 1], kernel_shape=[3, 3], activation="Relu"
        ),
        node("MaxPool", ["b"], "c", kernel_shape=[2, 2], ceil_mode=1, strides=[2, 2], pads=[0, 0, 0, 0]),
        node("Upsample", ["c"], "d", scales=[1, 1, 3, 2]),
        node("ReorderOutput", ["d"], "e", channels=12, channels_last=1),
        node("GlobalAveragePool", ["d"], "f"),
        node("ReorderOutput", ["f"], "g", channels=12),
    ]
    weights = initializer("w", np.ones((16, -(-channels // 16) * 16, 3, 3), np.float32))
    outputs = [oh.make_tensor_value_info(name, FLOAT, None) for name in "eg"]
    model = model_of(nodes, [value("x", *extents, channels)], outputs, [weights])
    model.opset_import.append(oh.make_opsetid(NCHWC_DOMAIN, 1))
    return model


def test_operators_on_blocked_channels_have_the_shapes_that_onnx_runtime_gives_them():
    runtime()
    e, g = session_results(_on_blocks(32, 2, 7, 6), {"x": np.ones((2, 7, 6, 32), np.float32)})
    (types,) = inferred_types(_on_blocks(32, 2, 7, 6), frozenset(), {}, {}, {})
    assert _shape(types["e"]) == list(e.shape) and _shape(types["g"]) == list(g.shape)
    (types,) = inferred_types(_on_blocks(32, "N", 7, "W"), frozenset(), {}, {}, {})
    assert _shape(types["a"]) == ["N", 32, 7, "W"] and _shape(types["b"])[:3] == ["N", 16, 4]


def test_negative_channels_that_are_no_whole_blocks_on_every_processor_are_not_told():
    (types,) = inferred_types(_on_blocks(8, 2, 7, 6), frozenset(), {}, {}, {})
    assert not types.keys() & set("abcdf")


@pytest.mark.parametrize("flags", [{"transB": 1}, {"transA": 1}], ids=str)
def test_a_fused_gemm_has_the_shape_that_onnx_runtime_gives_it(flags: dict[str, Any]):
    node = _of_runtime("FusedGemm", ["x", "x"], ["q"], activation="Relu", **flags)
    model = model_of([node, oh.make_node("Identity", ["q"], ["y"])], [value("x", 2, 3)], [UNKNOWN])
    (result,) = session_results(model, {"x": np.ones((2, 3), np.float32)})
    (types,) = inferred_types(model, frozenset(), {}, {}, {})
    assert _shape(types["y"]) == list(result.shape)


_BYTES = np.ones((2, 3, 4), np.uint8)
_ONE, _ZERO = np.array(1, np.float32), np.array(0, np.uint8)


@pytest.mark.parametrize(
    ("op_type", "arrays"),
    [
        ("DynamicQuantizeMatMul", [_BYTES.astype(np.float32), _BYTES[0].T, _ONE]),
        ("MatMulIntegerToFloat", [_BYTES, _BYTES[0].T, _ONE, _ONE]),
        ("QLinearWhere", [_BYTES > 0, _BYTES[:, :1], _ONE, _ZERO, _BYTES, _ONE, _ZERO, _ONE, _ZERO]),
        (
            "RotaryEmbedding",
            [np.ones((2, 3, 4), np.float32), np.zeros((2, 3), np.int64), *[np.ones((8, 2), "f")] * 2],
        ),
        ("Trilu", [_BYTES.astype(np.float32)]),
    ],
)
def test_what_onnx_runtime_has_of_its_own_has_the_type_that_it_gives(op_type: str, arrays: list[Any]):
    feeds = {f"x{k}": array for k, array in enumerate(arrays)}
    types = {name: oh.np_dtype_to_tensor_dtype(array.dtype) for name, array in feeds.items()}
    inputs = [value(name, *array.shape, dtype=types[name]) for name, array in feeds.items()]
    result_type = onnx.TensorProto.UINT8 if op_type == "QLinearWhere" else FLOAT
    node = _of_runtime(op_type, [*feeds], ["y"])
    model = model_of([node], inputs, [oh.make_tensor_value_info("y", result_type, None)])
    (result,) = session_results(model, feeds)
    (found,) = inferred_types(model, frozenset(), {}, {}, {})
    assert _shape(found["y"]) == list(result.shape)
    assert found["y"].tensor_type.elem_type == oh.np_dtype_to_tensor_dtype(result.dtype)


_QUANTIZED_TYPES = (
    onnx.TensorProto.UINT8,
    onnx.TensorProto.INT8,
    onnx.TensorProto.UINT16,
    onnx.TensorProto.INT16,
)


@pytest.mark.parametrize("opset", [7, 13, 18])
@pytest.mark.parametrize("element", _QUANTIZED_TYPES)
def test_what_onnx_runtime_quantizes_has_its_type_in_every_opset(element: int, opset: int):
    names = ["x", "s", "z"]
    nodes = [
        _of_runtime("QuantizeLinear", names, ["q"]),
        _of_runtime("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    constants = [initializer("s", np.float32(0.5)), oh.make_tensor("z", element, [], [3])]
    model = model_of(
        nodes, [value("x", "N", 3)], [value("q", "N", 3, dtype=element), UNKNOWN], constants, opset=opset
    )
    results = session_results(model, {"x": np.ones((2, 3), np.float32)})
    (types,) = inferred_types(model, frozenset(), {}, {}, {})
    for name, result in zip("qy", results, strict=True):
        assert _shape(types[name]) == ["N", 3]
        assert types[name].tensor_type.elem_type == oh.np_dtype_to_tensor_dtype(result.dtype)


def test_negative_what_is_quantized_with_a_zero_point_of_unknown_type_has_none():
    nodes = [
        oh.make_node("Unknown", ["x"], ["z"], domain="my"),
        _of_runtime("QuantizeLinear", ["x", "s", "z"], ["q"]),
        _of_runtime("QuantizeLinear", ["x", "s"], ["b"]),
    ]
    model = model_of(nodes, [value("x", "N", 3)], [UNKNOWN], [initializer("s", np.float32(0.5))], opset=13)
    (types,) = inferred_types(model, frozenset(), {}, {}, {})
    assert "q" not in types
    assert types["b"].tensor_type.elem_type == onnx.TensorProto.UINT8


def test_negative_a_function_of_the_model_is_none_of_onnx_runtime():
    model = model_of([_of_runtime("Gelu", ["x"], ["b"])], [value("x", 2, 3)], [value("b", 2, 3)])
    body = [oh.make_node("Transpose", ["X"], ["Y"], perm=[1, 0])]
    model.functions.append(
        oh.make_function("com.microsoft", "Gelu", ["X"], ["Y"], body, [oh.make_opsetid("", 17)])
    )
    model.opset_import.add(domain="com.microsoft", version=1)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    (types,) = inferred_types(model, frozenset(), {}, {}, {})
    assert _shape(types["b"]) == [3, 2]


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("op_type", ["QLinearAveragePool", "QLinearGlobalAveragePool"])
def test_a_pool_of_quantized_numbers_may_have_its_channels_last(op_type: str, last: int):
    window = {"kernel_shape": [3, 2], "strides": [2, 1]} if op_type == "QLinearAveragePool" else {}
    node = _of_runtime(op_type, ["x", "s", "z", "s", "z"], ["q"], channels_last=last, **window)
    x, s, z = np.zeros((2, 7, 5, 9), np.uint8), np.array(0.5, np.float32), np.array(3, np.uint8)
    inputs = [value("x", 2, 7, 5, 9, dtype=2), value("s"), value("z", dtype=2)]
    model = model_of([node, oh.make_node("Identity", ["q"], ["y"])], inputs, [UNKNOWN_BYTES])
    (result,) = session_results(model, {"x": x, "s": s, "z": z})
    (types,) = inferred_types(model, frozenset(), {}, {}, {})
    assert _shape(types["y"]) == list(result.shape) and types["q"].tensor_type.elem_type == 2


def test_negative_without_the_rank_of_its_operand_such_a_pool_has_no_type():
    nodes = [
        oh.make_node("Reshape", ["x", "n"], ["a"]),
        _of_runtime("QLinearGlobalAveragePool", ["a", "s", "z", "s", "z"], ["y"], channels_last=1),
    ]
    inputs = [value("x", 8, dtype=2), value("n", "R", dtype=7), value("s"), value("z", dtype=2)]
    (types,) = inferred_types(model_of(nodes, inputs, [UNKNOWN_BYTES]), frozenset(), {}, {}, {})
    assert "y" not in types or not types["y"].tensor_type.HasField("shape")


def test_what_onnx_runtime_fuses_is_known_in_subgraphs_too():
    body = oh.make_graph(
        [_of_runtime("Gelu", ["x"], ["g"]), transpose("g", "i", 1, 0)],
        "body",
        [],
        [oh.make_tensor_value_info("i", FLOAT, None)],
    )
    nodes = [oh.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body)]
    model = model_of(nodes, [value("x", 2, 3), value("c", dtype=9)], [value("y", 3, 2)])
    tables = inferred_types(model, frozenset(), {}, {}, {})
    assert [_shape(table["i"]) for table in tables[1:]] == [[3, 2], [3, 2]]


def _reshaping_to(*extents: str, opset: int = 12) -> onnx.ModelProto:
    """x [N, 6, 4] transposed, brought to the extents that a Concat puts together, and transposed."""
    nodes = [
        oh.make_node("Shape", ["x"], ["sizes"]),
        oh.make_node("Slice", ["sizes", "zero", "one"], ["batch"]),
        oh.make_node("Cast", ["four"], ["cast"], to=onnx.TensorProto.INT64),
        oh.make_node("Concat", [*extents], ["extents"], axis=0),
        transpose("x", "a", 0, 2, 1),
        oh.make_node("Reshape", ["a", "extents"], ["b"]),
        oh.make_node("Relu", ["b"], ["c"]),
        transpose("c", "y", 0, *range(len(extents) - 1, 0, -1)),
    ]
    given = {"zero": [0], "one": [1], "rest": [-1]}
    constants = [initializer(name, elements) for name, elements in given.items()]
    constants.append(initializer("four", np.array([4], np.int32)))
    return model_of(nodes, [value("x", "N", 6, 4)], [UNKNOWN], constants, opset=opset)


@pytest.mark.parametrize("opset", [11, 12, 13, 18])
@pytest.mark.parametrize("extents", [("batch", "cast", "rest"), ("batch", "cast", "one", "rest")])
def test_a_reshape_to_computed_extents_has_as_many_dims(extents: tuple[str, ...], opset: int):
    model = _reshaping_to(*extents, opset=opset)
    (types,) = inferred_types(model, frozenset(), {}, {}, {})
    for name in "bc":
        shape = _shape(types[name])
        assert (len(shape), shape[1]) == (len(extents), 4)
    feeds = {"x": np.arange(48, dtype=np.float32).reshape(2, 6, 4)}
    (wanted,), (found,) = (session_results(m, feeds) for m in (model, li.optimize_onnx(model).model))
    np.testing.assert_array_equal(found, wanted)


def test_negative_a_reshape_to_extents_of_unknown_number_stays_of_unknown_rank():
    model = _reshaping_to("given", "cast", "rest")
    model.graph.input.append(value("given", "M", dtype=onnx.TensorProto.INT64))
    (types,) = inferred_types(model, frozenset(), {}, {}, {})
    assert "b" not in types or not types["b"].tensor_type.HasField("shape")
    feeds = {"x": np.ones((2, 6, 4), np.float32), "given": np.array([2], np.int64)}
    (wanted,), (found,) = (session_results(m, feeds) for m in (model, li.optimize_onnx(model).model))
    np.testing.assert_array_equal(found, wanted)


# Extents that follow from the others ----------------------------------------------------------------------------------


def _cut_into_heads(extents: list[str]) -> onnx.ModelProto:
    """[batch, length, 24] reshaped to these computed extents: the batch, the length, 4, and 24 divided by 4."""
    nodes = [oh.make_node("Shape", ["x"], ["shape"])]
    for k, name in enumerate(("n", "l", "c")):
        nodes.append(oh.make_node("Gather", ["shape", f"at{k}"], [name]))
    nodes += [
        oh.make_node("Div", ["c", "four"], ["rest"]),
        oh.make_node("Concat", extents, ["extents"], axis=0),
        oh.make_node("Reshape", ["x", "extents"], ["y"]),
    ]
    constants = [initializer(f"at{k}", np.array([k])) for k in range(3)] + [initializer("four", [4])]
    return model_of(nodes, [value("x", "batch", "length", 24)], [UNKNOWN], constants)


def test_an_extent_that_is_what_others_leave_of_the_elements_is_known():
    model = _cut_into_heads(["n", "l", "four", "rest"])
    (found,) = inferred_types(model, frozenset("x"), {}, {}, {})
    assert _shape(found["y"]) == ["batch", "length", 4, 6]


def test_an_extent_that_is_left_may_be_one_with_a_name():
    model = _cut_into_heads(["n", "product", "c"])
    model.graph.node[4].CopyFrom(oh.make_node("Max", ["l", "at1"], ["product"]))
    (found,) = inferred_types(model, frozenset("x"), {}, {}, {})
    assert _shape(found["y"]) == ["batch", "length", 24]


def test_negative_two_extents_that_are_left_are_not_known():
    model = _cut_into_heads(["n", "rest", "rest"])
    (found,) = inferred_types(model, frozenset("x"), {}, {}, {})
    batch, *others = _shape(found["y"])
    assert batch == "batch" and all(isinstance(extent, str) and extent != "length" for extent in others)


_FLAGS: list[dict[str, Any]] = [
    {},
    {"transA": 1},
    {"transB": 1},
    {"transBatchA": 1},
    {"transBatchB": 1, "transB": 1},
]


@pytest.mark.parametrize("flags", _FLAGS, ids=str)
def test_a_product_with_flags_has_the_shape_that_onnx_runtime_gives_it(flags: dict[str, Any]):
    shapes = {"x": [2, 3, 4, 5], "w": [2, 3, 5, 6]}
    for name, side in (("x", "A"), ("w", "B")):
        if flags.get(f"trans{side}"):
            shapes[name][2:] = shapes[name][:1:-1]
        if flags.get(f"transBatch{side}"):
            first, *stack, rows, columns = shapes[name]
            shapes[name] = [rows, first, *stack, columns]
    names = {2: "batch", 3: "heads", 4: "rows", 5: "depth", 6: "columns"}
    given = [value(name, *(names[n] for n in shape)) for name, shape in shapes.items()]
    nodes = [
        oh.make_node("FusedMatMul", ["x", "w"], ["c"], domain="com.microsoft", **flags),
        oh.make_node("Relu", ["c"], ["y"]),
    ]
    model = model_of(nodes, given, [UNKNOWN])
    (result,) = session_results(model, {name: np.ones(shape, np.float32) for name, shape in shapes.items()})
    model.graph.value_info.append(value("c", None, None, None, None))  # pyright: ignore[reportArgumentType]
    (found,) = inferred_types(model, frozenset(("x", "w")), {}, {}, {})
    assert _shape(found["y"]) == [names[n] for n in result.shape]


def test_nodes_for_which_several_stand_in():
    weights = {
        "table": np.zeros((7, 16), np.float32), "ones": np.ones(16, np.float32),
        "qkv": np.zeros((16, 48), np.float32), "both": np.zeros((16, 40), np.float32),
        "bits": np.zeros((6, 1, 16), np.uint8), "scales": np.ones(6, np.float32),
    }  # fmt: skip

    def own(op: str, inputs: list[str], outputs: list[str], **attributes: Any) -> onnx.NodeProto:
        return oh.make_node(op, inputs, outputs, domain="com.microsoft", **attributes)

    nodes = [
        own("EmbedLayerNormalization", ["x", "", "table", "table", "", "ones", "ones"], ["e", "n", "s"]),
        own("Attention", ["e", "qkv"], ["a"], num_heads=2),
        own("Attention", ["a", "both"], ["v"], num_heads=2, qkv_hidden_sizes=[8, 8, 24]),
        own("MatMulNBits", ["a", "bits", "scales"], ["y"], K=16, N=6, bits=4, block_size=32),
    ]
    inputs = [oh.make_tensor_value_info("x", onnx.TensorProto.INT32, ["batch", "steps"])]
    model = model_of(nodes, inputs, [UNKNOWN])
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(array, name) for name, array in weights.items()
    )
    (found,) = inferred_types(model, frozenset(), {}, {}, {})
    rows = ["batch", "steps"]
    wanted = {
        "e": [*rows, 16],
        "n": ["batch"],
        "s": [*rows, 16],
        "a": [*rows, 16],
        "v": [*rows, 24],
        "y": [*rows, 6],
    }
    assert {name: _shape(found[name]) for name in wanted} == wanted
    assert found["n"].tensor_type.elem_type == onnx.TensorProto.INT32


def test_what_a_transpose_is_said_to_give_says_what_it_takes():
    nodes = [oh.make_node("Thing", ["x"], ["a"], domain="my"), transpose("a", "b", 1, 2, 0)]
    nodes += [oh.make_node("Relu", ["b"], ["y"])]
    model = model_of(nodes, [value("x", 2, 3)], [UNKNOWN])
    (types,) = inferred_types(model, frozenset(), {}, {}, {})
    assert "a" not in types and "b" not in types.claimed
    model.graph.value_info.append(value("b", 3, 4, "N"))
    (types,) = inferred_types(model, frozenset(), {}, {}, {})
    assert [_shape(types[name]) for name in "aby"] == [["N", 3, 4], [3, 4, "N"], [3, 4, "N"]]
    assert types.claimed == {"a", "b"}


@pytest.mark.parametrize("kind", ["initializer", "Constant", "input"])
def test_subgraphs_are_told_the_constants_around_them(kind: str):
    nodes = [oh.make_node("Slice", ["x", "starts", "ends"], ["a"]), oh.make_node("Relu", ["a"], ["r"])]
    branch = oh.make_graph(nodes, "branch", [], [oh.make_tensor_value_info("r", FLOAT, None)])
    other = oh.make_graph([oh.make_node("Neg", ["x"], ["n"])], "other", [], [value("n", 4, 6)])
    ends = initializer("ends", [3, 2])
    around = [oh.make_node("Constant", [], ["ends"], value=ends)] if kind == "Constant" else []
    around.append(oh.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=other))
    inputs = [value("c", dtype=onnx.TensorProto.BOOL), value("x", 4, 6)]
    constants = [initializer("starts", [1, 0])]
    if kind == "initializer":
        constants.append(ends)
    elif kind == "input":
        inputs.append(value("ends", 2, dtype=onnx.TensorProto.INT64))
    model = model_of(around, inputs, [UNKNOWN], constants)
    _, *inner = inferred_types(model, frozenset(), {}, {}, {})
    (types,) = [types for types in inner if "r" in types]
    assert kind == "input" or _shape(types["r"]) == [2, 2]
    assert kind != "input" or all(isinstance(n, str) for n in _shape(types["r"]))


# Asked again ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(10, 1000))
def test_asked_again_it_finds_what_it_finds_at_once(seed: int):
    random = Random(seed)
    draft = Draft(random)
    for _ in range(random.randint(10, 40)):
        draft.step()
    model = draft.model()
    for name in random.sample(draft.floats, 3):
        said = [random.choice((24, "batch", "n", None)) for _ in range(3)]
        model.graph.value_info.append(oh.make_tensor_value_info(name, FLOAT, said))
    inference = TypeInference(model, frozenset(), {}, {})
    known: dict[str, Any] = {}
    made = {name for node in draft.nodes for name in node.output}
    for _ in range(3):
        (found,) = inference.types(known)
        (wanted,) = inferred_types(model, frozenset(), {}, known, {})
        assert alike(found) == alike(wanted)
        assert found.claimed == wanted.claimed
        computed = sorted(made.intersection((*draft.lists, *draft.scalars)) - known.keys())
        if computed:
            name = random.choice(computed)
            number = random.choice((1, 2, 4))
            known = {**known, name: np.array([number] if name in draft.lists else number)}


def _is_never(_: onnx.ModelProto) -> bool:
    return False


@pytest.mark.deep
@pytest.mark.parametrize(
    "name", ["bert-dynamic", "gpt2-dynamic", "shufflenet_v2", "style_transfer", "yolov8"]
)
def test_types_of_a_network_are_those_of_whole_inferences(name: str, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("torch")
    model = NETWORKS[name].build()
    (found,) = typed_graphs(model, None, {}, {}, {}, {})
    monkeypatch.setattr(inferred_types_module, "can_repeat", _is_never)
    (wanted,) = typed_graphs(model, None, {}, {}, {}, {})
    assert alike(found.types) == alike(wanted.types)
    assert {found.nbytes(n) for n in found.types} == {wanted.nbytes(n) for n in wanted.types}


@pytest.mark.parametrize("is_node", [False, True])
@pytest.mark.parametrize("is_nested", [False, True])
def test_shapes_in_files_are_not_read(is_node: bool, is_nested: bool):
    """Of a tensor in a file the type alone is known; what lies at that name where the process runs is another file."""
    shape = initializer("s", [2, 2, 12])
    shape.ClearField("raw_data")
    shape.data_location = onnx.TensorProto.EXTERNAL
    shape.external_data.add(key="location", value="nowhere")
    nodes = [oh.make_node("Constant", [], ["s"], value=shape)] if is_node else []
    nodes += [transpose("x", "a", 0, 2, 1), oh.make_node("Reshape", ["a", "s"], ["y"])]
    constants = [] if is_node else [shape]
    model = model_of(nodes, [value("x", 2, 6, 4)], [UNKNOWN], constants)
    if is_nested:
        branch = oh.make_graph(nodes, "branch", [], [UNKNOWN], constants)
        choice = oh.make_node("If", ["c"], ["z"], then_branch=branch, else_branch=branch)
        inputs = [value("x", 2, 6, 4), oh.make_tensor_value_info("c", onnx.TensorProto.BOOL, [])]
        model = model_of([choice], inputs, [oh.make_tensor_value_info("z", FLOAT, None)])
    found = inferred_types(model, frozenset(), {}, {}, {})[-1]
    assert _shape(found["a"]) == [2, 4, 6] and _shape(found["s"]) == [3]
    assert not any(isinstance(extent, int) and extent for extent in _shape(found["y"]))


@pytest.mark.parametrize("is_node", [False, True])
@pytest.mark.parametrize("is_pad", [False, True])
def test_weights_of_branches_are_not_handed_to_inference(
    is_node: bool, is_pad: bool, monkeypatch: pytest.MonkeyPatch
):
    sizes: list[int] = []

    def infer(model: onnx.ModelProto) -> onnx.ModelProto:
        sizes.append(model.ByteSize())
        return infer_shapes(model)

    monkeypatch.setattr(whole_inference, "infer_shapes", infer)
    weights = initializer("w", np.ones((64, 64), np.float32))
    pads = initializer("pads", [1, 0, 1, 0])
    nodes = [oh.make_node("Constant", [], ["w"], value=weights)] if is_node else []
    nodes.append(oh.make_node("Pad", ["w", "pads"], ["v"]) if is_pad else oh.make_node("Abs", ["w"], ["v"]))
    nodes += [oh.make_node("Slice", ["v", "zero", "two", "one"], ["y"])]
    constants = [pads, *(initializer(n, [k]) for k, n in enumerate(("zero", "one", "two")))]
    branch = oh.make_graph(nodes, "branch", [], [UNKNOWN], constants if is_node else [*constants, weights])
    choice = oh.make_node("If", ["c"], ["z"], then_branch=branch, else_branch=branch)
    inputs = [oh.make_tensor_value_info("c", onnx.TensorProto.BOOL, [])]
    model = model_of([choice], inputs, [oh.make_tensor_value_info("z", FLOAT, None)])
    before = model.SerializeToString()
    found = inferred_types(model, frozenset(), {}, {}, {})[-1]
    assert _shape(found["w"]) == [64, 64] and _shape(found["y"]) == [64 + 2 * is_pad, 2]
    assert sizes and max(sizes) < weights.ByteSize()
    assert model.SerializeToString() == before


@pytest.mark.parametrize("imported", ["", "ai.onnx"])
def test_the_other_name_of_the_default_domain_is_known_to_inference(imported: str):
    model = _flattening()
    model.opset_import[0].domain = imported
    for node in model.graph.node:
        node.domain = "ai.onnx"
    (types,) = inferred_types(model, frozenset(), {}, {}, {})
    assert _shape(types["y"]) == [8, 6]
    model.graph.node[1].domain = "my"  # negative: an operator of whoever
    (types,) = inferred_types(model, frozenset(), {}, {}, {})
    assert "b" not in types


def test_negative_nothing_is_left_of_the_elements_of_a_value_of_unknown_rank():
    nodes = [oh.make_node("Relu", ["x"], ["a"]), oh.make_node("Reshape", ["a", "s"], ["y"])]
    for shape, extent in ((None, ""), ([], 1), (["n"], "n")):
        inputs = [oh.make_tensor_value_info("x", FLOAT, shape)]
        model = model_of(nodes, inputs, [UNKNOWN], [initializer("s", [1, 1, -1])])
        (types,) = inferred_types(model, frozenset(), {}, {}, {})
        found = _shape(types["y"])
        assert found[:2] == [1, 1]
        assert found[2] == extent or (shape is None and str(found[2]).startswith("unk__"))
