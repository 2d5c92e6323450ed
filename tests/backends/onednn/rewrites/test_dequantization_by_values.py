"""DequantizeLinear whose scales are computed or of blocks, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from layout_ir.elements.numpy_types import Array
from tests.backends.onednn.quantized_models import compare, model, node
from tests.backends.onednn.rewrites.test_node_decomposition import opaque_nodes
from tests.backends.onednn.small_programs import needs_library

pytestmark = needs_library

SHAPE = (4, 6, 8)


def _integers(shape: tuple[int, ...], kind: Any = np.int8) -> Array:
    bounds = np.iinfo(kind)
    return np.random.default_rng(0).integers(max(bounds.min, -500), min(bounds.max, 500), shape).astype(kind)


def _scales(shape: tuple[int, ...]) -> Array:
    return np.random.default_rng(1).uniform(0.1, 2, shape).astype(np.float32)


def _model(values: dict[str, Array], constant: str, **attributes: Any) -> tuple[Any, dict[str, Array]]:
    constants = {name: value for name, value in values.items() if name in constant}
    inputs = {name: value for name, value in values.items() if name not in constant}
    inputs |= {} if inputs else {"other": _scales((1,))}
    nodes = [node("DequantizeLinear", tuple(values), "real", **attributes), node("Neg", ("real",), "y")]
    return model(nodes, inputs, constants, "y", opset=21), inputs


@pytest.mark.parametrize("constant", ["", "x", "s", "z", "xz"])
@pytest.mark.parametrize(
    ("side", "attributes"),
    [
        ((), {}),
        ((1,), {"axis": 2}),
        ((6,), {"axis": 1}),
        ((8,), {"axis": -1}),
        ((4, 6, 2), {"axis": 2, "block_size": 4}),
        ((4, 2, 8), {"axis": 1, "block_size": 4}),
    ],
)
@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16])
def test_what_is_computed(side: tuple[int, ...], attributes: dict[str, Any], constant: str, kind: Any):
    values = {"x": _integers(SHAPE, kind), "s": _scales(side), "z": _integers(side, kind)}
    made, inputs = _model(values, constant, **attributes)
    assert not opaque_nodes(made)
    compare(made, inputs)


@pytest.mark.parametrize("zero_point", [False, True])
def test_constants_in_blocks_stay_constants(zero_point: bool):
    values = {"x": _integers(SHAPE), "s": _scales((4, 2, 8))}
    values |= {"z": _integers((4, 2, 8))} if zero_point else {}
    made, inputs = _model(values, "xsz", axis=1, block_size=3)
    assert not opaque_nodes(made)
    executable = compare(made, inputs)
    assert sum(buffer.size for buffer in executable.plan.buffers) < 8 * 4 * np.prod(SHAPE)


def test_negative_integers_of_32_bits_that_f32_does_not_have_stay_with_the_reference():
    made, _ = _model({"x": _integers(SHAPE, np.int32), "s": _scales(())}, "")
    assert opaque_nodes(made) == ["DequantizeLinear"]
