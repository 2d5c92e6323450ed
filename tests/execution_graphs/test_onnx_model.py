"""ONNX models as graphs: transposes, views, the blocks of ONNX Runtime, subgraphs. ONNX Runtime is asked for shapes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx: Any = pytest.importorskip("onnx", reason="needs the extra 'onnx'")

from layout_ir.execution_graphs.copies import explain_copies, totals  # noqa: E402
from layout_ir.execution_graphs.execution_graph import ExecutionGraph  # noqa: E402
from layout_ir.execution_graphs.onnx_model import read_onnx  # noqa: E402
from layout_ir.frontends.onnx import OnnxImportError  # noqa: E402
from tests.frontends.onnx.runtime_nodes import NODES, RuntimeNode, floats  # noqa: E402
from tests.zoo import NETWORKS  # noqa: E402

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
m (float[1,8,6,10] x) => (float[1,8,6,10] y) {
  a = Relu(x)
  b = Transpose<perm = [0, 2, 3, 1]>(a)
  c = Sigmoid(b)
  d = Transpose<perm = [0, 3, 1, 2]>(c)
  shape = Constant<value = int64[3] {1, 8, 60}>()
  e = Reshape(d, shape)
  f = Softmax<axis = 1>(e)
  whole = Constant<value = int64[4] {1, 8, 6, 10}>()
  y = Reshape(f, whole)
}
"""


def _write(model: Any, folder: Path) -> str:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return str(path)


def _read(text: str, folder: Path, **shapes: tuple[int, ...]) -> ExecutionGraph:
    return read_onnx(_write(onnx.parser.parse_model(text), folder), shapes)


def test_transposes_copy_and_reshapes_do_not(tmp_path: Path):
    copies = explain_copies(_read(MODEL, tmp_path))
    assert [(c.kind, c.nbytes, c.verdict) for c in copies] == [("Transpose", 2 * 4 * 480, "avoidable")] * 2


def test_negative_transposes_around_an_op_that_is_not_elementwise_are_undecided(tmp_path: Path):
    copies = explain_copies(_read(MODEL.replace("Sigmoid(b)", "Softmax<axis = 3>(b)"), tmp_path))
    assert {copy.verdict for copy in copies} == {"undecided"}


def test_negative_transposes_around_a_constant_of_several_elements_are_undecided(tmp_path: Path):
    text = MODEL.replace(
        "c = Sigmoid(b)", "k = Constant<value = float[8] {1, 2, 3, 4, 5, 6, 7, 8}>()\n  c = Mul(b, k)"
    )
    assert {copy.verdict for copy in explain_copies(_read(text, tmp_path))} == {"undecided"}


def test_a_removed_pair_computes_the_same(tmp_path: Path):
    """What the rule says of the pair, done by hand: ONNX Runtime finds equal results."""
    runtime: Any = pytest.importorskip("onnxruntime", reason="needs the extra 'oracles'")
    without = MODEL.replace("b = Transpose<perm = [0, 2, 3, 1]>(a)", "b = Identity(a)").replace(
        "d = Transpose<perm = [0, 3, 1, 2]>(c)", "d = Identity(c)"
    )
    x = np.random.default_rng(0).standard_normal((1, 8, 6, 10)).astype(np.float32)
    results = [
        runtime.InferenceSession(onnx.parser.parse_model(text).SerializeToString()).run(None, {"x": x})[0]
        for text in (MODEL, without)
    ]
    assert np.array_equal(results[0], results[1])
    assert explain_copies(_read(without, tmp_path)) == []


def test_a_body_is_part_of_the_graph(tmp_path: Path):
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    m (bool p, float[4,6] x) => (float[6,4] y) {
      y = If(p) <
        then_branch = yes () => (float[6,4] t) { t = Transpose(x) },
        else_branch = no () => (float[6,4] e) { s = Transpose(x)
          e = Neg(s) }
      >
    }"""
    copies = explain_copies(_read(text, tmp_path))
    assert [copy.producer for copy in copies] == ["the caller (x)"] * 2
    assert {copy.consumers for copy in copies} == {("If y",), ("Neg e",)}


def test_shapes_that_are_given_reach_every_value(tmp_path: Path):
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    m (float[n,6] x) => (float[6,n] y) { z = Relu(x)
      y = Transpose(z) }"""
    assert [copy.nbytes for copy in explain_copies(_read(text, tmp_path))] == [None]
    assert [copy.nbytes for copy in explain_copies(_read(text, tmp_path, x=(5, 6)))] == [240]
    with pytest.raises(OnnxImportError, match="no input of the model"):
        _read(text, tmp_path, z=(5, 6))


@pytest.mark.parametrize("name", ["resnet18-ort-all", "resnet18-ort-extended", "resnet18-nhwc"])
def test_shapes_are_those_that_onnxruntime_computes(name: str, tmp_path: Path):
    """Every value of the graph becomes an output, so that the runtime tells its size; blocks come with their pads."""
    runtime: Any = pytest.importorskip("onnxruntime", reason="needs the extra 'oracles'")
    pytest.importorskip("torch", reason="needs the extra 'oracles'")
    model = NETWORKS[name].build()
    graph = read_onnx(_write(model, tmp_path), {})
    made = [output for node in model.graph.node for output in node.output]
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=output) for output in made)
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(model.SerializeToString(), options)
    arrays = dict(zip(made, session.run(None, NETWORKS[name].inputs()), strict=True))
    values = {value.name: value for value in graph.values}
    for output, array in arrays.items():
        value = values[output]
        assert value.shape is not None, output
        assert value.nbytes == array.nbytes, (output, value, array.shape)


def test_every_reorder_that_onnxruntime_wrote_is_explained(tmp_path: Path):
    pytest.importorskip("onnxruntime", reason="needs the extra 'oracles'")
    pytest.importorskip("torch", reason="needs the extra 'oracles'")
    model = NETWORKS["unet_resized-ort-all"].build()
    kinds = Counter(node.op_type for node in model.graph.node if node.op_type.startswith("Reorder"))
    assert kinds, "nothing to explain"
    copies = explain_copies(read_onnx(_write(model, tmp_path), {}))
    assert Counter(copy.kind for copy in copies) == kinds
    for copy in copies:
        assert copy.nbytes and copy.reason and copy.remedy
        assert {copy.source.layout_text[:5], copy.destination.layout_text[:5]} == {"NCHWc", ""}
    assert sum(count for count, _ in totals(copies).values()) == sum(kinds.values())


def test_a_flag_of_a_product_is_a_witness(tmp_path: Path):
    """One FusedMatMul reads its operand transposed itself, the other has a Transpose in front."""
    helper = onnx.helper
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node(
            "FusedMatMul", ["a", "a"], ["p"], domain="com.microsoft", transB=1, name="with_flag"
        ),
        helper.make_node("Relu", ["p"], ["q"]),
        helper.make_node("Transpose", ["q"], ["t"], perm=[1, 0]),
        helper.make_node("FusedMatMul", ["q", "t"], ["y"], domain="com.microsoft", transB=0, name="without"),
    ]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [info("x", 1, [6, 10])], [info("y", 1, [6, 6])])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    read = read_onnx(_write(model, tmp_path), {})
    (flagged,) = (node for node in read.nodes if node.name == "with_flag")
    assert [operand.read_as for operand in flagged.inputs] == [None, (1, 0)]
    (copy,) = explain_copies(read)
    assert copy.verdict == "avoidable" and "with_flag" in copy.reason


def test_attributes_are_told_zeros_too():
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    m (float[2,3] x) => (float[2,3] y) { z = Softmax<axis = 0>(x)
      i = ArgMax<axis = 1, keepdims = 0>(z)
      p = Constant<value = int64[4] {0, 0, 0, 0}>()
      y = Pad<mode = "edge">(z, p) }"""
    read = read_onnx(onnx.parser.parse_model(text), {})
    assert [n.attributes for n in read.nodes if n.role == "op"] == [
        "axis=0",
        "axis=1 keepdims=0",
        "mode=edge",
    ]


@pytest.mark.parametrize(("transposed", "batch"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_a_product_reads_its_operands_as_onnxruntime_does(transposed: int, batch: int):
    """The order in which its flags let it read a stack, stated as a Transpose in front of a product without flags."""
    runtime: Any = pytest.importorskip("onnxruntime", reason="needs the extra 'oracles'")
    helper, info = onnx.helper, onnx.helper.make_tensor_value_info
    shape = {(0, 0): (2, 3, 4, 5), (0, 1): (4, 2, 3, 5), (1, 0): (2, 3, 5, 4), (1, 1): (5, 2, 3, 4)}
    left = shape[transposed, batch]
    flags = {"transA": transposed, "transBatchA": batch}
    node = helper.make_node("FusedMatMul", ["x", "w"], ["y"], domain="com.microsoft", **flags)
    inputs = [info("x", 1, left), info("w", 1, [2, 3, 5, 7])]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "g", inputs, [info("y", 1, None)])
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    read = read_onnx(model, {})
    (product,) = (node for node in read.nodes if node.kind == "FusedMatMul")
    order = product.inputs[0].read_as or (0, 1, 2, 3)
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(s).astype(np.float32) for s in (left, (2, 3, 5, 7)))
    (y,) = runtime.InferenceSession(model.SerializeToString()).run(None, {"x": x, "w": w})
    assert np.allclose(y, x.transpose(order) @ w, atol=1e-5)
    assert read.values[product.outputs[0]].shape == y.shape


@pytest.mark.parametrize("data", [b"", b"\x08\x08nonsense\x00", b"\x08"])
def test_negative_what_is_no_model_is_one_error(data: bytes, tmp_path: Path):
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    with pytest.raises(OnnxImportError):
        read_onnx(str(path), {})


def test_quantized_convolutions_with_channels_last_have_types(tmp_path: Path):
    node = NODES["convolution, channels last"]
    graph = read_onnx(_write(node.model(), tmp_path), {})
    values = {value.name: value for value in graph.values}
    assert (values["o0"].shape, values["o0"].dtype) == ((1, 7, 7, 6), values["i0"].dtype)
    assert values["i0"].dtype is not None


def test_negative_an_operator_of_nobody_has_no_type(tmp_path: Path):
    model = RuntimeNode("Thing", [floats(2, 3)]).model()
    graph = read_onnx(_write(model, tmp_path), {})
    values = {value.name: value for value in graph.values}
    assert (values["o0"].shape, values["o0"].dtype) == (None, None)


def test_types_follow_from_layer_to_layer(tmp_path: Path):
    model = RuntimeNode("MultiHeadAttention", [floats(2, 5, 32)], attributes={"num_heads": 4}).model()
    (first,) = model.graph.node
    del model.graph.node[:]
    for layer in range(20):
        name = f"v{layer - 1}" if layer else "i0"
        node = model.graph.node.add()
        node.CopyFrom(first)
        node.input[:], node.output[:] = [name] * 3, [f"v{layer}"]
    model.graph.output[0].name = "v19"
    values = {value.name: value for value in read_onnx(_write(model, tmp_path), {}).values}
    assert values["v19"].shape == (2, 5, 32)
