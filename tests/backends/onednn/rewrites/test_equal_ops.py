"""Ops that compute the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

import layout_ir as li
from layout_ir.backends.onednn.rewrites.equal_ops import merge_equal_ops
from layout_ir.dialects import nn
from tests.backends.onednn.small_programs import Program, compare, needs_library, numbers

SHAPE = 2, 8, 6, 5


def branches(*each: tuple[int, dict[str, Any]]) -> ModuleOp:
    """The sum of the tanhs of convolutions of one tensor: their weights are drawn by a number, and their attributes."""
    program = Program(SHAPE)
    found: list[SSAValue] = []
    for seed, attributes in each:
        w = program.constant(numbers((8, 8, 3, 3), seed, -0.3, 0.3))
        y = program.add(nn.ConvOp, program.arguments[0], w, pads=(1, 1, 1, 1), **attributes)
        found.append(program.add(nn.TanhOp, y))
    total = found[0]
    for other in found[1:]:
        total = program.add(nn.AddOp, total, other)
    return program.module(total)


def merged(module: ModuleOp) -> list[str]:
    """The ops that are left; they compute the same."""
    changed = module.clone()
    merge_equal_ops(changed)
    changed.verify()
    x = numbers(SHAPE)
    np.testing.assert_array_equal(li.run(changed, [x])[0], li.run(module, [x])[0])
    return [op.name for op in changed.walk() if isinstance(op, nn.NNOp) and not isinstance(op, nn.ConstantOp)]


def test_equal_branches_are_computed_once():
    assert merged(branches((1, {}), (1, {}), (1, {}))) == ["nn.conv", "nn.tanh", "nn.add", "nn.add"]


@needs_library
def test_an_executable_computes_them_once():
    executable = compare(branches((1, {}), (1, {})), numbers(SHAPE))
    assert sum("nn.conv" in step.ops for step in executable.profile([numbers(SHAPE)])) == 1


@pytest.mark.parametrize("other", [(2, {}), (1, {"dilations": (2, 2), "pads": (2, 2, 2, 2)})])
def test_negative_other_weights_or_attributes_are_other_ops(other: tuple[int, dict[str, Any]]):
    seed, attributes = other
    program = Program(SHAPE)
    results: list[SSAValue] = []
    pads: dict[str, Any] = {"pads": (1, 1, 1, 1)}
    for number, given in ((1, pads), (seed, pads | attributes)):
        w = program.constant(numbers((8, 8, 3, 3), number))
        results.append(program.add(nn.ConvOp, program.arguments[0], w, **given))
    assert merged(program.module(program.add(nn.AddOp, *results))) == ["nn.conv", "nn.conv", "nn.add"]


def test_negative_opaque_nodes_stay_two():
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    nodes = [helper.make_node("RandomNormal", [], [name], shape=[4], seed=None) for name in ("a", "b")]
    nodes.append(helper.make_node("Sub", ["a", "b"], ["y"]))
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [4])
    module = li.from_onnx(helper.make_model(helper.make_graph(nodes, "g", [], [y])))
    before = str(module)
    merge_equal_ops(module)
    assert str(module) == before
