"""Operators of ONNX Runtime as functions of standard ones: their types are those of the results in ONNX Runtime."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import pytest

from layout_ir.frontends.onnx.function_body import TensorType
from layout_ir.frontends.onnx.runtime_functions import FUNCTIONS, function_nodes, written_out
from layout_ir.frontends.onnx.shape_inference import infer_shapes
from tests.frontends.onnx.onnxruntime_oracle import session_results
from tests.frontends.onnx.runtime_nodes import NODES, WIDTH, RuntimeNode, floats, group_query


def types_of(node: RuntimeNode) -> dict[str, TensorType]:
    """The types of the inputs of a node."""
    arrays = {**node.arrays(constant=True), **node.feeds()}
    return {
        name: TensorType(oh.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in arrays.items()
    }


@pytest.mark.parametrize("name", NODES)
def test_types_are_those_of_the_results(name: str):
    node = NODES[name]
    found = written_out(node.model())
    assert found is not None and {each.domain for each in found.graph.node} == {""}
    onnx.checker.check_model(_with_any_types(found))  # pyright: ignore[reportUnknownMemberType]
    values = infer_shapes(found, strict=True).graph.output
    for value, wanted in zip(values, session_results(node.model(), node.feeds()), strict=True):
        tensor = value.type.tensor_type
        extents = [dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
        assert tensor.elem_type == oh.np_dtype_to_tensor_dtype(wanted.dtype)
        # How many keys there are, or elements, may be known at run time only.
        assert len(extents) == wanted.ndim
        assert all(known in (None, extent) for known, extent in zip(extents, wanted.shape, strict=True))
        deciding = {"GroupQueryAttention": 6, "ConvTransposeWithDynamicPads": 2}.get(node.op_type)
        is_open = deciding is not None and deciding not in node.constants
        assert None not in extents or is_open or node.op_type == "Unique"


def _with_any_types(model: onnx.ModelProto) -> onnx.ModelProto:
    """The checker asks for types of outputs, but does not compare them."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    for value in result.graph.output:
        value.type.CopyFrom(oh.make_tensor_type_proto(onnx.TensorProto.FLOAT, ()))
    return result


def test_every_function_has_a_node_in_the_table():
    assert {f"{node.domain}.{node.op_type}" for node in NODES.values()} == FUNCTIONS.keys()


def _heads(**attributes: Any) -> RuntimeNode:
    return RuntimeNode("MultiHeadAttention", [floats(2, 5, WIDTH)] * 3, attributes=attributes)


@pytest.mark.parametrize(
    "node",
    [
        _heads(),
        _heads(num_heads="four"),
        _heads(num_heads=0),
        _heads(num_heads=2 * WIDTH),
        RuntimeNode("MultiHeadAttention", [floats(2, 5, 4, 3, 8)], attributes={"num_heads": 4}),
        RuntimeNode("MultiHeadAttention", [floats(5, WIDTH)] * 3, attributes={"num_heads": 4}),
        RuntimeNode("Attention", [floats(2, 5, 8)], attributes={"num_heads": 4}),
        replace(NODES["attention"], attributes={"num_heads": 4, "do_rotary": 1}),
        replace(
            NODES["attention, lengths"],
            inputs=[*NODES["attention, lengths"].inputs[:3], np.ones(8, np.int32)],
        ),
        replace(NODES["attention"], attributes={"num_heads": 4, "qkv_hidden_sizes": [32, 32]}),
        replace(NODES["rows of bytes"], inputs=[np.uint8(3), *NODES["rows of bytes"].inputs[1:]]),
        group_query(k_quant_type="PER_TENSOR"),
        group_query(kv_num_heads=3),
        replace(NODES["rotary"], attributes={"scale": 0.5}),
        replace(NODES["rows of bytes"], attributes={"block_size": 0, "bits": 8}),
        replace(NODES["rows of bytes"], attributes={"block_size": 16, "bits": 2}),
        RuntimeNode("Thing", [floats(2)]),
        RuntimeNode("Attention", [floats(2)], domain="my"),
    ],
)
def test_negative_other_uses_have_no_function(node: RuntimeNode):
    (proto,) = node.model().graph.node
    assert function_nodes(proto, types_of(node).__getitem__) is None


def test_negative_what_depends_on_unknown_types_says_so():
    node = NODES["rotary, by heads"]
    (proto,) = node.model().graph.node
    known = types_of(node)
    del known["i0"]
    with pytest.raises(KeyError):
        function_nodes(proto, known.__getitem__)


_STRANGE: list[Any] = [0, -1, 1 << 40, 1.5, "x", [1], [1.5], [0, 0, 0]]


def test_negative_malformed_calls_have_no_function_and_no_unforeseen_error():
    random = Random(0)
    for _ in range(600):
        node = NODES[random.choice(list(NODES))]
        (proto,) = node.model().graph.node
        types = types_of(node)
        for _ in range(random.randint(1, 3)):
            match random.randrange(4):
                case 0 if proto.attribute:
                    name = random.choice(proto.attribute).name
                    kept = [attribute for attribute in proto.attribute if attribute.name != name]
                    del proto.attribute[:]
                    proto.attribute.extend([*kept, oh.make_attribute(name, random.choice(_STRANGE))])
                case 1:
                    proto.input[random.randrange(len(proto.input))] = random.choice(
                        ["", "nothing", proto.input[0]]
                    )
                case 2:
                    extents = tuple(random.choice([None, 0, 1, 3, 32]) for _ in range(random.randrange(6)))
                    types[random.choice(list(types))] = TensorType(
                        random.choice([0, 1, 2, 7, 9, 10]), extents
                    )
                case _:
                    del proto.input[random.randint(1, len(proto.input)) :]
        with suppress(KeyError):
            function_nodes(proto, types.__getitem__)
