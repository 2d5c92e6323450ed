"""What import computes is bounded: small files that ask for terabytes stay programs, or are refused, at once."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import onnx
import pytest

from layout_ir.dialects import nn
from layout_ir.frontends.onnx import from_onnx
from layout_ir.frontends.onnx.budget import FLOOR_BYTES, PER_NODE, Budget
from tests.frontends.onnx.models import constants_of, ints, main_of, model, node, ops_of

ROW = np.arange(100_000, dtype=np.float32)


def names(source: onnx.ModelProto) -> list[str]:
    return [op.name for op in ops_of(source)]


def _name_of_last(value: object) -> str:
    """What a list of nodes is called in the name of its test."""
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return "" if not items or isinstance(items[0], str) else str(items[-1].op_type)


@pytest.mark.parametrize(
    ("nodes", "constants", "ops"),
    [
        (
            [node("ConstantOfShape", "s", "a"), node("ConstantOfShape", "s", "b"), node("MatMul", "a b")],
            {"s": ints(20_000, 20_000)},
            ["nn.matmul"],
        ),
        ([node("Expand", "a s")], {"a": ROW[:3], "s": ints(2**33, 3)}, ["nn.expand"]),
        ([node("Add", "a b")], {"a": ROW.reshape(-1, 1), "b": ROW}, ["nn.add"]),
        ([node("Gather", "a i")], {"a": ROW.reshape(1, -1), "i": np.zeros(10_000, np.int64)}, ["nn.gather"]),
        ([node("EyeLike", "a")], {"a": np.zeros((1, 1), np.float32)}, []),
        ([node("ConstantOfShape", "s", "a"), node("EyeLike", "a")], {"s": ints(2**17, 2**17)}, ["nn.opaque"]),
        ([node("Less", "a b")], {"a": ROW.reshape(-1, 1), "b": ROW}, ["nn.less"]),
        ([node("Range", "z l o")], {"z": np.array(0), "l": np.array(2**50), "o": np.array(1)}, ["nn.opaque"]),
        ([node("Tile", "a s")], {"a": ROW, "s": ints(2**40)}, ["nn.tile"]),
        ([node("OneHot", "i d v")], {"i": ints(1), "d": np.array(2**40), "v": ROW[:2]}, ["nn.opaque"]),
    ],
    ids=_name_of_last,
)
def test_what_is_too_large_stays_an_op(nodes: Any, constants: Any, ops: list[str]):
    assert names(model(nodes, {}, constants=constants)) == ops


def test_doubling_stops_where_the_budget_ends():
    nodes = [node("Concat", f"c{k} c{k}", f"c{k + 1}", axis=0) for k in range(45)]
    source = model(nodes, {}, ["c45"], {"c0": ROW[:4]})
    left = names(source)
    assert set(left) == {"nn.concat"} and 45 - len(left) == (FLOOR_BYTES // PER_NODE // 16).bit_length() - 1


def test_many_views_of_one_constant_are_not_all_written_down():
    weight = np.arange(250_000, dtype=np.float32).reshape(500, 500)
    count = 400
    nodes = [node("Transpose", "w", f"t{k}") for k in range(count)]
    nodes += [node("Add", "x t0", "a0"), *(node("Add", f"a{k - 1} t{k}", f"a{k}") for k in range(1, count))]
    module = from_onnx(model(nodes, {"x": (500, 500)}, [f"a{count - 1}"], {"w": weight}))
    total = sum(len(op.literal.data.data) for op in constants_of(module))
    assert total <= FLOOR_BYTES + 9 * weight.nbytes
    assert sum(op.name == "layout.permute" for op in main_of(module).body.block.ops) > 100


def test_normalizations_of_one_weight_are_folded_as_far_as_the_budget_goes():
    weight = np.ones((64, 64, 10, 10), np.float32) + np.arange(10, dtype=np.float32)
    count = 300
    parameters = {name: np.arange(1, 65, dtype=np.float32) for name in "smvb"}
    nodes: list[Any] = []
    for k in range(count):
        nodes += [
            node("Conv", f"{'x' if not k else f'n{k - 1}'} w", f"c{k}", auto_pad="SAME_UPPER"),
            node("BatchNormalization", f"c{k} s b m v", f"n{k}"),
        ]
    module = from_onnx(model(nodes, {"x": (1, 64, 4, 4)}, [f"n{count - 1}"], {"w": weight, **parameters}))
    assert sum(len(op.literal.data.data) for op in constants_of(module)) <= FLOOR_BYTES + 9 * weight.nbytes
    kinds = [type(op) for op in main_of(module).body.block.ops]
    assert 0 < kinds.count(nn.BatchNormOp) < count


def test_weights_allow_as_much_as_they_hold():
    budget = Budget()
    assert budget.spend(FLOOR_BYTES, 0) is not None
    budget.grow(FLOOR_BYTES)
    assert budget.spend(FLOOR_BYTES, 0) is None


def test_negative_budget_that_refuses_takes_nothing():
    budget = Budget()
    part = FLOOR_BYTES // PER_NODE
    assert (
        budget.spend(part + 1, 0)
        == f"takes {part + 1} bytes, at most {part} are spent at import on a node of this model"
    )
    assert [budget.spend(part, 0) for _ in range(PER_NODE)] == [None] * PER_NODE
    assert "only 0 of the" in str(budget.spend(1, 0))
