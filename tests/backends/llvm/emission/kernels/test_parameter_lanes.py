"""Every lane gets the parameter of its channel, however channels run over the lanes."""

from __future__ import annotations

import numpy as np
import pytest

from layout_ir.backends.llvm.emission.kernels.parameter_lanes import ParameterLanes
from layout_ir.backends.llvm.emission.llvm_builder import Builder
from layout_ir.elements.quantization import Conversion
from tests.backends.llvm.emission.bodies import run

CHANNELS = [
    [0] * 8,
    list(range(8)),
    [0, 0, 0, 0, 1, 1, 1, 1],
    [0, 1, 2, 3, 0, 1, 2, 3],
    [3, 1, 4, 1, 5, 9, 2, 6],
    [0, 1, 2],
    [0, 1, 2] * 4,
    [5],
    [k // 3 for k in range(12)],
]
NUMBERS = tuple(float(2 * k + 1) for k in range(16))


def _lanes(conversion: Conversion, name: str, channels: list[int], memory: np.ndarray) -> np.ndarray:
    """The lanes of one parameter, from channel 4 on; arrays of a call are in `memory`."""
    b = Builder()
    parameters = ParameterLanes(b, conversion, {name: "%src"})
    lanes = parameters.lanes(b.put("add i64 0, 4"), channels)
    assert lanes.keys() == conversion.parameters.keys()
    b.store(f"<{len(channels)} x {parameters.element}>", lanes[name], "%dst")
    found = np.zeros(len(channels), np.float32 if parameters.element == "float" else np.float64)
    assert found.itemsize == parameters.width
    run(b, memory, found)
    return found


@pytest.mark.parametrize("channels", CHANNELS, ids=str)
@pytest.mark.parametrize("dtype", ["i8", "f64"])
def test_lanes_hold_the_numbers_of_their_channels(channels: list[int], dtype: str):
    wanted = np.array(NUMBERS)[np.array(channels) + 4]
    constant = Conversion("f32", dtype, dst_scale=NUMBERS, dim=0, channels=16)
    memory = np.array(NUMBERS, np.float64 if dtype == "f64" else np.float32)
    assert _lanes(constant, "dst_scale", channels, memory[:0]).tolist() == wanted.tolist()
    of_call = Conversion("f32", dtype, dst_scale="channel", dim=0, channels=16)
    assert _lanes(of_call, "dst_scale", channels, memory).tolist() == wanted.tolist()


def test_negative_a_number_of_the_whole_tensor_is_that_of_every_lane():
    memory = np.array([7.5, 1.0, 2.0], np.float32)
    assert (
        _lanes(Conversion("f32", "i8", dst_scale="tensor"), "dst_scale", [0, 1, 2, 3], memory).tolist()
        == [7.5] * 4
    )
    assert (
        _lanes(Conversion("f32", "i8", dst_scale=0.1), "dst_scale", [0, 9], memory).tolist()
        == [np.float32(0.1)] * 2
    )


def test_neighbours_and_equal_lanes_are_loaded_at_once():
    def loads(channels: list[int]) -> int:
        b = Builder()
        conversion = Conversion("f32", "i8", dst_scale=NUMBERS, dim=0, channels=16)
        ParameterLanes(b, conversion, {}).lanes("%part", channels)
        return sum(" load " in line for line in b.lines)

    assert [loads(channels) for channels in CHANNELS[:4]] == [1, 1, 2, 1]
    assert loads(CHANNELS[4]) == len(set(CHANNELS[4]))
