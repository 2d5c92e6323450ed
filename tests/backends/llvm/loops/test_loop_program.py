"""The nests over the pads of a result."""

from __future__ import annotations

import numpy as np

from layout_ir.backends.llvm.loops.loop_program import pad_nests


def test_pads_are_visited_once_and_elements_never():
    offsets = [np.arange(4)[None] * 5, np.arange(5)[None]]
    places = np.zeros(20, int)
    for nest in pad_nests(offsets, (1, 0), (2, 3), 0):
        at = np.array([nest.starts[0]])
        for loop in nest.loops:
            [step] = loop.steps
            assert isinstance(step, int)
            at = (at[:, None] + np.arange(loop.count) * step).ravel()
        np.add.at(places, at, 1)
    inside = np.zeros((4, 5), bool)
    inside[1:3, 0:3] = True
    np.testing.assert_array_equal(places.reshape(4, 5), ~inside)
