"""What the optimizer says of the Transposes of a model, and what ONNX Runtime computes without them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx: Any = pytest.importorskip("onnx", reason="needs the extra 'onnx'")

from layout_ir.execution_graphs.copies import explain_copies  # noqa: E402
from layout_ir.execution_graphs.onnx_model import read_onnx  # noqa: E402
from layout_ir.execution_graphs.optimized_copies import Transposed, reasons_of  # noqa: E402
from layout_ir.frontends.onnx.stand_ins import NCHWC_DOMAIN  # noqa: E402
from tests.execution_graphs.onnx_models import (  # noqa: E402
    HEAD,
    LAST,
    NORM,
    computed,
    decided,
    parsed,
    random_inputs,
)
from tests.zoo import NETWORKS  # noqa: E402


def test_a_transpose_that_no_rule_removes_is_avoidable_where_it_is_gone():
    model = parsed(LAST)
    verdicts = {copy.destination.name: copy.verdict for copy in explain_copies(read_onnx(model, {}))}
    assert (verdicts["c"], verdicts["e"]) == ("undecided", "undecided")
    _, copies, result = decided(model)
    assert (copies["c"].verdict, copies["e"].verdict) == ("avoidable", "avoidable")
    assert "none comes instead" in copies["c"].reason
    inputs = random_inputs(model)
    (new,) = [copy for copy in explain_copies(read_onnx(result.model, {})) if copy.destination.name == "y"]
    assert new.nbytes == copies["y"].nbytes and result.after.count == 2
    assert np.allclose(computed(model, inputs)["y"], computed(result.model, inputs)["y"], atol=1e-5)


def test_negative_one_that_is_left_is_forced_by_what_is_on_both_sides():
    _, copies, result = decided(parsed(NORM))
    assert {name: copy.verdict for name, copy in copies.items()} == {"c": "forced", "e": "forced"}
    assert "Conv 'b'" in copies["c"].reason and "LayerNormalization 'd'" in copies["c"].reason
    assert "LayerNormalization" in copies["c"].remedy
    assert sum(copy.nbytes or 0 for copy in copies.values()) == result.after.nbytes


def test_negative_one_that_is_left_at_an_input_is_up_to_the_caller():
    _, copies, _ = decided(parsed(LAST))
    assert {copies[name].verdict for name in "ay"} == {"boundary"}
    assert "--inputs free" in copies["a"].remedy and "--outputs free" in copies["y"].remedy


def test_one_at_an_output_is_avoidable_where_it_meets_another():
    """The rules leave it to the caller; a Softmax over the other dim needs neither."""
    text = (
        HEAD
        + """
    m (float[4,6,5] x) => (float[4,6,5] y) { a = Transpose<perm = [0, 2, 1]>(x)
      b = Softmax<axis = 1>(a)
      y = Transpose<perm = [0, 2, 1]>(b) }"""
    )
    _, copies, result = decided(parsed(text))
    assert {copy.verdict for copy in copies.values()} == {"avoidable"} and result.after.count == 0


def test_what_comes_instead_is_told_with_its_bytes():
    """Two Transposes of two inputs that are added become one of the sum."""
    text = (
        HEAD
        + """
    m (float[4,6,5] x, float[4,6,5] z) => (float[4,5,6] y) { r = Relu(x)
      s = Relu(z)
      a = Transpose<perm = [0, 2, 1]>(r)
      b = Transpose<perm = [0, 2, 1]>(s)
      y = Add(a, b) }"""
    )
    _, copies, result = decided(parsed(text))
    assert {copy.verdict for copy in copies.values()} == {"avoidable"} and result.after.count == 1
    for copy in copies.values():
        assert (
            f"1 Transpose is left in place of 2 that go, and moves {result.after.nbytes} bytes" in copy.reason
        )


CALL = """
<ir_version: 8, opset_import: ["" : 17, "ours" : 1]>
m (float[4,6,5] x) => (float[{result}] y) {{ a = Relu(x)
  b = ours.f(a)
  y = Relu(b) }}
<domain: "ours", opset_import: ["" : 17]>
f (p) => (q) {{ {body} }}"""


def test_the_result_of_a_function_is_no_copy_where_the_function_is_written_out():
    body = "s = Transpose<perm = [0, 2, 1]>(p) t = Softmax<axis = 1>(s) q = Transpose<perm = [0, 2, 1]>(t)"
    _, copies, _ = decided(parsed(CALL.format(result="4,6,5", body=body)))
    assert copies["b"].verdict == "avoidable"
    (inner,) = [copy for name, copy in copies.items() if name != "b"]
    assert inner.verdict == "undecided" and "function" in inner.reason


def test_negative_the_body_of_a_function_that_stays_is_undecided():
    body = "s = Softmax<axis = 1>(p) q = Transpose<perm = [0, 2, 1]>(s)"
    _, copies, _ = decided(parsed(CALL.format(result="4,5,6", body=body)))
    (copy,) = copies.values()
    assert copy.verdict == "undecided" and "function" in copy.reason


def test_negative_what_is_left_beside_blocks_of_channels_stays_undecided():
    pytest.importorskip("onnxruntime", reason="needs the extra 'oracles'")
    pytest.importorskip("torch", reason="needs the extra 'oracles'")
    # Of which of them copies are left depends on how many channels a block has on this CPU.
    unet, yolo = (decided(NETWORKS[f"{name}-ort-all"].build())[1] for name in ("unet_resized", "yolov8"))
    assert all(copy.verdict != "forced" for copy in unet.values())
    undecided = [copy for copy in (*unet.values(), *yolo.values()) if copy.verdict == "undecided"]
    assert undecided and all(NCHWC_DOMAIN in copy.reason for copy in undecided)


@pytest.mark.parametrize("name", ["unet_resized-nhwc", "levit", "shufflenet_v2", "swin_tiny"])
@pytest.mark.parametrize("target", ["onnx", "ort-cpu"])
def test_the_rewritten_model_confirms_the_verdicts_on_a_network(name: str, target: str):
    """No Transpose in it makes what an avoidable one made, each forced one has one; and it computes the same."""
    pytest.importorskip("onnxruntime", reason="needs the extra 'oracles'")
    pytest.importorskip("torch", reason="needs the extra 'oracles'")
    model = NETWORKS[name].build()
    graph, copies, result = decided(model, target)
    after = read_onnx(result.model, {})
    old = Transposed(graph)
    made = {
        old.place(*result.place(after.values[node.inputs[0].value].name, node.permutation))
        for node in after.nodes
        if node.kind == "Transpose" and node.permutation is not None
    }
    assert len(made) == result.after.count
    verdicts = {
        old.place(name, tuple(range(len(copy.source.shape or ())))): copy.verdict
        for name, copy in copies.items()
    }
    assert {place for place, verdict in verdicts.items() if verdict in ("forced", "boundary")} <= made
    gone = {place for place, verdict in verdicts.items() if verdict == "avoidable"}
    assert not gone & made
    inputs = NETWORKS[name].inputs()
    first, second = computed(model, inputs), computed(result.model, inputs)
    for value in model.graph.output:
        assert np.allclose(first[value.name], second[value.name], rtol=1e-4, atol=1e-4)


def test_each_transpose_of_the_optimized_model_has_its_reason():
    _, _, result = decided(parsed(NORM))
    after = read_onnx(result.model, {})
    reasons = reasons_of(after, result)
    transposes = {k for k, node in enumerate(after.nodes) if node.kind == "Transpose"}
    assert reasons.keys() == transposes and len(transposes) == 2
    for number, reason in reasons.items():
        maker = after.nodes[after.producers()[after.nodes[number].inputs[0].value] or 0]
        assert maker.kind in reason and "needs" in reason
