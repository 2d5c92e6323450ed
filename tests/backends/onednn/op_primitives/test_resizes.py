"""Resizing by the library, and what is left to loops."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from layout_ir.dialects import nn
from tests.backends.onednn.small_programs import Program, compare, needs_library, numbers
from tests.processes import run_python

pytestmark = needs_library


def test_a_picture_in_blocks_whose_pads_are_undefined_is_resized():
    program = Program((1, 21, 6, 5))
    x = program.argument(0, "(n, c, h, w) : [n, c, h, w, c:16]")
    y = program.add(nn.ResizeOp, x, sizes=(1, 21, 12, 15), mode="linear", format="nChw16c")
    compare(program.module(y), numbers((1, 21, 6, 5)))


@pytest.mark.parametrize("layout", ["nchw", "nhwc", "nChw16c"])
@pytest.mark.parametrize(
    "attributes",
    [
        {"scales": (1.0, 1.0, 2.0, 2.0), "coordinates": "asymmetric", "nearest_mode": "floor"},
        {"scales": (1.0, 1.0, 3.0, 2.0)},
        {"sizes": (2, 16, 9, 7), "mode": "linear"},
    ],
)
def test_a_resize(layout: str, attributes: dict[str, Any]):
    program = Program((2, 16, 4, 5))
    y = program.add(nn.ResizeOp, program.argument(0, layout), format=layout, **attributes)
    compare(program.module(y), numbers((2, 16, 4, 5)))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="pages are protected by mprotect")
def test_a_nearest_resize_reads_nothing_outside_of_its_operand():
    """5 MB between pages that nobody may read, in a process of its own, since what reads there ends it."""
    code = """if True:
        import ctypes, mmap
        import numpy as np
        import layout_ir as li
        from tests.backends.onednn.small_programs import Program
        from layout_ir.dialects import nn

        shape = (5, 64, 64, 64)
        program = Program(shape)
        y = program.add(nn.ResizeOp, program.argument(0), scales=(1.0, 1.0, 2.0, 2.0), coordinates="asymmetric",
                        nearest_mode="floor")
        run = li.compile(program.module(y))
        page, size = mmap.PAGESIZE, 4 * int(np.prod(shape))
        memory = mmap.mmap(-1, size + 2 * page)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        x = np.frombuffer(memory, np.float32, size // 4, page).reshape(shape)
        x[...] = np.random.default_rng(0).random(shape, np.float32)
        for guard in (start, start + page + size):
            assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(page), 0) == 0
        (found,) = run([x])
        assert np.array_equal(found, x.repeat(2, axis=2).repeat(2, axis=3))
    """
    run_python("-c", code)


def test_a_resize_by_another_rule_of_coordinates_runs_by_a_loop():
    program = Program((1, 2, 4, 4))
    y = program.add(
        nn.ResizeOp, program.argument(0), sizes=(1, 2, 7, 7), mode="linear", coordinates="align_corners"
    )
    compare(program.module(y), numbers((1, 2, 4, 4)))


def test_negative_a_volume_by_another_rule_of_coordinates_runs_by_the_reference():
    program = Program((1, 2, 3, 4, 4))
    y = program.add(
        nn.ResizeOp, program.argument(0), sizes=(1, 2, 5, 7, 7), mode="linear", coordinates="align_corners"
    )
    compare(program.module(y), numbers((1, 2, 3, 4, 4)), fallbacks={"nn.resize": 1})
