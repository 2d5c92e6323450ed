"""The walk over the function: signature, opaque nodes, what cannot be written."""

from __future__ import annotations

import numpy as np
import pytest

import layout_ir as li
from layout_ir.api.onnx_export import to_onnx
from layout_ir.diagnostics import LocatedError
from layout_ir.exits.onnx import model_of
from tests.exits.onnx.models import X, came_back, check, counts, evaluate, onnx, typed
from tests.frontends.onnx.models import main_of, model, node
from tests.programs import parse

# --- signature ---


def test_outputs_keep_their_names_order_and_sharing():
    source = typed(
        [node("Relu", "x", "a"), node("Neg", "a", "b"), node("Identity", "a", "c")],
        {"b": [2, 3, 4], "a": [2, 3, 4], "c": [2, 3, 4]},
        opset=17,
    )
    went = came_back(source, X)
    assert [value.name for value in went.graph.output] == ["b", "a", "c"]
    assert counts(went) == {"Relu": 1, "Neg": 1, "Identity": 1}


def test_an_output_that_is_an_input_or_a_constant_is_an_identity_of_it():
    source = typed(
        [node("Identity", "x", "y"), node("Identity", "k", "z")],
        {"y": [2, 3, 4], "z": [2]},
        constants={"k": np.ones(2, np.float32)},
    )
    assert counts(came_back(source, X)) == {"Identity": 2}


def test_an_input_that_nothing_uses_stays():
    module = parse(
        "func.func @main(%x: tensor<2xf32>, %y: tensor<3xf32>) -> tensor<2xf32> { func.return %x : tensor<2xf32> }"
    )
    went = to_onnx(module)
    check(went)
    assert [value.name for value in went.graph.input] == ["x", "y"]
    assert [value.name for value in went.graph.output] == ["result0"]


def test_a_function_of_any_name_goes_out():
    body = "%y = nn.neg %x : tensor<2xf32> func.return %y : tensor<2xf32>"
    text = f"func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {{ {body} }}"
    (output,) = to_onnx(parse(text), entry="f").graph.output
    assert output.name == "y"
    with pytest.raises(li.LayoutError, match="the module has no function @main, its functions: @f"):
        to_onnx(parse(text))


# --- opaque nodes ---

BRANCHES = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2,3,4] x, bool c) => (float[2,3,4] y) {
  a = Relu (x)
  b = Neg (a)
  y = If (c) <
    then_branch = inner () => (float[2,3,4] t) { u = Exp (a) t = Add (u, b) },
    else_branch = other () => (float[2,3,4] e) { e = Sub (a, x) }
  >
}
"""


@pytest.mark.parametrize("condition", [True, False])
def test_subgraphs_use_the_names_that_outer_values_have_now(condition: bool):
    source = onnx.parser.parse_model(BRANCHES)
    came_back(source, X, np.array(condition))
    # With other names outside, the names inside have to follow, but never those that the subgraphs define.
    module = li.from_onnx(source)
    for name, op in zip(("u", "e"), main_of(module).body.block.ops, strict=False):
        op.results[0].name_hint = name
    went = to_onnx(module)
    check(went)
    want = evaluate(source, [X, np.array(condition)])
    np.testing.assert_allclose(evaluate(went, [X, np.array(condition)])[0], want[0], rtol=1e-6)


def test_an_operator_of_somebody_else_keeps_its_attributes_and_says_its_types():
    source = typed(
        [
            node("Relu", "x", "a"),
            node("Mystery", "a -", "b", domain="com.example", level=3),
            node("Neg", "b", "y"),
        ],
        {"y": [2, 3, 4]},
    )
    source.opset_import.append(onnx.helper.make_opsetid("com.example", 4))
    source.graph.value_info.append(onnx.helper.make_tensor_value_info("b", 1, [2, 3, 4]))
    went = to_onnx(li.from_onnx(source))
    check(went)
    (mystery,) = [n for n in went.graph.node if n.op_type == "Mystery"]
    assert (mystery.domain, mystery.attribute[0].i) == ("com.example", 3)
    assert {entry.domain: entry.version for entry in went.opset_import}["com.example"] == 4
    assert li.from_onnx(went) is not None  # the types of its results are in the model


# --- errors ---


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            ("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {"
            " %y = math.sqrt %x : tensor<2xf32> func.return %y : tensor<2xf32> }"),
            "math.sqrt has no form in ONNX",
        ),
        (
            "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> { func.return %x : tensor<?xf32> }",
            r"func.func has a value of type tensor<\?xf32>, a tensor with a dynamic extent",
        ),
        (
            "func.func @main(%x: tensor<2xi7>) -> tensor<2xi7> { func.return %x : tensor<2xi7> }",
            "func.func has a value of type tensor<2xi7>, a tensor whose elements ONNX export does not know",
        ),
        (
            "func.func @main(%x: f32) -> f32 { func.return %x : f32 }",
            "func.func has a value of type f32, no tensor",
        ),
        (
            "func.func @main() { cf.br ^a ^a: func.return }",
            "function @main has 2 blocks, and a graph of ONNX one",
        ),
        (
            ('func.func @main(%x: tensor<2xf32> {"onnx.name" = "a"}) -> (tensor<2xf32> {"onnx.name" = "a"}) {'
            " %y = nn.neg %x : tensor<2xf32> func.return %y : tensor<2xf32> }"),
            "the name 'a' is that of an argument and of a result that is another value",
        ),
    ],
)  # fmt: skip
def test_negative_what_has_no_form(text: str, message: str):
    module = parse(text)
    with pytest.raises(li.LayoutError, match=message):
        to_onnx(module)


def test_negative_a_program_with_encodings_is_no_physical_program():
    text = "func.func @main(%x: tensor<2x3xf32, #layout.tag<ba>>) { func.return }"
    module = parse(text)
    with pytest.raises(LocatedError, match="a tensor with an encoding: run convert-layout-to-physical first"):
        model_of(module, main_of(module))


def test_negative_a_blocked_convolution_has_no_form():
    module = li.from_onnx(
        model(
            [node("Conv", "x w")], {"x": [1, 64, 9, 9]}, constants={"w": np.ones((64, 64, 3, 3), np.float32)}
        )
    )
    li.optimize(module, target="blocked8")
    with pytest.raises(
        li.LayoutError, match=r"^nn\.conv has no form in ONNX in the layouts nChw8c, OIhw8i8o -> "
    ) as error:
        to_onnx(module)
    assert "linalg" not in str(error.value)  # which the program has not
