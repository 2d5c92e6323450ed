"""Normalizations: what ONNX Runtime computes, in all versions of their ops, and group normalizations written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from layout_ir.dialects import nn
from layout_ir.frontends.onnx import OnnxImportError, from_onnx
from tests.frontends.onnx.models import ints, model, node, only, ops_of
from tests.frontends.onnx.onnxruntime_oracle import check_like_onnx_runtime

Array = NDArray[Any]


def numbers(*shape: int, seed: int = 0, low: float = -2.0) -> Array:
    return np.random.default_rng(seed).uniform(low, 2, shape).astype(np.float32)


@pytest.mark.parametrize("axis", [-1, 1, 2, 0])
@pytest.mark.parametrize("bias", [True, False])
def test_layer_normalization_is_that_of_onnx_runtime(axis: int, bias: bool):
    shape = (2, 5, 7)
    constants = {"s": numbers(*shape[axis:], seed=1), "b": numbers(*shape[axis:], seed=2)}
    inputs = "x s b" if bias else "x s"
    source = model(
        [node("LayerNormalization", inputs, axis=axis, epsilon=1e-3)],
        {"x": shape},
        constants=constants,
        opset=17,
    )
    op = only(source)
    assert isinstance(op, nn.LayerNormOp) and op.axes == tuple(range(axis % 3, 3)) and op.epsilon == 1e-3
    check_like_onnx_runtime(source, {"x": numbers(*shape)})


@pytest.mark.parametrize("outputs", ["y - d", "y m"])
def test_a_layer_normalization_whose_statistics_are_used_stays_opaque(outputs: str):
    wanted = [name for name in outputs.split() if name != "-"]
    source = model(
        [node("LayerNormalization", "x s", outputs)], {"x": (2, 5, 7)}, wanted, {"s": numbers(7)}, opset=17
    )
    (op,) = ops_of(source)
    assert op.name == "nn.opaque"


def test_rms_normalization_is_that_of_onnx():
    from onnx.reference import ReferenceEvaluator

    from tests.frontends.onnx.running import check_close, run

    constants = {"s": numbers(7, seed=1)}
    source = model(
        [node("RMSNormalization", "x s", epsilon=1e-2)], {"x": (2, 5, 7)}, constants=constants, opset=23
    )
    assert isinstance(only(source), nn.RmsNormOp)
    x = numbers(2, 5, 7)
    evaluator: Any = ReferenceEvaluator(source)
    wanted = evaluator.run(None, {"x": x})
    check_close(run(from_onnx(source), [x]), wanted, 1e-5, 1e-6)


def test_simplified_layer_normalization_is_that_of_onnx_runtime():
    source = model(
        [node("SimplifiedLayerNormalization", "x s", axis=-1, epsilon=1e-2)],
        {"x": (2, 5, 7)}, constants={"s": numbers(7, seed=1)}, opset=17,
    )  # fmt: skip
    assert isinstance(only(source), nn.RmsNormOp)
    check_like_onnx_runtime(source, {"x": numbers(2, 5, 7)})


def of_microsoft(source: onnx.ModelProto) -> onnx.ModelProto:
    source.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return source


@pytest.mark.parametrize("names", ["x k s", "x k s b", "x k s b c", "x k s - c"])
@pytest.mark.parametrize("outputs", ["y", "y - - t"])
def test_skip_layer_normalization_is_that_of_onnx_runtime(names: str, outputs: str):
    shape = (2, 5, 8)
    constants = {name: numbers(8, seed=k) for k, name in enumerate("sbc") if name in names}
    source = of_microsoft(
        model(
            [node("SkipLayerNormalization", names, outputs, domain="com.microsoft", epsilon=1e-3)],
            {"x": shape, "k": shape}, [name for name in outputs.split() if name != "-"], constants, opset=17,
        )
    )  # fmt: skip
    check_like_onnx_runtime(source, {"x": numbers(*shape), "k": numbers(*shape, seed=7)})


@pytest.mark.parametrize("names", ["x k s", "x k s c"])
def test_skip_simplified_layer_normalization_is_that_of_onnx_runtime(names: str):
    shape = (2, 5, 8)
    constants = {name: numbers(8, seed=k) for k, name in enumerate("sc") if name in names}
    source = of_microsoft(
        model(
            [node("SkipSimplifiedLayerNormalization", names, domain="com.microsoft", epsilon=1e-3)],
            {"x": shape, "k": shape}, constants=constants, opset=17,
        )
    )  # fmt: skip
    check_like_onnx_runtime(source, {"x": numbers(*shape), "k": numbers(*shape, seed=7)})


@pytest.mark.parametrize("opset", [9, 22])
@pytest.mark.parametrize("shape", [(2, 5, 7), (2, 5, 4, 3), (1, 5, 2, 3, 2)])
def test_instance_normalization_is_that_of_onnx_runtime(shape: tuple[int, ...], opset: int):
    constants = {"s": numbers(5, seed=1), "b": numbers(5, seed=2)}
    source = model(
        [node("InstanceNormalization", "x s b", epsilon=1e-2)], {"x": shape}, constants=constants, opset=opset
    )
    op = only(source)
    assert isinstance(op, nn.GroupNormOp) and op.groups == 5 and op.epsilon == 1e-2
    check_like_onnx_runtime(source, {"x": numbers(*shape)})


@pytest.mark.parametrize("groups", [1, 3, 6])
@pytest.mark.parametrize("opset", [18, 21])
def test_group_normalization_is_that_of_onnx_runtime(groups: int, opset: int):
    parameters = groups if opset < 21 else 6
    constants = {"s": numbers(parameters, seed=1), "b": numbers(parameters, seed=2)}
    source = model(
        [node("GroupNormalization", "x s b", num_groups=groups)],
        {"x": (2, 6, 4, 5)},
        constants=constants,
        opset=opset,
    )
    op = only(source)
    assert isinstance(op, nn.GroupNormOp) and op.groups == groups
    check_like_onnx_runtime(source, {"x": numbers(2, 6, 4, 5)})


def test_negative_groups_that_do_not_divide_the_channels():
    source = model(
        [node("GroupNormalization", "x s s", num_groups=4)],
        {"x": (2, 6, 4)},
        constants={"s": numbers(6)},
        opset=21,
    )
    with pytest.raises(OnnxImportError, match="groups = 4 does not divide the 6 channels of 2x6x4"):
        from_onnx(source)


def test_negative_a_scale_that_fits_no_dim():
    source = model([node("LayerNormalization", "x s")], {"x": (2, 7)}, constants={"s": numbers(3)}, opset=17)
    with pytest.raises(OnnxImportError, match="do not broadcast"):
        from_onnx(source)


# --- group normalization written out ----------------------------------------------------------------------------


def written_out(
    shape: tuple[int, ...] = (2, 6, 4, 5), flat: tuple[int, ...] = (0, 3, -1), scale: float = 1.0, bias: float = 0.0,
    more: tuple[str, ...] = (), after: tuple[str, ...] = ("Mul", "Add"),
) -> onnx.ModelProto:  # fmt: skip
    constants: dict[str, Array] = {
        "flat": ints(*flat), "one": np.full(3, scale, np.float32), "zero": np.full(3, bias, np.float32),
        "back": ints(*shape), "Mul": numbers(6, 1, 1, seed=1), "Add": numbers(1, 6, 1, 1, seed=2),
    }  # fmt: skip
    nodes = [
        node("Reshape", "x flat", "a"),
        node("InstanceNormalization", "a one zero", "b", epsilon=1e-3),
        node("Reshape", "b back", "c0"),
        *(node(op, f"c{k} {op}" if k else f"{op} c{k}", f"c{k + 1}") for k, op in enumerate(after)),
    ]
    last = f"c{len(after)}"
    used = {name for n in nodes for name in n.input}
    return model(
        nodes, {"x": shape}, [last, *more], {k: v for k, v in constants.items() if k in used}, opset=17
    )


def test_a_group_normalization_written_out_is_one_op():
    source = written_out()
    op = only(source)
    assert isinstance(op, nn.GroupNormOp) and (op.groups, op.epsilon) == (3, 1e-3)
    check_like_onnx_runtime(source, {"x": numbers(2, 6, 4, 5)})


@pytest.mark.parametrize(
    ("after", "names"),
    [
        ((), ["nn.group_norm"]),
        (("Mul",), ["nn.group_norm"]),
        (("Add",), ["nn.group_norm"]),
        # A bias in front of the product would have to be multiplied too.
        (("Add", "Mul"), ["nn.group_norm", "nn.mul"]),
        (("Mul", "Mul"), ["nn.group_norm", "nn.mul"]),
    ],
)
def test_factors_behind_a_group_normalization(after: tuple[str, ...], names: list[str]):
    source = written_out(after=after)
    assert [op.name for op in ops_of(source)] == names
    check_like_onnx_runtime(source, {"x": numbers(2, 6, 4, 5)})


@pytest.mark.parametrize(
    "changes",
    [
        {"scale": 2.0},
        {"bias": 0.5},
        {"more": ("b",)},  # the statistics of the reshaped tensor are used as well
        {"flat": (1, 3, -1)},  # not one sample each
    ],
)
def test_negative_what_is_no_group_normalization_stays_as_written(changes: dict[str, Any]):
    source = written_out(**changes)
    assert "layout.reshape" in [op.name for op in ops_of(source)]
    check_like_onnx_runtime(source, {"x": numbers(2, 6, 4, 5)})


def test_negative_a_factor_that_is_not_per_channel_stays_a_product():
    source = written_out(after=("Mul",))
    source.graph.initializer[-1].CopyFrom(
        helper.make_tensor("Mul", TensorProto.FLOAT, [5], numbers(5).tolist())
    )
    assert [op.name for op in ops_of(source)] == ["nn.group_norm", "nn.mul"]
    check_like_onnx_runtime(source, {"x": numbers(2, 6, 4, 5)})
