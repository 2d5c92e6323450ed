"""Constants are quantized and dequantized at import as ONNX Runtime does, without the reference of the onnx package."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper

import layout_ir as li
from layout_ir.errors import LayoutError
from layout_ir.frontends.onnx import from_onnx
from layout_ir.frontends.onnx.evaluation import evaluate
from tests.backends.onednn.small_programs import needs_library
from tests.frontends.onnx.models import constants_of, literal_of, model, node
from tests.frontends.onnx.test_evaluation import compare
from tests.processes import run_python

INTEGERS = ("int8", "uint8", "int16", "uint16")


@pytest.fixture
def no_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(node: Any) -> None:
        raise AssertionError(f"{node.op_type} went to the reference")

    monkeypatch.setattr("layout_ir.frontends.onnx.quantization_folding.evaluate", refused)


def scales(kind: str, rng: np.random.Generator) -> tuple[tuple[int, ...], dict[str, int]]:
    """The shape of a scale for data of 3x4x5, and the attributes that go with it."""
    if kind == "tensor":
        return ((), {}) if rng.integers(2) else ((1,), {})
    axis = int(rng.integers(-3, 3))
    return ((3, 4, 5)[axis],), {"axis": axis}


@pytest.mark.usefixtures("no_reference")
@pytest.mark.parametrize(
    ("dtype", "kind", "moved"), [*itertools.product(INTEGERS, ("tensor", "axis"), (False, True))]
)
def test_dequantized(dtype: str, kind: str, moved: bool):
    rng, limits = np.random.default_rng([len(dtype), moved]), np.iinfo(dtype)
    for _ in range(4):
        shape, attributes = scales(kind, rng)
        constants: dict[str, NDArray[Any]] = {
            "x": rng.integers(limits.min, limits.max, (3, 4, 5), dtype, endpoint=True),
            "s": rng.uniform(1e-3, 2, shape).astype(np.float32),
        }
        if moved:
            constants["z"] = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        assert compare([node("DequantizeLinear", " ".join(constants), "y", **attributes)], constants, 21)


@pytest.mark.usefixtures("no_reference")
@pytest.mark.parametrize(
    ("dtype", "kind", "moved"),
    [
        (dtype, kind, moved)
        for dtype, kind, moved in [*itertools.product(INTEGERS, ("tensor", "axis"), (False, True))]
        if moved or dtype == "uint8"
    ],
)
def test_quantized(dtype: str, kind: str, moved: bool):
    rng, limits = np.random.default_rng([len(dtype), moved]), np.iinfo(dtype)
    for spread in (1.0, 300.0, 1e5, 1e30):
        shape, attributes = scales(kind, rng)
        x = rng.standard_normal((3, 4, 5)).astype(np.float32) * np.float32(spread)
        # Halves, which go to the even neighbour.
        x.flat[:20] = np.arange(-10, 10) * np.float32(0.25)
        constants: dict[str, NDArray[Any]] = {
            "x": x,
            "s": rng.choice([0.5, 0.25, 0.1, 3.0], shape).astype(np.float32),
        }
        if moved:
            constants["z"] = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        assert compare([node("QuantizeLinear", " ".join(constants), "y", **attributes)], constants, 21)


@pytest.mark.parametrize(
    ("op", "constants", "attributes"),
    [
        ("DequantizeLinear", {"x": np.arange(8, dtype=np.int32), "s": np.float32(0.5)}, {}),
        (
            "DequantizeLinear",
            {"x": np.arange(10, dtype=np.int8).reshape(2, 5), "s": np.ones((2, 3), np.float32)},
            {"axis": 1, "block_size": 2},
        ),
        ("QuantizeLinear", {"x": np.arange(8, dtype=np.float16), "s": np.float16(0.5)}, {}),
    ],
)
def test_rarer_forms_go_to_the_reference(
    op: str, constants: dict[str, Any], attributes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    asked: list[str] = []

    def seen(node: Any) -> Any:
        asked.append(node.op_type)
        return evaluate(node)

    monkeypatch.setattr("layout_ir.frontends.onnx.quantization_folding.evaluate", seen)
    arrays = {name: np.asarray(value) for name, value in constants.items()}
    assert compare([node(op, "x s", "y", **attributes)], arrays, 21)
    assert asked == [op]


@pytest.mark.usefixtures("no_reference")
@pytest.mark.parametrize("dtype", ["int4", "uint4", "int8"])
@pytest.mark.parametrize("axis", [0, -1])
def test_blocks_of_four_bits_and_more(dtype: str, axis: int):
    rng = np.random.default_rng(axis % 2)
    low, high = {"int4": (-8, 7), "uint4": (0, 15), "int8": (-128, 127)}[dtype]
    shape = (2, 6) if axis == 0 else (4, 3)

    def levels(*extents: int) -> NDArray[Any]:
        return rng.integers(low, high, extents, endpoint=True).astype(
            np.dtype(getattr(ml_dtypes, dtype, dtype))
        )

    constants = {"x": levels(4, 6), "s": rng.uniform(0.1, 2, shape).astype(np.float32), "z": levels(*shape)}
    assert compare([node("DequantizeLinear", "x s z", "y", axis=axis, block_size=2)], constants, 21)


@needs_library
def test_weights_of_four_bits_are_dequantized_once():
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    # Else it multiplies by rows that it rounds to 8 bits.
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    rng = np.random.default_rng(0)
    constants = {
        "q": rng.integers(-8, 7, (8, 4), endpoint=True).astype(ml_dtypes.int4),
        "s": rng.uniform(0.1, 2, 4).astype(np.float32),
        "z": np.zeros(4, ml_dtypes.int4),
    }
    for domain in ("", "com.microsoft"):
        nodes = [node("DequantizeLinear", "q s z", "w", axis=1), node("MatMul", "x w", "y")]
        nodes[0].domain = domain
        made = model(nodes, {"x": (3, 8)}, constants=constants, opset=21)
        made.opset_import.add(domain="com.microsoft", version=1)
        made.ir_version = 10
        executable = li.compile(made)
        x = rng.standard_normal((3, 8)).astype(np.float32)
        [theirs] = runtime.InferenceSession(made.SerializeToString(), options).run(None, {"x": x})
        np.testing.assert_allclose(executable([x])[0], theirs, rtol=1e-5, atol=1e-5)
        assert not executable.fallbacks


def test_negative_a_scale_for_an_axis_that_is_not_there():
    arrays = {"x": np.zeros((2, 3), np.int8), "s": np.ones(4, np.float32)}
    module = from_onnx(model([node("DequantizeLinear", "x s", "y", axis=1)], {}, constants=arrays, opset=21))
    assert any(op.name == "nn.opaque" for op in module.walk())
    with pytest.raises(LayoutError):
        li.run(module, [])


def test_a_splat_is_dequantized():
    nodes = [
        node("ConstantOfShape", "n", "x", value=numpy_helper.from_array(np.array([3], np.int8))),
        node("DequantizeLinear", "x s", "y"),
    ]
    constants = {"n": np.array([2, 3]), "s": np.array(0.5, np.float32)}
    module = from_onnx(model(nodes, {}, constants=constants, opset=21))
    np.testing.assert_array_equal(literal_of(*constants_of(module)), np.full((2, 3), 1.5, np.float32))


def test_common_constants_do_not_load_the_reference():
    # It brings 200 modules, of 15 MB.
    program = """
import sys
import numpy as np
from layout_ir.frontends.onnx import from_onnx
from tests.backends.onednn.small_programs import needs_library
from tests.frontends.onnx.models import model, node
nodes = [node("Equal", "n m", "e"), node("Where", "e n m", "w"), node("Mod", "w m", "o"),
         node("DequantizeLinear", "x s", "d"), node("QuantizeLinear", "d s", "q"), node("Relu", "d", "y")]
constants = {"n": np.array([2, 3]), "m": np.array([2, 5]), "x": np.ones(3, np.int8), "s": np.array(0.5, np.float32)}
from_onnx(model(nodes, {}, constants=constants, opset=21))
sys.exit("onnx.reference" in sys.modules)
"""
    run_python("-c", program)
