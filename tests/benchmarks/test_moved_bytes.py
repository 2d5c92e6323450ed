from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.model_tools import TOOLS
from benchmarks.moved_bytes import Moves, count_moves, largest_difference, random_feeds
from benchmarks.networks import runtime_block
from tests.benchmarks.small_models import load, model, picture, save


def counted(of: Any, block: int = 16) -> Moves:
    return count_moves(of, random_feeds(of.graph), block)[0]


def test_a_transpose_reads_and_writes_every_byte_of_its_tensor():
    inside, outside = 2 * 5 * 7 * 20, 2 * 5 * 7 * 3
    assert counted(picture()) == Moves(4, 0, 2 * 4 * (3 * inside + outside), 0)


def test_symbolic_sizes_and_element_types_are_those_of_the_run():
    moving = model(
        """network (float16[n, 4] x) => (float16[4, n] y) {
             y = Transpose <perm = [1, 0]> (x)
           }"""
    )
    feeds = {"x": np.zeros((9, 4), np.float16)}
    assert count_moves(moving, feeds, 16)[0] == Moves(1, 0, 2 * 9 * 4 * 2, 0)


def test_an_einsum_that_only_names_dims_in_another_order_is_a_transpose():
    moving = model(
        """network (float[3, 4] x) => (float[4, 3] y) {
             y = Einsum <equation = "ij -> ji"> (x)
           }"""
    )
    assert counted(moving) == Moves(1, 0, 2 * 4 * 12, 0)


@pytest.mark.parametrize("equation", ["ij->i", "ij,kj->ik", "ij"])
def test_negative_an_einsum_that_computes_is_no_transpose(equation: str):
    operands = "x, x" if "," in equation else "x"
    computing = model(
        f"""network (float[3, 4] x) => (float y) {{
             z = Einsum <equation = "{equation}"> ({operands})
             y = ReduceSum <keepdims = 0> (z)
           }}"""
    )
    assert counted(computing) == Moves(0, 0, 0, 0)


def test_transposes_of_branches_are_counted_and_said_to_have_no_bytes():
    branching = model(
        """network (float[3, 4] x, bool flag) => (float[r, c] y) {
             y = If (flag) <
               then_branch = turned () => (float[4, 3] t) { t = Transpose <perm = [1, 0]> (x) },
               else_branch = straight () => (float[3, 4] e) { e = Relu (x) }>
           }"""
    )
    assert counted(branching) == Moves(1, 0, 0, 1)


def test_reorders_of_onnx_runtime_are_counted_with_the_pads_of_their_blocks(tmp_path: Path):
    plain = model(
        """network (float[2, 16, 6, 9] x) => (float[2, 20, 6, 9] y) {
             y = Conv <pads = [1, 1, 1, 1]> (x, w)
           }""",
        w=(20, 16, 3, 3),
    )
    block = runtime_block()
    blocked = _optimized(plain, "ort-all", tmp_path)
    if not any(node.op_type == "ReorderOutput" for node in blocked.graph.node):
        pytest.skip("ONNX Runtime has no blocked convolutions on this machine")
    kinds = [node.op_type for node in blocked.graph.node]
    places, padded = 4 * 2 * 6 * 9, -(-20 // block) * block
    inward = places * (16 + 16) if "ReorderInput" in kinds else 0
    reorders = kinds.count("ReorderInput") + kinds.count("ReorderOutput")
    assert counted(blocked, block) == Moves(0, reorders, inward + places * (20 + padded), 0)


def _optimized(before: Any, tool: str, folder: Path) -> Any:
    save(before, folder / "before.onnx")
    TOOLS[tool].run(folder / "before.onnx", folder / "after.onnx")
    return load(folder / "after.onnx")


def test_outputs_of_models_that_compute_the_same_do_not_differ():
    one, other = picture(), picture(transposes=False)
    feeds = random_feeds(one.graph)
    assert largest_difference(count_moves(one, feeds, 16)[1], count_moves(other, feeds, 16)[1]) == 0


@pytest.mark.parametrize(
    "found",
    [
        {"z": np.array([1, 1, 1, -np.inf], np.float32)},
        {"y": np.array([1, 1, 1, -np.inf, 1], np.float32)},
        {"y": np.array([1, 1, 1, -np.inf], np.float64)},
        {"y": np.array([1, 1, 1, 1], np.float32)},
        {"y": np.array([1, 1, np.nan, -np.inf], np.float32)},
        {"y": np.array([1, 1, 1, np.inf], np.float32)},
    ],
)
def test_negative_other_names_shapes_types_nans_and_infinities_differ_by_any_tolerance(found: dict[str, Any]):
    assert largest_difference(found, {"y": np.array([1, 1, 1, -np.inf], np.float32)}) == np.inf


def test_a_difference_is_relative_to_the_largest_number():
    want = {"y": np.array([-8.0, 1.0, np.inf]), "z": np.array([3])}
    assert largest_difference({"y": np.array([-8.0, 1.5, np.inf]), "z": np.array([3])}, want) == 0.5 / 8
