"""Nodes that become what their operators are defined by, beside ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import layout_ir as li
from tests.backends.onednn.rewrites.test_node_decomposition import opaque_nodes
from tests.backends.onednn.small_programs import needs_library, numbers
from tests.frontends.onnx.onnxruntime_oracle import session_results
from tests.frontends.onnx.runtime_nodes import NODES

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

pytestmark = needs_library


def model(
    op: str,
    inputs: Mapping[str, Any],
    constants: Mapping[str, Any],
    outputs: Sequence[str] = ("y",),
    opset: int = 23,
    **attributes: Any,
) -> Any:
    """A model of one node, on inputs and constants in the order of their names; a name that is "" is left out."""
    helper = onnx.helper
    names = sorted({*inputs, *constants})
    first = "abcdefgh"
    given = [name if name in names else "" for name in first[: first.index(names[-1]) + 1]]
    graph = helper.make_graph(
        [helper.make_node(op, given, outputs, **attributes)],
        "node",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in inputs.items()
        ],
        [helper.make_empty_tensor_value_info(name) for name in outputs if name],
        [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return onnx.shape_inference.infer_shapes(made)


def compare(made: Any, inputs: Mapping[str, Any]) -> None:
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    executable = li.compile(made, checked=True)
    assert not executable.fallbacks
    for ours, theirs in zip(executable(dict(inputs)), session.run(None, dict(inputs)), strict=True):
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


def attended(heads: int = 4, shared: int = 4, length: int = 6, keys: int = 6) -> dict[str, Any]:
    """Queries, keys and values."""
    shapes = {"a": (2, heads, length, 8), "b": (2, shared, keys, 8), "c": (2, shared, keys, 8)}
    return {name: numbers(shape, number) for number, (name, shape) in enumerate(shapes.items())}


@pytest.mark.parametrize(("heads", "shared"), [(4, 4), (4, 2), (4, 1)])
@pytest.mark.parametrize("attributes", [{}, {"is_causal": 1}, {"scale": 0.2, "softcap": 3.0}])
def test_attention(heads: int, shared: int, attributes: dict[str, Any]):
    inputs = attended(heads, shared)
    made = model("Attention", inputs, {}, **attributes)
    assert not opaque_nodes(made)
    compare(made, inputs)


def test_attention_with_a_mask_and_keys_of_before():
    inputs = attended(length=3, keys=3)
    inputs |= {"d": numbers((3, 8), 5), "e": numbers((2, 4, 5, 8), 6), "f": numbers((2, 4, 5, 8), 7)}
    made = model("Attention", inputs, {}, ("y", "keys", "values"))
    assert not opaque_nodes(made)
    compare(made, inputs)


def test_attention_on_heads_side_by_side():
    inputs = {name: numbers((2, 5, 24), number) for number, name in enumerate("abc")}
    made = model("Attention", inputs, {}, q_num_heads=3, kv_num_heads=3)
    assert not opaque_nodes(made)
    compare(made, inputs)


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotated_positions(interleaved: int):
    inputs = {"a": numbers((2, 3, 5, 8)), "d": np.arange(10).reshape(2, 5) % 7}
    angles = np.outer(np.arange(7), 10.0 ** -np.arange(4)).astype(np.float32)
    constants = {"b": np.cos(angles), "c": np.sin(angles)}
    made = model("RotaryEmbedding", inputs, constants, interleaved=interleaved)
    assert not opaque_nodes(made)
    compare(made, inputs)


def test_a_normalization_whose_means_are_used():
    inputs, constants = {"a": numbers((3, 5, 8))}, {"b": numbers((8,), 1), "c": numbers((8,), 2)}
    made = model("LayerNormalization", inputs, constants, ("y", "mean", "deviation"), opset=17)
    assert not opaque_nodes(made)
    compare(made, inputs)


def test_a_crop_whose_shape_is_a_constant():
    inputs = {"a": numbers((2, 9, 6))}
    made = model("CenterCropPad", inputs, {"b": np.array([4, 8])}, opset=18, axes=[1, 2])
    assert not opaque_nodes(made)
    compare(made, inputs)


def test_negative_an_operator_without_a_function_stays_opaque():
    made = model("TopK", {"a": numbers((3, 9))}, {"b": np.array([4])}, ("y", "i"), opset=17)
    assert opaque_nodes(made) == ["TopK"]


def test_negative_random_numbers_stay_opaque():
    made = model("Bernoulli", {"a": numbers((3, 9))}, {}, opset=17)
    assert opaque_nodes(made) == ["Bernoulli"]


_OFTEN = (
    "attention, past and mask", "heads, bias and lengths", "heads, no later keys", "groups, turned", "groups, sinks",
    "rotary, by twos", "dynamic product, columns", "convolution, channels last", "rows of 4 bits, zero points",
)  # fmt: skip


@pytest.mark.parametrize(
    "name", [name if name in _OFTEN else pytest.param(name, marks=pytest.mark.deep) for name in NODES]
)
def test_operators_of_onnx_runtime(name: str):
    node = NODES[name]
    made, inputs = node.model(), node.feeds()
    # On one thread: on several, ONNX Runtime rounds the states of a DynamicQuantizeLSTM in parts.
    wanted = session_results(made, inputs)
    for value, array in zip(made.graph.output, wanted, strict=True):
        element = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        value.CopyFrom(onnx.helper.make_tensor_value_info(value.name, element, array.shape))
    executable = li.compile(made, checked=True)
    # How many keys there are in all, pads, and what is there once are numbers that come with the call.
    is_open = name in ("groups", "unique") or name.endswith("known at run time")
    assert executable.fallbacks == ({f"com.microsoft::{node.op_type}": 1} if is_open else {})
    for ours, theirs in zip(executable(inputs), wanted, strict=True):
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        finite = theirs.astype(float)[np.isfinite(theirs.astype(float))]
        largest = np.abs(finite).max(initial=0)
        np.testing.assert_allclose(ours.astype(float), theirs.astype(float), rtol=0, atol=1e-5 * largest)


def test_negative_a_use_without_a_function_stays_opaque():
    node = NODES["rotary"]
    other = replace(node, attributes={"num_heads": 4, "scale": 0.5}).model()
    other.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info("o0", 1, node.inputs[0].shape))
    executable = li.compile(other)
    assert executable.fallbacks == {"com.microsoft::RotaryEmbedding": 1}
    with pytest.raises(
        li.LayoutError, match=r"com\.microsoft::RotaryEmbedding with these inputs and attributes"
    ):
        executable(node.feeds())
