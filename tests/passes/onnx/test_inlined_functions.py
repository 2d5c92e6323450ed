"""Which functions are written out, and which stay."""

from __future__ import annotations

import onnx
import onnx.helper as oh
import pytest

import layout_ir as li
from layout_ir.errors import LayoutError
from layout_ir.passes.onnx.inlined_functions import with_moving_functions_inlined
from tests.passes.onnx.optimized import check_optimized, initializer, model_of, transpose, value


def _function(name: str, *body: onnx.NodeProto, opset: int = 18) -> onnx.FunctionProto:
    imports = [oh.make_opsetid("", opset), oh.make_opsetid("my", 1)]
    return oh.make_function("my", name, ["p"], ["q"], list(body), imports)


def _calling(name: str, *functions: onnx.FunctionProto) -> onnx.ModelProto:
    nodes = [oh.make_node(name, ["x"], ["a"], domain="my"), oh.make_node(name, ["a"], ["y"], domain="my")]
    return model_of(nodes, [value("x", 2, 2)], [value("y", 2, 2)], functions=list(functions))


def test_a_function_with_a_transpose_is_written_out_and_so_are_those_that_call_it():
    inner = _function("Inner", transpose("p", "q", 1, 0))
    outer = _function(
        "Outer", oh.make_node("Inner", ["p"], ["r"], domain="my"), oh.make_node("Relu", ["r"], ["q"])
    )
    found = with_moving_functions_inlined(_calling("Outer", inner, outer))
    assert found is not None
    assert [node.op_type for node in found.graph.node] == ["Transpose", "Relu"] * 2


def test_what_a_body_does_without_goes():
    function = oh.make_function(
        "my", "F", ["p", "unused"], ["q"], [transpose("p", "q", 1, 0)], [oh.make_opsetid("", 18)]
    )
    node = oh.make_node("F", ["x", "c"], ["y"], domain="my")
    constants = [initializer("c", 1.0), initializer("idle", 1.0)]
    model = model_of([node], [value("x", 2, 2)], [value("y", 2, 2)], constants, functions=[function])
    found = with_moving_functions_inlined(model)
    assert found is not None and [tensor.name for tensor in found.graph.initializer] == ["idle"]


def test_an_attribute_that_a_call_does_not_give_has_the_default_of_the_function():
    slope = onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    leaky = oh.make_node("LeakyRelu", ["r"], ["s"])
    leaky.attribute.append(slope)
    function = _function("F", transpose("p", "r", 1, 0), leaky, transpose("s", "q", 1, 0))
    function.attribute_proto.append(oh.make_attribute("slope", 0.5))
    model = _calling("F", function)
    model.graph.node[0].attribute.append(oh.make_attribute("slope", 0.25))
    result = check_optimized(model)
    slopes = [node.attribute[0].f for node in result.model.graph.node]
    assert slopes == [0.25, 0.5]


def test_negative_functions_that_call_themselves():
    body = [transpose("p", "r", 1, 0), oh.make_node("F", ["r"], ["q"], domain="my")]
    with pytest.raises(LayoutError, match=r"function 'my\.F' calls itself"):
        li.optimize_onnx(_calling("F", _function("F", *body)))


def test_negative_functions_that_make_a_model_of_any_size():
    # Each calls the next one twice: written out, 2^40 Transposes.
    chain = [
        _function(
            f"F{k}",
            oh.make_node(f"F{k + 1}", ["p"], ["r"], domain="my"),
            oh.make_node(f"F{k + 1}", ["r"], ["q"], domain="my"),
        )
        for k in range(40)
    ]
    model = _calling("F0", *chain, _function("F40", transpose("p", "q", 1, 0)))
    with pytest.raises(LayoutError, match=r"written out at their calls, make [0-9]+ nodes"):
        li.optimize_onnx(model)


def test_an_operator_of_the_standard_comes_before_a_function_of_its_name():
    function = _function("Relu", transpose("p", "q", 1, 0))
    model = _calling("Relu", function)
    assert with_moving_functions_inlined(model) is not None  # of another domain
    for node in (*model.graph.node, *model.functions):
        node.domain = ""
    assert with_moving_functions_inlined(model) is None


def test_negative_a_function_that_moves_nothing_is_called_as_before():
    assert (
        with_moving_functions_inlined(_calling("F", _function("F", oh.make_node("Relu", ["p"], ["q"]))))
        is None
    )


def test_negative_a_function_that_onnx_writes_out_with_names_of_nothing_is_called_as_before():
    body = oh.make_graph(
        [oh.make_node("Identity", ["go"], ["on"]), transpose("k", "t", 1, 0)],
        "body",
        [
            value("i", dtype=onnx.TensorProto.INT64),
            value("go", dtype=onnx.TensorProto.BOOL),
            value("k", 2, 2),
        ],
        [value("on", dtype=onnx.TensorProto.BOOL), value("k", 2, 2)],
    )
    once = oh.make_node("Constant", [], ["once"], value_int=1)
    loop = oh.make_node("Loop", ["once", "", "p"], ["q"], body=body)
    result = check_optimized(_calling("F", _function("F", once, loop)))
    assert [node.op_type for node in result.model.graph.node] == ["F", "F"]


def test_negative_a_function_for_another_version_of_the_operators_is_called_as_before():
    assert (
        with_moving_functions_inlined(_calling("F", _function("F", transpose("p", "q", 1, 0), opset=9)))
        is None
    )
