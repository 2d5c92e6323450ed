"""Nodes that the tools of ONNX Runtime write, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import layout_ir as li
from tests.backends.onednn.quantized_models import compare, integers, model, node, onnx
from tests.backends.onednn.small_programs import needs_library, numbers

pytestmark = needs_library

MICROSOFT = "com.microsoft"
BATCH, STEPS, WIDTH = 2, 5, 16


def packed(bits: int, columns: int, blocks: int, points: str) -> dict[str, Any]:
    """A matrix of `columns` columns, in blocks of 16 rows."""
    given: dict[str, Any] = {
        "w": integers((columns, blocks, 16 * bits // 8), 1),
        "s": numbers((columns * blocks,), 2, 0.01, 0.02),
    }
    if points == "packed":
        given["p"] = integers((columns * -(-blocks * bits // 8),), 3)
    elif points == "floats":
        given["p"] = numbers((columns * blocks,), 3, 0, 15)
    return given


@pytest.mark.parametrize(("bits", "points"), [(4, ""), (4, "packed"), (4, "floats"), (8, ""), (8, "packed")])
@pytest.mark.parametrize("rows", [48, 40])
def test_a_matrix_in_blocks_of_few_bits(bits: int, points: str, rows: int):
    inputs = {"x": numbers((BATCH, 3, rows))}
    given = packed(bits, 6, 3, points)
    names = ("x", "w", "s", *(("p",) if points else ()))
    product = node("MatMulNBits", names, "y", domain=MICROSOFT, K=rows, N=6, bits=bits, block_size=16)
    compare(model([product], inputs, given, "y", MICROSOFT), inputs)


@pytest.mark.parametrize("given", ["", "segments", "positions", "mask"])
def test_embeddings(given: str):
    inputs: dict[str, Any] = {"i": integers((BATCH, STEPS), 0).astype(np.int32) % 7}
    constants = {
        name: numbers((7, WIDTH) if name in "wpt" else (WIDTH,), seed) for seed, name in enumerate("wptgb")
    }
    if given:
        inputs[given] = (np.arange(BATCH * STEPS, dtype=np.int32).reshape(BATCH, STEPS) % 3 > 0).astype(
            np.int32
        )
    names = [
        "i", given if given == "segments" else "", "w", "p", "t" if given == "segments" else "", "g", "b",
        given if given == "mask" else "", given if given == "positions" else "",
    ]  # fmt: skip
    outputs = ["z", "counts", "sum"] if given == "mask" else ["z", ""]
    embedding = onnx.helper.make_node("EmbedLayerNormalization", names, outputs, domain=MICROSOFT)
    nodes = [embedding, node("Neg", ("z",), "y")]
    if given == "mask":
        nodes[1:] = [
            node("Cast", ("counts",), "c", to=1),
            node("ReduceSum", ("c",), "n", keepdims=0),
            node("Mul", ("sum", "n"), "m"),
            node("Add", ("z", "m"), "y"),
        ]
    compare(model(nodes, inputs, constants, "y", MICROSOFT), inputs)


def attention(**attributes: Any) -> tuple[dict[str, Any], dict[str, Any], Any]:
    inputs = {"x": numbers((BATCH, STEPS, WIDTH))}
    constants = {"w": numbers((WIDTH, 3 * WIDTH), 1, -0.5, 0.5), "b": numbers((3 * WIDTH,), 2)}
    mask = attributes.pop("mask", None)
    if mask is not None:
        inputs["mask"] = mask
    names = ("x", "w", "b", *(("mask",) if mask is not None else ()))
    made = node("Attention", names, "z", domain=MICROSOFT, **{"num_heads": 4, **attributes})
    return inputs, constants, model([made, node("Neg", ("z",), "y")], inputs, constants, "y", MICROSOFT)


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"unidirectional": 1},
        {"scale": 0.3},
        {"qkv_hidden_sizes": [16, 16, 16]},
        {"mask": np.array([3, 5], np.int32)},
        {"mask": np.array([[1, 1, 0, 1, 0], [0, 1, 1, 1, 1]], np.int32)},
        {"mask": (np.arange(BATCH * STEPS * STEPS).reshape(BATCH, STEPS, STEPS) % 4 > 0).astype(np.int32)},
        {"mask": np.array([[1, 1, 0, 1, 0], [0, 1, 1, 1, 1]], np.int32), "mask_filter_value": -3.0},
    ],
)
def test_attention(attributes: dict[str, Any]):
    inputs, _, made = attention(**attributes)
    compare(made, inputs)


def test_values_of_another_width():
    inputs = {"x": numbers((BATCH, STEPS, WIDTH))}
    constants = {"w": numbers((WIDTH, 8 + 8 + 24), 1, -0.5, 0.5), "b": numbers((40,), 2)}
    made = node("Attention", ("x", "w", "b"), "z", domain=MICROSOFT, num_heads=4, qkv_hidden_sizes=[8, 8, 24])
    compare(model([made, node("Neg", ("z",), "y")], inputs, constants, "y", MICROSOFT), inputs)


def test_negative_rotated_positions_stay_opaque():
    inputs, _, made = attention(do_rotary=1)
    with pytest.raises(li.LayoutError, match="Attention"):
        li.compile(made)(inputs)
