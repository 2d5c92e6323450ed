"""ONNX import: whole networks, the ops in all their versions, and every way in which a model can be wrong."""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, shape_inference
from xdsl.dialects.builtin import DictionaryAttr, NameLoc, NoneAttr, TensorType
from xdsl.dialects.func import ReturnOp

from layout_ir.dialects import nn
from layout_ir.dialects.layout import AnyAttr, FormatAttr, PermuteOp, ReorderOp, ReshapeOp
from layout_ir.frontends.onnx import OnnxImportError, from_onnx
from tests.frontends.models import LIGHT, NETWORKS, NEWEST, main_of, model, node, only, ops_of, shape_of

X = {"x": (1, 3, 8, 8)}


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


# --- networks ---------------------------------------------------------------------------------------------------


def test_all_networks_are_there():
    assert len(NETWORKS) == 9


@pytest.mark.parametrize("name", NETWORKS)
class TestNetworks:
    def test_imports_and_verifies(self, name: str):
        from_onnx(LIGHT / f"light_{name}.onnx").verify()

    def test_shapes_are_those_of_onnx(self, name: str):
        proto = onnx.load(LIGHT / f"light_{name}.onnx")
        inferred = shape_inference.infer_shapes(proto, data_prop=True, strict_mode=True).graph
        wanted = {
            value.name: tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
            for value in (*inferred.value_info, *inferred.output, *inferred.input)
        }
        seen: list[str] = []
        for op in main_of(from_onnx(proto)).body.block.ops:
            if isinstance(op, nn.ConstantOp | ReorderOp | ReturnOp):
                continue
            assert isinstance(op.location, NameLoc)
            # The location is the name of the node, which is that of its first output where it has none.
            names = [n.output[0] for n in proto.graph.node if op.location.desc.data in (n.name, n.output[0])]
            # A normalization that went into a convolution changed no shape.
            assert shape_of(op) == wanted[names[0]]
            seen.append(names[0])
        assert len(seen) > 15

    def test_ops_are_those_of_the_file(self, name: str):
        """Nothing is lost: what is not there has become a constant, was merged, or is the identity."""
        nodes = Counter(n.op_type for n in onnx.load(LIGHT / f"light_{name}.onnx").graph.node)
        ops = Counter(op.name for op in main_of(from_onnx(LIGHT / f"light_{name}.onnx")).body.block.ops)
        same = {
            "Conv": "nn.conv", "Relu": "nn.relu", "MaxPool": "nn.max_pool", "AveragePool": "nn.avg_pool",
            "Concat": "nn.concat", "Gemm": "nn.gemm", "Softmax": "nn.softmax", "LRN": "nn.lrn", "Mul": "nn.mul",
            "Transpose": "layout.permute", "GlobalAveragePool": "nn.global_avg_pool", "Reshape": "layout.reshape",
        }  # fmt: skip
        for op_type, op in same.items():
            assert ops[op] == nodes[op_type], op_type
        assert ops["nn.add"] == nodes["Add"] + nodes["Sum"]  # every sum here has two terms
        assert ops["nn.batch_norm"] <= nodes["BatchNormalization"]
        assert not {"ConstantOfShape", "Unsqueeze", "Dropout"} & {op.removeprefix("nn.") for op in ops}

    def test_inputs_and_results_are_plain_and_the_rest_is_to_be_chosen(self, name: str):
        function = main_of(from_onnx(LIGHT / f"light_{name}.onnx"))
        (argument,) = function.body.block.args
        assert isinstance(argument.type, TensorType)
        assert str(argument.type.encoding) == "#layout.format<(n, c, h, w) : [n, c, h, w]>"
        *ops, end = function.body.block.ops
        for result in end.operands:
            assert isinstance(result.owner, ReorderOp)
            assert isinstance(result.type, TensorType) and isinstance(result.type.encoding, FormatAttr)
        for op in ops:
            if not isinstance(op, ReorderOp):
                assert isinstance(op.results[0].type, TensorType)
                assert op.results[0].type.encoding == AnyAttr()

    def test_is_quick(self, name: str):
        start = time.perf_counter()
        from_onnx(LIGHT / f"light_{name}.onnx")
        assert time.perf_counter() - start < 5  # takes 0.3 s at most; the bound is for busy machines


@pytest.mark.parametrize("name", ["bvlc_alexnet", "squeezenet", "vgg19", "zfnet512"])
def test_weights_that_the_file_gives_as_one_number_stay_one_number(name: str):
    """Where no normalization with its own numbers goes into them."""
    constants = [
        op
        for op in main_of(from_onnx(LIGHT / f"light_{name}.onnx")).body.block.ops
        if isinstance(op, nn.ConstantOp) and len(op.infer()) > 1
    ]
    assert constants and all(op.is_splat for op in constants)


def test_batch_norms_behind_convolutions_vanish():
    ops = Counter(op.name for op in main_of(from_onnx(LIGHT / "light_resnet50.onnx")).body.block.ops)
    assert (ops["nn.conv"], ops["nn.batch_norm"]) == (53, 0)
    # Every layer of densenet normalizes a concatenation, too; only what follows a convolution can go into it.
    ops = Counter(op.name for op in main_of(from_onnx(LIGHT / "light_densenet121.onnx")).body.block.ops)
    assert (ops["nn.conv"], ops["nn.batch_norm"]) == (121, 62)


# --- the module -------------------------------------------------------------------------------------------------


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
        assert attributes.data[0] == DictionaryAttr({"onnx.name": onnx_name(name)})


def onnx_name(name: str) -> Any:
    from xdsl.dialects.builtin import StringAttr

    return StringAttr(name)


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


def test_models_come_as_bytes_path_or_proto(tmp_path: Path):
    source = model([node("Relu", "x")], X)
    path = tmp_path / "model.onnx"
    path.write_bytes(source.SerializeToString())
    texts = {str(from_onnx(form)) for form in (source, source.SerializeToString(), path, str(path))}
    assert len(texts) == 1


def test_import_does_not_change_the_proto(tmp_path: Path):
    source = onnx.load(LIGHT / "light_squeezenet.onnx")
    before = source.SerializeToString(deterministic=True)
    from_onnx(source)
    assert source.SerializeToString(deterministic=True) == before


# --- constants --------------------------------------------------------------------------------------------------


def literal_of(function: Any) -> np.ndarray[Any, Any]:
    (op,) = (op for op in function.body.block.ops if isinstance(op, nn.ConstantOp))
    type: Any = op.literal.type
    dtype = {"f32": np.float32, "i64": np.int64, "f16": np.float16, "i1": np.bool_}[str(type.element_type)]
    array = np.frombuffer(op.literal.data.data, dtype)
    return np.full(type.get_shape(), array[0]) if op.is_splat else array.reshape(type.get_shape())


def folded(
    nodes: list[onnx.NodeProto], constants: dict[str, np.ndarray[Any, Any]], opset: int = NEWEST
) -> Any:
    """The value that a graph without inputs computes; it must be a constant at once."""
    function = main_of(from_onnx(model(nodes, {}, constants=constants, opset=opset)))
    assert [op.name for op in function.body.block.ops] == ["nn.constant", "layout.reorder", "func.return"]
    return literal_of(function)


A = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
B = np.array([2, 3, 5], np.float32)


@pytest.mark.parametrize(
    ("nodes", "wanted"),
    [
        ([node("Add", "a b")], A + B),
        ([node("Sub", "a b")], A - B),
        ([node("Mul", "a b")], A * B),
        ([node("Div", "a b")], A / B),
        ([node("Pow", "b b")], B**B),
        ([node("Max", "a b b")], np.maximum(A, B)),
        ([node("Sum", "a b b")], A + B + B),
        ([node("Neg", "a")], -A),
        ([node("Sqrt", "b")], np.sqrt(B)),
        ([node("Transpose", "a")], A.T),
        ([node("Reshape", "a s")], A.reshape(3, 2)),
        ([node("Concat", "a a", axis=0)], np.concatenate([A, A])),
        ([node("Gather", "a i", axis=1)], A[:, [2, 0]]),
        ([node("Unsqueeze", "b i")], B.reshape(1, 3, 1)),
        ([node("Cast", "a", to=TensorProto.INT64)], A.astype(np.int64)),
        ([node("Slice", "a z e one m")], A[:, ::-1]),
        ([node("Relu", "a")], np.maximum(A, 0)),
        ([node("Where", "q a b")], np.where([True, False, True], A, B)),
        ([node("Softmax", "a", axis=0)], np.exp(A) / np.exp(A).sum(0)),
        ([node("Tile", "b t")], np.tile(B, 2)),
        ([node("ReduceSum", "a one")], A.sum(1, keepdims=True)),
        ([node("Shape", "a")], np.array([2, 3])),
        ([node("Size", "a")], np.array(6)),
        ([node("Expand", "b s2")], np.broadcast_to(B, (2, 3))),
        ([node("Shape", "a", "n", start=1), node("ConstantOfShape", "n")], np.zeros(3, np.float32)),
        ([helper.make_node("Constant", [], ["y"], value_ints=[1, 2])], np.array([1, 2])),
        ([helper.make_node("Constant", [], ["y"], value_float=1.5)], np.array(1.5, np.float32)),
    ],
    ids=lambda value: value[-1].op_type if isinstance(value, list) else "",
)
def test_constants_are_folded(nodes: list[onnx.NodeProto], wanted: np.ndarray[Any, Any]):
    constants: dict[str, Any] = {
        "a": A, "b": B, "s": ints(3, 2), "i": ints(2, 0), "z": ints(-1), "e": ints(-9), "one": ints(1), "m": ints(-1),
        "q": np.array([True, False, True]), "t": ints(2), "s2": ints(2, 3),
    }  # fmt: skip
    ours = folded(nodes, constants)
    assert ours.dtype == wanted.dtype
    np.testing.assert_allclose(ours, wanted, rtol=1e-6)


def test_integers_divide_towards_zero():
    wanted = np.array([3, -3, -3, 2**60 + 1])
    ours = folded([node("Div", "a b")], {"a": ints(7, -7, 7, 2**60 + 1), "b": ints(2, 2, -2, 1)})
    np.testing.assert_array_equal(ours, wanted)


def test_arithmetic_of_splats_makes_splats():
    nodes = [
        node("ConstantOfShape", "s", "a", value=numpy_helper.from_array(np.array([3], np.float32))),
        node("ConstantOfShape", "s", "b", value=numpy_helper.from_array(np.array([4], np.float32))),
        node("Mul", "a b", "c"),
        node("Sqrt", "c", "d"),
        node("Transpose", "d", "e"),
        node("Unsqueeze", "e i", "f"),
        node("Cast", "f", "y", to=TensorProto.FLOAT16),
    ]
    # 40 GB, if anyone were to write it down.
    function = main_of(from_onnx(model(nodes, {}, constants={"s": ints(100_000, 100_000), "i": ints(0)})))
    (op,) = (op for op in function.body.block.ops if isinstance(op, nn.ConstantOp))
    assert op.infer() == (1, 100_000, 100_000)
    assert op.literal.data.data == np.float16(np.sqrt(12)).tobytes()


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


def test_random_nodes_are_not_folded():
    with pytest.raises(OnnxImportError, match=r"op ai\.onnx\.RandomNormalLike .* is not supported"):
        from_onnx(model([node("RandomNormalLike", "a")], {}, constants={"a": A}))


@pytest.mark.parametrize("element", ["float16", "float64", "int8", "uint8", "int32", "int64", "bool"])
@pytest.mark.parametrize("raw", [False, True])
def test_element_types_and_storage(element: str, raw: bool):
    array = np.array([0, 1, 1, 0, 1, 1]).astype(element)
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    values = array.tobytes() if raw else array.tolist()
    source = model([], {}, ["w"])
    source.graph.initializer.append(helper.make_tensor("w", kind, [2, 3], values, raw=raw))
    (op,) = (op for op in main_of(from_onnx(source)).body.block.ops if isinstance(op, nn.ConstantOp))
    assert op.literal.data.data == array.tobytes()


def test_bf16_constants():
    bits = np.array([0x3F80, 0xC040, 0x7F80], np.uint16)
    source = model([], {}, ["w"])
    source.graph.initializer.append(
        helper.make_tensor("w", TensorProto.BFLOAT16, [3], bits.tobytes(), raw=True)
    )
    (op,) = (op for op in main_of(from_onnx(source)).body.block.ops if isinstance(op, nn.ConstantOp))
    assert op.literal.data.data == bits.tobytes()
    assert str(op.literal.type) == "tensor<3xbf16>"


def test_scalars_and_empty_tensors():
    for array in (np.float32(3).reshape(()), np.zeros((0, 4), np.float32)):
        source = model([node("Relu", "x"), node("Identity", "w", "z")], {"x": ()}, ["y", "z"], {"w": array})
        function = main_of(from_onnx(source))
        assert [type.get_shape() for type in function.function_type.outputs] == [(), array.shape]  # pyright: ignore


def test_external_data(tmp_path: Path):
    array = np.arange(100, dtype=np.float32)
    source = model([node("Add", "x w")], {"x": (100,)}, constants={"w": array})
    path = tmp_path / "model.onnx"
    onnx.save(source, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    np.testing.assert_array_equal(literal_of(main_of(from_onnx(path))), array)
    with pytest.raises(
        OnnxImportError, match=r"initializer 'w' is stored in the external file 'weights\.bin'; give"
    ):
        from_onnx(path.read_bytes())
    (tmp_path / "weights.bin").write_bytes(bytes(40))
    with pytest.raises(OnnxImportError, match="initializer 'w'"):
        from_onnx(path)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(OnnxImportError, match=r"external file 'weights\.bin', which cannot be read from"):
        from_onnx(path)


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


# --- batch normalization ----------------------------------------------------------------------------------------

RNG = np.random.default_rng(7)
NORM = {name: RNG.random(4, np.float32) + 0.5 for name in ("scale", "shift", "mean", "var")}
WEIGHT = RNG.standard_normal((4, 3, 3, 3)).astype(np.float32)


def normalized(extra: list[onnx.NodeProto], *, outputs: tuple[str, ...] = ("y",), **constants: Any) -> Any:
    nodes = [
        node("Conv", "x w b" if "b" in constants else "x w", "c"),
        node("BatchNormalization", "c scale shift mean var", epsilon=1e-3),
        *extra,
    ]
    return model(nodes, {"x": (1, 3, 5, 5)}, outputs, {"w": WEIGHT, **NORM, **constants})


@pytest.mark.parametrize("bias", [None, RNG.random(4, np.float32)])
def test_batch_norm_goes_into_the_convolution(bias: Any):
    source = normalized([], **({} if bias is None else {"b": bias}))
    function = main_of(from_onnx(source))
    assert [op.name for op in function.body.block.ops].count("nn.conv") == 1
    weight, shift = (
        np.frombuffer(op.literal.data.data, np.float32)
        for op in function.body.block.ops
        if isinstance(op, nn.ConstantOp)
    )
    scale, beta, mean, var = (NORM[name].astype(np.float64) for name in ("scale", "shift", "mean", "var"))
    factor = scale / np.sqrt(var + 1e-3)
    wanted = WEIGHT.astype(np.float64) * factor.reshape(-1, 1, 1, 1)
    np.testing.assert_array_equal(weight.reshape(WEIGHT.shape), wanted.astype(np.float32))
    wanted = ((0 if bias is None else bias.astype(np.float64)) - mean) * factor + beta
    np.testing.assert_array_equal(shift, wanted.astype(np.float32))


def test_batch_norm_of_splats_makes_splats():
    half = np.float32(0.5)
    splats = {
        name: numpy_helper.from_array(np.array([half]), "value")
        for name in ("w", "scale", "shift", "mean", "var")
    }
    nodes = [
        node("ConstantOfShape", "ws" if name == "w" else "cs", name, value=v) for name, v in splats.items()
    ]
    nodes += [node("Conv", "x w", "c"), node("BatchNormalization", "c scale shift mean var")]
    source = model(nodes, {"x": (1, 3, 5, 5)}, constants={"ws": ints(4, 3, 3, 3), "cs": ints(4)})
    constants = [op for op in main_of(from_onnx(source)).body.block.ops if isinstance(op, nn.ConstantOp)]
    assert len(constants) == 2
    assert all(op.is_splat for op in constants)
    factor = 0.5 / np.sqrt(0.5 + 1e-5)
    assert constants[0].literal.data.data == np.float32(0.5 * factor).tobytes()
    assert constants[1].literal.data.data == np.float32(-0.5 * factor + 0.5).tobytes()


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(
            normalized([node("Add", "y c", "z")], outputs=("z",)), id="the convolution has another use"
        ),
        pytest.param(normalized([], outputs=("y", "c")), id="the convolution is an output"),
        pytest.param(normalized([], mean=np.full(4, np.inf, np.float32)), id="the new bias is not finite"),
        pytest.param(normalized([], var=np.full(4, -1, np.float32)), id="the new weight is not a number"),
    ],
)
def test_negative_batch_norm_stays(source: onnx.ModelProto):
    assert [op.name for op in ops_of(source)][:2] == ["nn.conv", "nn.batch_norm"]


def test_negative_batch_norm_of_computed_statistics_stays():
    nodes = [node("Conv", "x w", "c"), node("BatchNormalization", "c m m m m")]
    source = model(nodes, {"x": (1, 3, 5, 5), "m": (4,)}, constants={"w": WEIGHT})
    assert [op.name for op in ops_of(source)] == ["nn.conv", "nn.batch_norm"]


def test_negative_batch_norm_of_a_computed_weight_stays():
    nodes = [node("Conv", "x w", "c"), node("BatchNormalization", "c scale shift mean var")]
    source = model(nodes, {"x": (1, 3, 5, 5), "w": (4, 3, 3, 3)}, constants=NORM)
    assert [op.name for op in ops_of(source)] == ["nn.conv", "nn.batch_norm"]


# --- ops and opsets ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("auto_pad", "extent", "kernel", "stride", "pads"),
    [
        ("SAME_UPPER", 8, 3, 1, (1, 1)),
        ("SAME_UPPER", 8, 3, 2, (0, 1)),
        ("SAME_LOWER", 8, 3, 2, (1, 0)),
        ("SAME_UPPER", 8, 2, 1, (0, 1)),
        ("SAME_LOWER", 8, 2, 1, (1, 0)),
        ("SAME_UPPER", 7, 1, 3, (0, 0)),
        ("VALID", 8, 3, 2, (0, 0)),
    ],
)
def test_auto_pad_is_resolved(auto_pad: str, extent: int, kernel: int, stride: int, pads: tuple[int, int]):
    x = {"x": (1, 3, extent)}
    weight = {"w": np.zeros((2, 3, kernel), np.float32)}
    conv = only(model([node("Conv", "x w", auto_pad=auto_pad, strides=[stride])], x, constants=weight))
    pool = only(model([node("MaxPool", "x", auto_pad=auto_pad, strides=[stride], kernel_shape=[kernel])], x))
    assert conv.pads == pool.pads == pads
    if auto_pad != "VALID":
        assert shape_of(conv)[2] == shape_of(pool)[2] == -(-extent // stride)


def test_softmax_up_to_opset_12_goes_over_all_later_dims():
    source = model([node("Softmax", "x")], {"x": (2, 3, 4)}, opset=12)
    assert [op.name for op in ops_of(source)] == ["layout.reshape", "nn.softmax", "layout.reshape"]
    assert [shape_of(op) for op in ops_of(source)] == [(2, 12), (2, 12), (2, 3, 4)]
    assert only(model([node("Softmax", "x")], {"x": (2, 3, 4)}, opset=13)).axis == 2


@pytest.mark.parametrize(
    ("shape", "axis"), [((2, 3), 1), ((2, 1000, 1, 1), 1), ((2, 1, 7), 2), ((2, 1, 1), 1)]
)
def test_softmax_up_to_opset_12_over_one_dim_is_direct(shape: tuple[int, ...], axis: int):
    assert only(model([node("Softmax", "x")], {"x": shape}, opset=9)).axis == axis


def test_clip_takes_attributes_then_inputs():
    op = only(model([node("Clip", "x", min=-1.0, max=6.0)], X, opset=10))
    assert (op.min, op.max) == (-1, 6)
    constants = {"lo": np.array(-1, np.float32), "hi": np.array(6, np.float32)}
    op = only(model([node("Clip", "x lo hi")], X, constants=constants, opset=11))
    assert (op.min, op.max) == (-1, 6)
    ops = ops_of(model([node("Clip", "x lo hi")], {**X, "lo": (), "hi": ()}))
    assert [op.name for op in ops] == ["nn.max", "nn.min"]


def test_dropout_vanishes():
    for opset, inputs in ((9, "x"), (12, "x r"), (13, "x r t")):
        constants = {"r": np.array(0.5, np.float32), "t": np.array(False)}
        assert ops_of(model([node("Dropout", inputs)], X, constants=constants, opset=opset)) == []


@pytest.mark.parametrize(
    ("opset", "source"),
    [
        (12, [node("Squeeze", "x", axes=[0, -1])]),
        (13, [node("Squeeze", "x ax")]),
        (13, [node("Squeeze", "x")]),
    ],
)
def test_squeeze(opset: int, source: list[onnx.NodeProto]):
    op = only(model(source, {"x": (1, 3, 1)}, constants={"ax": ints(0, 2)}, opset=opset))
    assert isinstance(op, ReshapeOp)
    assert shape_of(op) == (3,)


def test_unsqueeze():
    for opset, source in ((12, node("Unsqueeze", "x", axes=[0, -1])), (13, node("Unsqueeze", "x ax"))):
        op = only(model([source], {"x": (3, 4)}, constants={"ax": ints(-1, 0)}, opset=opset))
        assert shape_of(op) == (1, 3, 4, 1)


def test_reshape_copies_and_computes_dims():
    for target, allowzero, shape, wanted in (
        ((0, -1), 0, (2, 3, 4), (2, 12)),
        ((-1, 0, 2), 0, (2, 3, 4), (4, 3, 2)),
        ((0, 5), 1, (0, 7), (0, 5)),
        ((), 0, (1, 1), ()),
    ):
        constants = {"s": np.array(target, np.int64)}
        source = model([node("Reshape", "x s", allowzero=allowzero)], {"x": shape}, constants=constants)
        assert shape_of(only(source)) == wanted


def test_a_reshape_to_the_same_shape_vanishes():
    assert ops_of(model([node("Reshape", "x s")], {"x": (2, 3)}, constants={"s": ints(2, -1)})) == []


def test_flatten():
    for axis, wanted in ((0, (1, 24)), (1, (2, 12)), (-1, (6, 4)), (3, (24, 1))):
        assert shape_of(only(model([node("Flatten", "x", axis=axis)], {"x": (2, 3, 4)}))) == wanted


def test_transpose():
    op = only(model([node("Transpose", "x", perm=[2, 0, 1])], {"x": (2, 3, 4)}))
    assert isinstance(op, PermuteOp)
    assert shape_of(op) == (4, 2, 3)
    assert shape_of(only(model([node("Transpose", "x")], {"x": (2, 3, 4)}))) == (4, 3, 2)
    assert ops_of(model([node("Transpose", "x", perm=[0, 1])], {"x": (2, 3)})) == []


def test_slice_takes_attributes_then_inputs():
    by_attributes = only(model([node("Slice", "x", starts=[1], ends=[9], axes=[1])], {"x": (2, 5)}, opset=9))
    constants = {"s": ints(4), "e": ints(-9), "a": ints(-1), "st": ints(-2)}
    by_inputs = only(model([node("Slice", "x s e a st")], {"x": (2, 5)}, constants=constants, opset=10))
    assert (by_attributes.starts, by_attributes.sizes, by_attributes.steps) == ((0, 1), (2, 4), (1, 1))
    assert (by_inputs.starts, by_inputs.sizes, by_inputs.steps) == ((0, 4), (2, 3), (1, -2))


def test_split():
    for opset, source in (
        (12, node("Split", "x", "a b", axis=1, split=[2, 3])),
        (13, node("Split", "x s", "a b", axis=1)),
    ):
        ops = ops_of(model([source], {"x": (2, 5)}, ["a", "b"], {"s": ints(2, 3)}, opset=opset))
        assert [op.starts for op in ops if isinstance(op, nn.SliceOp)] == [(0, 0), (0, 2)]
        assert [shape_of(op) for op in ops] == [(2, 2), (2, 3)]
    # From opset 18 on the last part may be smaller.
    ops = ops_of(
        model([node("Split", "x", "a b", axis=1, num_outputs=2)], {"x": (2, 5)}, ["a", "b"], opset=18)
    )
    assert [shape_of(op) for op in ops] == [(2, 3), (2, 2)]


def test_pad_takes_attributes_then_inputs():
    by_attributes = only(model([node("Pad", "x", pads=[0, 1, 0, 2], value=3.0)], {"x": (2, 5)}, opset=10))
    constants = {"p": ints(1, 2), "v": np.array(3, np.float32), "a": ints(-1)}
    by_inputs = only(model([node("Pad", "x p v a")], {"x": (2, 5)}, constants=constants, opset=18))
    for op in (by_attributes, by_inputs):
        assert (op.pads, op.value, op.mode) == ((0, 1, 0, 2), 3.0, "constant")


def test_reduce_takes_attributes_then_inputs():
    by_attributes = only(model([node("ReduceSum", "x", axes=[-1, 0])], {"x": (2, 5, 3)}, opset=12))
    by_inputs = only(
        model([node("ReduceSum", "x a")], {"x": (2, 5, 3)}, constants={"a": ints(-1, 0)}, opset=13)
    )
    assert by_attributes.axes == by_inputs.axes == (0, 2)
    still_attribute = only(model([node("ReduceMax", "x", axes=[1], keepdims=0)], {"x": (2, 5, 3)}, opset=13))
    assert (still_attribute.axes, still_attribute.keepdims) == ((1,), False)
    assert only(model([node("ReduceMean", "x")], {"x": (2, 5)}, opset=18)).axes == (0, 1)
    assert ops_of(model([node("ReduceMean", "x", noop_with_empty_axes=1)], {"x": (2, 5)}, opset=18)) == []


def test_gemm_broadcasts_c():
    for shape in ((), (5,), (1, 5), (2, 1), (2, 5)):
        op = only(model([node("Gemm", "x b c", transB=1)], {"x": (2, 3), "b": (5, 3), "c": shape}))
        assert shape_of(op) == (2, 5)
    assert len(only(model([node("Gemm", "x b")], {"x": (2, 3), "b": (3, 5)})).operands) == 2


def test_variadic_ops_are_chains():
    inputs = {name: (2, 3) for name in "abc"}
    for op_type, names in (
        ("Sum", ["nn.add", "nn.add"]),
        ("Max", ["nn.max", "nn.max"]),
        ("Min", ["nn.min", "nn.min"]),
        ("Mean", ["nn.add", "nn.add", "nn.div"]),
    ):
        assert [op.name for op in ops_of(model([node(op_type, "a b c")], inputs))] == names
    assert ops_of(model([node("Sum", "a")], {"a": (2, 3)})) == []


def test_pow_converts_the_exponent():
    constants = {"e": np.array(2, np.int64)}
    assert [op.name for op in ops_of(model([node("Pow", "x e")], X, constants=constants))] == ["nn.pow"]
    source = model(
        [node("Pow", "x e")], X, constants={"e": np.array(0.5, np.float32)}, element=TensorProto.INT32
    )
    assert [op.name for op in ops_of(source)] == ["nn.cast", "nn.pow", "nn.cast"]


def test_resize_in_all_its_versions():
    scales = np.array([1, 1, 2, 2], np.float32)
    old = only(model([node("Upsample", "x s", mode="nearest")], X, constants={"s": scales}, opset=9))
    assert (old.coordinates, old.nearest_mode, old.scales) == ("asymmetric", "floor", (1, 1, 2, 2))
    old = only(model([node("Resize", "x s", mode="linear")], X, constants={"s": scales}, opset=10))
    assert (old.coordinates, old.mode) == ("asymmetric", "linear")
    old = only(model([node("Resize", "x s")], X, constants={"s": 1 / scales}, opset=10))
    assert (old.coordinates, old.nearest_mode) == ("asymmetric", "ceil")
    new = only(model([node("Resize", "x - s")], X, constants={"s": scales}, opset=13))
    assert (new.coordinates, new.nearest_mode, new.scales) == (
        "half_pixel",
        "round_prefer_floor",
        (1, 1, 2, 2),
    )
    attributes: dict[str, Any] = {
        "mode": "linear",
        "coordinate_transformation_mode": "align_corners",
        "axes": [3, 2],
    }
    new = only(model([node("Resize", "x - - z", **attributes)], X, constants={"z": ints(5, 7)}, opset=18))
    assert (new.coordinates, new.mode, new.sizes) == ("align_corners", "linear", (1, 3, 7, 5))


def test_attributes_are_read_as_the_decimal_they_were_written_as():
    op = only(model([node("LeakyRelu", "x", alpha=0.1)], X))
    assert op.alpha == 0.1
    op = only(model([node("LRN", "x", size=5, alpha=1e-4, beta=0.75, bias=1.0)], X))
    assert "alpha" not in op.properties


# --- errors -----------------------------------------------------------------------------------------------------


def test_negative_unsupported_op():
    source = model([node("Relu", "x", "z"), node("Sin", "z", name="wave")], X)
    with pytest.raises(
        OnnxImportError,
        match=rf"node 1 'wave' \(Sin\): op ai\.onnx\.Sin \(opset {NEWEST}\) is not supported; supported are Abs, Add",
    ):
        from_onnx(source)


def test_negative_op_of_another_domain():
    source = model([helper.make_node("Relu", ["x"], ["y"], domain="com.microsoft")], X)
    source.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    with pytest.raises(OnnxImportError, match=r"op com\.microsoft\.Relu \(opset 1\) is not supported"):
        from_onnx(source)


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        (("N", 3), r"dim 0 'N' of input 'x' is dynamic; give the shape: shapes=\{'x': \(1, 3\)\}"),
        ((2, None), r"dim 1 of input 'x' is dynamic; give the shape: shapes=\{'x': \(2, 1\)\}"),
        ((-1,), r"dim 0 of input 'x' is dynamic; give the shape: shapes=\{'x': \(1,\)\}"),
    ],
)
def test_negative_dynamic_shape(dims: Any, message: str):
    source = model([node("Relu", "x")], {"x": dims})
    with pytest.raises(OnnxImportError, match=message):
        from_onnx(source)
    shape = tuple(range(2, 2 + len(dims)))
    assert shape_of(only(source, shapes={"x": shape})) == shape


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"x": (2,)}, r"rank mismatch between shapes\['x'\] = \(2,\) and input 'x': 1 != 2"),
        ({"x": (2, -1)}, r"shapes\['x'\] = \(2, -1\) has a negative extent"),
        ({"z": (2, 3)}, "shapes names 'z', which is no input of the model; its inputs: 'x'"),
    ],
)
def test_negative_shapes(shapes: Any, message: str):
    with pytest.raises(OnnxImportError, match=message):
        from_onnx(model([node("Relu", "x")], {"x": ("N", 3)}), shapes=shapes)


def test_negative_input_without_shape():
    source = model([node("Relu", "x")], {"x": ()})
    source.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(
        OnnxImportError, match=r"input 'x' has no shape; give one: shapes=\{'x': \(\.\.\.\)\}"
    ):
        from_onnx(source)
    assert shape_of(only(source, shapes={"x": (2, 3)})) == (2, 3)


def test_negative_element_types():
    for kind, message in (
        (TensorProto.STRING, "input 'x' has element type string; only numbers are supported"),
        (TensorProto.UINT16, "input 'x' has element type uint16; supported are float16, bfloat16"),
    ):
        with pytest.raises(OnnxImportError, match=message):
            from_onnx(model([node("Identity", "x")], X, element=kind))


def test_negative_input_that_is_no_tensor():
    source = model([node("Identity", "x")], X)
    element = helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
    source.graph.input[0].type.CopyFrom(helper.make_sequence_type_proto(element))
    with pytest.raises(OnnxImportError, match="input 'x' is no tensor but sequence_type"):
        from_onnx(source)


def test_negative_files(tmp_path: Path):
    good = (LIGHT / "light_squeezenet.onnx").read_bytes()
    for name, data, message in (
        ("empty", b"", "is empty: 0 bytes are no ONNX model"),
        ("truncated", good[: len(good) // 2], "is not an ONNX model, or is truncated"),
        ("text", b"#!/bin/sh\necho hello\n", "is not an ONNX model, or is truncated"),
        ("mlir", b"func.func @main() { func.return }", "is not an ONNX model, or is truncated"),
        ("zeros", bytes(100), "is not an ONNX model, or is truncated"),
        ("image", b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "is not an ONNX model, or is truncated"),
        ("header", onnx.ModelProto(ir_version=8).SerializeToString(), "it has no operator set and no graph"),
    ):
        path = tmp_path / f"{name}.onnx"
        path.write_bytes(data)
        with pytest.raises(OnnxImportError, match=rf"'.*{name}\.onnx' .*{message}"):
            from_onnx(path)
        with pytest.raises(OnnxImportError, match=message):
            from_onnx(data)
    with pytest.raises(OnnxImportError, match=r"cannot read '.*nowhere\.onnx': No such file or directory"):
        from_onnx(tmp_path / "nowhere.onnx")
    with pytest.raises(OnnxImportError, match="cannot read '.*': Is a directory"):
        from_onnx(tmp_path)


@pytest.mark.parametrize("share", [k / 40 for k in range(40)])
def test_negative_truncated_anywhere(share: float):
    data = (LIGHT / "light_shufflenet.onnx").read_bytes()
    with pytest.raises(OnnxImportError):
        from_onnx(data[: int(len(data) * share)])


def test_negative_opsets():
    old = model([node("Relu", "x")], X)
    old.opset_import[0].version = 8
    with pytest.raises(
        OnnxImportError, match="uses opset 8, supported are 9 to .*; convert it with onnx.version_"
    ):
        from_onnx(old)
    old.opset_import[0].version = 999
    with pytest.raises(
        OnnxImportError, match="uses opset 999, supported are 9 to .*; update the onnx package"
    ):
        from_onnx(old)
    old.opset_import[0].domain = "elsewhere"
    with pytest.raises(OnnxImportError, match="does not say which version of the ONNX operators it uses"):
        from_onnx(old)


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
        OnnxImportError, match="uses 'z' before node 1 'z' .* computes it: .* not in topological order"
    ):
        from_onnx(model([node("Relu", "z"), node("Exp", "x", "z")], X))


def test_negative_graph_without_outputs():
    with pytest.raises(OnnxImportError, match="has a graph without outputs"):
        from_onnx(model([node("Relu", "x")], X, []))


def test_negative_corrupt_initializer():
    source = model([node("Add", "x w")], X, constants={"w": B})
    source.graph.initializer[0].raw_data = b"\0" * 7
    with pytest.raises(OnnxImportError, match="initializer 'w' has shape 3, which its 7 bytes do not fill"):
        from_onnx(source)


def test_negative_sparse_initializer():
    source = model([node("Relu", "x")], X)
    sparse = source.graph.sparse_initializer.add()
    sparse.values.name = "w"
    with pytest.raises(OnnxImportError, match="initializer 'w' is sparse"):
        from_onnx(source)


NORMALIZE = "x s s s s"


@pytest.mark.parametrize(
    ("nodes", "message", "opset"),
    [
        (
            [node("Dropout", "x", "y m")],
            "its output 1 'm' is used, but only 1 of its outputs are supported",
            12,
        ),
        ([node("MaxPool", "x", "y m", kernel_shape=[2, 2])], "its output 1 'm' is used", 12),
        ([node("BatchNormalization", NORMALIZE, "y m v q w")], "its output 1 'm' is used", 9),
        ([node("BatchNormalization", NORMALIZE, training_mode=1)], "training_mode = 1 is not supported", 15),
        ([node("BatchNormalization", NORMALIZE, spatial=0)], "spatial = 0 is not supported", 9),
        ([node("Dropout", "x - t")], "training_mode = true is not supported", 13),
        (
            [node("Conv", "x k", kernel_shape=[2, 2])],
            r"kernel_shape \[2, 2\] does not agree with the weight's \[3, 3\]",
            9,
        ),
        ([node("Conv", "x k", auto_pad="SOME")], "auto_pad = SOME is unknown", 9),
        ([node("Conv", "x k", group=2)], r"channels mismatch between input 1x3x8x8 .*: 3 != 3 \* 2", 9),
        ([node("MaxPool", "x")], "attribute kernel_shape is missing", 9),
        ([node("MaxPool", "x", kernel_shape=[2, 2], colour=3)], "attribute colour is not supported", 9),
        ([node("MaxPool", "x", kernel_shape=2)], "attribute kernel_shape is of type int, expected tuple", 9),
        ([node("Relu", "x s")], "input 1 's' is not supported", 9),
        ([node("Conv", "x")], "input 1 is missing", 9),
        ([node("Reshape", "x n")], r"cannot reshape \[1, 3, 8, 8\] to \[5, -1\]: 5 does not divide 192", 9),
        (
            [node("Reshape", "x i")],
            "input 1 'i' is computed at run time, but is supported as a constant only",
            9,
        ),
        ([node("Transpose", "x", perm=[0, 1])], r"perm \[0, 1\] is no permutation of 4 dims", 9),
        ([node("Squeeze", "x", axes=[1])], r"cannot squeeze dim 1 of \[1, 3, 8, 8\]: 3 != 1", 9),
        ([node("Concat", "x x", axis=4)], r"axis 4 is not in -4\.\.3", 9),
        ([node("Unsqueeze", "x", axes=[1, 1])], r"axes \[1, 1\] name a dim of rank 6 twice", 9),
        (
            [node("Split", "x", axis=1, split=[1, 1])],
            r"parts \[1, 1\] do not fill dim 1 of \[1, 3, 8, 8\]: 2 != 3",
            9,
        ),
        ([node("Add", "x n1")], "element type mismatch between operand 0 and operand 1: f32 != i64", 9),
        ([node("Add", "x s2")], "shapes 1x3x8x8 and 7 do not broadcast: 8 != 7 in dim 3", 9),
        (
            [node("Resize", "x - s4", mode="cubic")],
            "mode = cubic is unknown, expected one of nearest, linear",
            13,
        ),
        ([node("Resize", "x - s4", antialias=1)], "antialias = 1 is not supported", 18),
        ([node("Upsample", "x updown")], "enlarge and shrink; before opset 11 only one is supported", 9),
        (
            [node("If", "t", then_branch=helper.make_graph([], "t", [], []))],
            r"op ai\.onnx\.If .* is not supported",
            13,
        ),
    ],
)
def test_negative_nodes(nodes: list[onnx.NodeProto], message: str, opset: int):
    constants: dict[str, Any] = {
        "s": np.ones(3, np.float32), "k": np.zeros((4, 3, 3, 3), np.float32), "n": ints(5, -1), "t": np.array(True),
        "n1": ints(1), "s2": np.ones(7, np.float32), "s4": np.ones(4, np.float32), "updown": np.array([1, 1, 2, 0.5], np.float32),
    }  # fmt: skip
    outputs = [name for name in nodes[0].output if name]
    source = model(nodes, {**X, "i": (2,)}, outputs, constants, opset=opset)
    with pytest.raises(OnnxImportError, match=rf"node 0 'y' \({nodes[0].op_type}\).*{message}"):
        from_onnx(source)


def test_negative_without_the_onnx_package(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(
        OnnxImportError, match=r"ONNX import needs the onnx package: pip install 'layout-ir\[onnx\]'"
    ):
        from_onnx(b"")


def test_no_encoding_is_left_to_chance():
    for op in main_of(from_onnx(LIGHT / "light_resnet50.onnx")).body.block.ops:
        for result in op.results:
            assert isinstance(result.type, TensorType)
            assert not isinstance(result.type.encoding, NoneAttr)
