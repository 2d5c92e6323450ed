"""Which loop has the lanes, how many there are, and which of the last ones are masked."""

from __future__ import annotations

import numpy as np
import pytest

from layout_ir.backends.llvm.emission.llvm_builder import Builder
from layout_ir.backends.llvm.loops.lane_loops import LaneLoops, first_lanes, power_of_two
from layout_ir.backends.llvm.loops.loop_nest import Loop
from layout_ir.backends.llvm.loops.loop_program import LoopTensor
from layout_ir.backends.llvm.loops.tensor_access import TensorAccess
from layout_ir.backends.llvm.machine.known_cpus import machine_named


def _loops(tensors: int, natural: int = 8) -> LaneLoops:
    offsets = (np.zeros((1, 1), np.int64),)
    access = TensorAccess(Builder(), machine_named("haswell"), [LoopTensor(offsets, 0, "f32")] * tensors)
    return LaneLoops(access, natural)


def test_lanes_lie_where_most_tensors_are_dense():
    strided, dense = Loop(64, (64, 64)), Loop(64, (1, 1))
    assert _loops(2).best([strided, dense]) == 1
    assert _loops(2).best([dense, strided]) == 0


def test_negative_a_dense_loop_of_one_iteration_has_no_use_for_lanes():
    assert _loops(1).best([Loop(2, (1,)), Loop(64, (2,))]) == 0
    assert _loops(1).best([Loop(1, (1,)), Loop(64, (1,))]) == 1
    assert _loops(1).best([]) == -1


@pytest.mark.parametrize(("count", "power"), [(0, 1), (1, 1), (2, 2), (3, 4), (16, 16), (17, 32)])
def test_lanes_are_a_power_of_two(count: int, power: int):
    assert power_of_two(count) == power


def test_the_first_lanes_are_flags_and_all_lanes_need_none():
    assert first_lanes(4, 3) == "<i1 true, i1 true, i1 true, i1 false>"
    assert first_lanes(4, 4) == ""
