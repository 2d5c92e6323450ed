"""Models as ONNX Runtime fuses them, computed beside what they were."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import pytest

from layout_ir.backends.onnxruntime.fused_model import fused_model
from layout_ir.errors import LayoutError
from layout_ir.passes.onnx.graph_check import check_names
from tests.passes.onnx.blocked_networks import Op, floats, names, network, session


def _model() -> onnx.ModelProto:
    constants = {
        "w": floats(8, 8, 3, 3),
        **{name: floats(8, seed=k) ** 2 + 0.5 for k, name in enumerate("sbmv")},
    }
    ops: list[Op] = [
        ("Conv", ["x", "w"], "c", {}),
        ("BatchNormalization", ["c", *"sbmv"], "n", {}),
        ("Relu", ["n"], "y", {}),
    ]
    model = network(ops, constants, {"x": ("n", 8, 6, 6)}, ["y"])
    model.doc_string, model.producer_name = "a network", "its maker"
    model.metadata_props.add(key="licence", value="of its own")
    model.graph.metadata_props.add(key="made by", value="an exporter")
    return model


def test_it_has_fewer_nodes_the_same_outputs_and_what_the_model_says_of_itself(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra 'oracles'")
    model, path = _model(), tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    fused = fused_model(str(path))
    assert names(fused.graph.node) == ["FusedConv"]
    assert fused.metadata_props == model.metadata_props and fused.doc_string == model.doc_string
    assert fused.graph.metadata_props == model.graph.metadata_props
    assert {entry.domain for entry in fused.opset_import} == {"", "com.microsoft"}
    assert fused.graph.input == model.graph.input
    feeds = {"x": floats(3, 8, 6, 6)}
    want, found = (session(m, "ORT_DISABLE_ALL").run(None, feeds)[0] for m in (model, fused))
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)


def test_weights_beside_the_model_are_in_what_comes_back(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra 'oracles'")
    weights = floats(1024, 512, 1, 1)
    model = network([("Conv", ["x", "w"], "y", {})], {"w": weights}, {"x": (1, 512, 2, 2)}, ["y"])
    cast(Any, onnx).save_model(
        model, str(tmp_path / "model.onnx"), save_as_external_data=True, size_threshold=0
    )
    fused = fused_model(str(tmp_path / "model.onnx"))
    (tensor,) = fused.graph.initializer
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(tensor), weights)
    assert not tensor.HasField("data_location"), "a second optimization would leave it out"


_PARTS_IN_A_LOOP = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[5, 2] b) => (float[5] x, float[5] z)
<int64 i0 = {0}, int64 i1 = {1}, int64 n = {5}, bool t = {1}> {
   x0 = Gather <axis = 1> (b, i0)
   x1 = Gather <axis = 1> (b, i1)
   x = Sub (x1, x0)
   first = ReduceSum <keepdims = 0> (x)
   last, z = Loop (n, t, first) <body = body (int64 it, bool cond, float sum) => (bool goes_on, float more, float y)
   <int64 j0 = {0}, int64 j1 = {1}> {
      goes_on = Identity (cond)
      r = Gather <axis = 0> (b, it)
      y0 = Gather <axis = 0> (r, j0)
      y1 = Gather <axis = 0> (r, j1)
      y = Sub (y1, y0)
      more = Add (sum, y)
   }>
}"""


def test_values_that_fusions_name_alike_in_a_graph_and_its_subgraph_are_told_apart(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra 'oracles'")
    model, path = onnx.parser.parse_model(_PARTS_IN_A_LOOP), tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    fused = fused_model(str(path))
    cast(Any, onnx).checker.check_model(fused)
    feeds = {"b": floats(5, 2)}
    for want, found in zip(
        *(session(m, "ORT_DISABLE_ALL").run(None, feeds) for m in (model, fused)), strict=True
    ):
        np.testing.assert_array_equal(found, want)


def test_negative_a_model_that_onnx_runtime_does_not_take_is_named(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra 'oracles'")
    model = network([("NoSuchOperator", ["x"], "y", {})], {}, {"x": (1, 2)}, ["y"])
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(LayoutError, match="does not take the model"):
        fused_model(str(tmp_path / "model.onnx"))


def test_a_constant_of_a_subgraph_is_there_once(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra 'oracles'")
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[4, 3, 6] x, float start) => (float[4, 3, 6] y) {
      sum, y = Scan <num_scan_inputs = 1, body = each (float s, float[3, 6] row) => (float t, float[3, 6] r)
          <float zero = {0}> {
        mean = ReduceMean <keepdims = 0> (row)
        c = Greater (mean, zero)
        part = If (c) <
          then_branch = cut () => (float[?, ?] p)
              <int64[1] first = {0}, int64[1] axis = {1}, float[3, 6] ones = {1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}> {
            end = Constant <value = int64[1] {3}> ()
            q = Slice (row, first, end, axis)
            p = Concat <axis = 1> (q, q)
          },
          else_branch = same () => (float[?, ?] o) { o = Identity (row) }>
        t = Add (s, mean)
        r = Mul (row, part)
      }> (start, x)
    }"""
    model = onnx.parser.parse_model(text)
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    fused = fused_model(str(path))
    check_names(fused.graph)
    feeds = {"x": floats(4, 3, 6), "start": np.zeros((), np.float32)}
    want, found = (session(m, "ORT_DISABLE_ALL").run(None, feeds)[0] for m in (model, fused))
    np.testing.assert_array_equal(found, want)
