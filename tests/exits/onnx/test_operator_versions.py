"""Versions of operators: those that came, or the first in which all ops can be written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import layout_ir as li
from layout_ir.api.onnx_export import to_onnx
from layout_ir.diagnostics import LocatedError
from layout_ir.dialects import nn
from layout_ir.exits.onnx.operator_versions import USUAL
from layout_ir.passes.rewriting import replace_op
from tests.exits.onnx.models import check, evaluate, onnx
from tests.frontends.onnx.models import main_of, model, node
from tests.programs import parse

TEXT = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{ {} func.return %y : tensor<2xf32> }}"


def opset_of(source: Any) -> int:
    check(source)
    return next(entry.version for entry in source.opset_import if entry.domain == "")


@pytest.mark.parametrize("opset", [9, 12, 17, 21])
def test_the_version_that_came_goes_out(opset: int):
    source = model([node("Relu", "x")], {"x": [2, 3]}, opset=opset)
    assert opset_of(to_onnx(li.from_onnx(source))) == opset


def test_a_program_without_a_model_has_the_usual_version():
    assert opset_of(to_onnx(parse(TEXT.format("%y = nn.relu %x : tensor<2xf32>")))) == USUAL


def test_an_opaque_op_says_the_version_where_no_model_does():
    op = '%y = nn.opaque "Asin" opset 12 (%x) : (tensor<2xf32>) -> tensor<2xf32>'
    assert opset_of(to_onnx(parse(TEXT.format(op)))) == 12


def gelu_instead(source: Any) -> Any:
    """The program of a model, with nn.gelu, which only version 20 has, in place of its Relu."""
    module = li.from_onnx(source)
    (relu,) = [op for op in main_of(module).body.block.ops if isinstance(op, nn.ReluOp)]
    gelu = nn.GeluOp(relu.x, result_type=relu.result.type)
    main_of(module).body.block.insert_op_before(gelu, relu)
    replace_op(relu, gelu.result)
    return module


def test_a_version_that_lacks_an_op_is_raised():
    module = gelu_instead(model([node("Relu", "x")], {"x": [2, 3]}, opset=13))
    went = to_onnx(module)
    assert (opset_of(went), went.ir_version) == (20, 10)
    x = np.array([[-1, 0, 1], [2, 3, 4]], np.float32)
    np.testing.assert_allclose(evaluate(went, [x])[0], li.run(module, [x])[0], rtol=1e-5)


def test_an_opaque_node_that_is_the_same_in_both_versions_does_not_mind():
    source = model([node("Relu", "x", "a"), node("Sinh", "a")], {"x": [2, 3]}, opset=13)
    assert opset_of(to_onnx(gelu_instead(source))) == 20


def test_negative_an_opaque_node_that_is_another_in_the_version_needed():
    source = model([node("Relu", "x", "a"), node("Hardmax", "a", axis=0)], {"x": [2, 3]}, opset=11)
    module = gelu_instead(source)
    with pytest.raises(
        LocatedError,
        match=r"Hardmax is of version 11 of the operators of ONNX, but nn\.gelu needs version 20",
    ):
        to_onnx(module)


def test_what_the_model_says_about_itself_stays():
    source = model([node("Relu", "x")], {"x": [2, 3]}, opset=17)
    source.producer_name, source.model_version, source.doc_string = 'maker "of" models', 7, "a ü\n\x01 text"
    source.metadata_props.add(key="license", value="none")
    source.graph.name, source.graph.doc_string = "the graph", "about it"
    source.opset_import.append(onnx.helper.make_opsetid("com.example", 3))
    went = to_onnx(li.from_onnx(source))
    check(went)
    for field in (
        "ir_version",
        "producer_name",
        "model_version",
        "doc_string",
        "metadata_props",
        "opset_import",
    ):
        assert getattr(went, field) == getattr(source, field), field
    assert (went.graph.name, went.graph.doc_string) == ("the graph", "about it")


@pytest.mark.parametrize(
    "header", ["5 : i64", '#nn.proto<"nonsense">', '#nn.proto<"graph { node { op_type: 3 } }">']
)
def test_negative_a_header_that_is_none(header: str):
    module = parse(
        f'builtin.module attributes {{"onnx.model" = {header}}} {{ {TEXT.format("%y = nn.relu %x : tensor<2xf32>")} }}'
    )
    with pytest.raises(li.LayoutError, match=r"onnx\.model of the module does not say what its model is"):
        to_onnx(module)
