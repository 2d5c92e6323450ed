"""Nodes that are not valid, or not supported: each error names the node, and says both sides."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from layout_ir.frontends.onnx import OnnxImportError, from_onnx
from tests.frontends.onnx.models import (
    ints,
    model,
    node,
)

X = {"x": (1, 3, 8, 8)}

NORMALIZE = "x s s s s"


@pytest.mark.parametrize(
    ("nodes", "message", "opset"),
    [
        ([node("BatchNormalization", NORMALIZE, "y m v q w")], "its output 1 'm' is used", 9),
        ([node("BatchNormalization", NORMALIZE, training_mode=1)], "training_mode = 1 is not supported", 15),
        ([node("BatchNormalization", NORMALIZE, spatial=0)], "spatial = 0 is not supported", 9),
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
        (
            [node("Resize", "x - s4", mode="curly")],
            "mode = curly is unknown, expected one of nearest, linear",
            13,
        ),
        ([node("Add", "x n1")], "element type mismatch between operand 0 and operand 1: f32 != i64", 9),
        ([node("Add", "x s2")], "shapes 1x3x8x8 and 7 do not broadcast: 8 != 7 in dim 3", 9),
        (
            [node("If", "t", then_branch=helper.make_graph([], "t", [], []))],
            "has no then_branch with 1 results",
            13,
        ),
    ],
)
def test_negative_nodes(nodes: list[onnx.NodeProto], message: str, opset: int):
    constants: dict[str, Any] = {
        "s": np.ones(3, np.float32), "k": np.zeros((4, 3, 3, 3), np.float32), "n": ints(5, -1), "t": np.array(True),
        "n1": ints(1), "s2": np.ones(7, np.float32), "s4": np.ones(4, np.float32),
    }  # fmt: skip
    outputs = [name for name in nodes[0].output if name]
    source = model(nodes, {**X, "i": (2,)}, outputs, constants, opset=opset)
    with pytest.raises(OnnxImportError, match=rf"node 0 'y' \({nodes[0].op_type}\).*{message}"):
        from_onnx(source)
