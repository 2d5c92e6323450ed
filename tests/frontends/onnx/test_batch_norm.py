"""Batch normalization goes into the convolution before it, or stays."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from layout_ir.dialects import nn
from layout_ir.frontends.onnx import from_onnx
from layout_ir.frontends.onnx.batch_norm import fold_into_convolution
from tests.frontends.onnx.models import (
    ints,
    main_of,
    model,
    node,
    ops_of,
)

RNG = np.random.default_rng(7)
NORM = {name: RNG.random(4, np.float32) + 0.5 for name in ("scale", "shift", "mean", "var")}
WEIGHT = RNG.standard_normal((4, 3, 3, 3)).astype(np.float32)


def normalized(extra: list[onnx.NodeProto], *, outputs: tuple[str, ...] = ("y",), **constants: Any) -> Any:
    nodes = [
        node("Conv", "x w b" if "b" in constants else "x w", "c"),
        node("BatchNormalization", "c scale shift mean var", epsilon=1e-3),
        *extra,
    ]
    return model(nodes, {"x": (1, 3, 5, 5)}, outputs, {"w": WEIGHT, **NORM, **constants})


@pytest.mark.parametrize("bias", [None, RNG.random(4, np.float32)])
def test_batch_norm_goes_into_the_convolution(bias: Any):
    source = normalized([], **({} if bias is None else {"b": bias}))
    function = main_of(from_onnx(source))
    assert [op.name for op in function.body.block.ops].count("nn.conv") == 1
    weight, shift = (
        np.frombuffer(op.literal.data.data, np.float32)
        for op in function.body.block.ops
        if isinstance(op, nn.ConstantOp)
    )
    scale, beta, mean, var = (NORM[name].astype(np.float64) for name in ("scale", "shift", "mean", "var"))
    factor = scale / np.sqrt(var + 1e-3)
    wanted = WEIGHT.astype(np.float64) * factor.reshape(-1, 1, 1, 1)
    np.testing.assert_array_equal(weight.reshape(WEIGHT.shape), wanted.astype(np.float32))
    wanted = ((0 if bias is None else bias.astype(np.float64)) - mean) * factor + beta
    np.testing.assert_array_equal(shift, wanted.astype(np.float32))


def test_batch_norm_of_splats_makes_splats():
    half = np.float32(0.5)
    splats = {
        name: numpy_helper.from_array(np.array([half]), "value")
        for name in ("w", "scale", "shift", "mean", "var")
    }
    nodes = [
        node("ConstantOfShape", "ws" if name == "w" else "cs", name, value=v) for name, v in splats.items()
    ]
    nodes += [node("Conv", "x w", "c"), node("BatchNormalization", "c scale shift mean var")]
    source = model(nodes, {"x": (1, 3, 5, 5)}, constants={"ws": ints(4, 3, 3, 3), "cs": ints(4)})
    constants = [op for op in main_of(from_onnx(source)).body.block.ops if isinstance(op, nn.ConstantOp)]
    assert len(constants) == 2
    assert all(op.is_splat for op in constants)
    factor = 0.5 / np.sqrt(0.5 + 1e-5)
    assert constants[0].literal.data.data == np.float32(0.5 * factor).tobytes()
    assert constants[1].literal.data.data == np.float32(-0.5 * factor + 0.5).tobytes()


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(
            normalized([node("Add", "y c", "z")], outputs=("z",)), id="the convolution has another use"
        ),
        pytest.param(normalized([], outputs=("y", "c")), id="the convolution is an output"),
        pytest.param(normalized([], mean=np.full(4, np.inf, np.float32)), id="the new bias is not finite"),
        pytest.param(normalized([], var=np.full(4, -1, np.float32)), id="the new weight is not a number"),
    ],
)
def test_negative_batch_norm_stays(source: onnx.ModelProto):
    assert [op.name for op in ops_of(source)][:2] == ["nn.conv", "nn.batch_norm"]


def test_negative_batch_norm_of_computed_statistics_stays():
    nodes = [node("Conv", "x w", "c"), node("BatchNormalization", "c m m m m")]
    source = model(nodes, {"x": (1, 3, 5, 5), "m": (4,)}, constants={"w": WEIGHT})
    assert [op.name for op in ops_of(source)] == ["nn.conv", "nn.batch_norm"]


def test_negative_batch_norm_of_a_computed_weight_stays():
    nodes = [node("Conv", "x w", "c"), node("BatchNormalization", "c scale shift mean var")]
    source = model(nodes, {"x": (1, 3, 5, 5), "w": (4, 3, 3, 3)}, constants=NORM)
    assert [op.name for op in ops_of(source)] == ["nn.conv", "nn.batch_norm"]


def test_weights_are_not_all_in_double_precision_at_a_time():
    weight = np.random.default_rng(0).standard_normal((256, 256, 3, 3)).astype(np.float32)
    parameters = [np.random.default_rng(k).uniform(0.5, 2, 256).astype(np.float32) for k in range(4)]
    tracemalloc.start()
    folded = fold_into_convolution(weight, None, parameters, 1e-5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert folded is not None
    scale, _, _, var = (parameter.astype(np.float64) for parameter in parameters)
    expected = weight.astype(np.float64) * (scale / np.sqrt(var + 1e-5))[:, None, None, None]
    np.testing.assert_array_equal(folded[0], expected.astype(np.float32))
    assert peak < 1.5 * weight.nbytes
