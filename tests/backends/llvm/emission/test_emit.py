"""Code against what plans mean, and what code is remembered by."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import numpy as np
import pytest

from layout_ir.backends.llvm.emission.emit import emit_module, version
from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.llvm.planning import planner
from layout_ir.backends.llvm.runtime.compiled_plan import load
from layout_ir.dialects.kernel import plan
from layout_ir.dialects.kernel.plan_parser import parse_plan
from tests.plan_evaluation import Moved, evaluate

STEPS = {
    "backwards": "for 4 src -16 dst 16 elements 4 for 2 src 128 dst 4 parallel",
    "copy": "for 2 src 1024 dst 1024 parallel prefetch copy 64 for 4 src 64 dst 128 streaming",
    "long copy": "copy 1100 for 2 src 1200 dst 1300 parallel",
    "table": "table <0:0, 1024:64, 64:1024> parallel copy 16",
    "pads of a tile": "for 3 src 64 dst 256 parallel tile 4 rows 4 by 256 cols 4 by 16 "
    "schedule <cols 4, rows 4, cols 4> valid 3 pad 255",
    "positions": "positions 2 to 11 <1: for 4 src 4 dst 4, 4: table <0:0, 64:16, 16:64>> copy 4 parallel",
    "deinterleave": "deinterleave 4 ways 3 of 18 by 96 block 16 parallel",
    "interleave": "interleave 2 ways 4 of 35 by 96 block 16 parallel",
    "fill": "fill 32 with 1077936128 width 4 for 3 src 0 dst 64 parallel",
    "padded copy": "padded_copy 20 of 64 with 258 width 2 for 3 src 32 dst 64 parallel",
    "fold": "tile 4 rows 16 by 576 cols 144 by 128 fold 9 by 2048 schedule <cols 16, rows 16> square "
    "prefetch_distance 256 parallel",
    "tile moved back": "tile 2 rows 21 by 80 cols 37 by 48 schedule <rows 8, cols 8> parallel",
    "staged": "staged 1024 streaming parallel { step src 0 dst 0 tile 4 rows 16 by 64 cols 16 by 64 "
    "schedule <rows 16, cols 16> square }",
    "staged rows": "staged 128 rows 16 by 260 row_stride 196 iterations 2 src 2048 streaming parallel "
    "{ step src 0 dst 0 tile 4 rows 32 by 64 cols 16 by 196 schedule <rows 16, cols 16> square }",
}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("at", [0, 12])
def test_code_does_what_the_plan_says(name: str, parts: int, at: int):
    """Written by hand, so that every field matters: in plans of layouts many are what others make them."""
    value = parse_plan(f"width 2 src 40000 dst 40000 step src 64 dst 128 {STEPS[name]}")
    src = np.random.default_rng(parts).integers(0, 256, 40000, np.uint8)
    room = np.full(40000 + 192, 0xA5, np.uint8)
    begin = -room.ctypes.data % 64 + at
    wanted = room.copy()
    for place, what in evaluate(value).items():
        wanted[begin + place] = src[what.place] if isinstance(what, Moved) else what.byte
    kernel = load(value, host())
    for part in range(parts):
        kernel.run_part(src.ctypes.data, room.ctypes.data + begin, part, parts)
    assert np.array_equal(room, wanted)


@pytest.mark.parametrize("prefetch", ["", " prefetch"])
@pytest.mark.parametrize(
    "staged, dst, row", [("staged 512", 512, 128), ("staged 128 rows 4 by 1024 row_stride 192", 128, 192)]
)
def test_what_comes_next_is_prefetched_over_every_kind_of_buffer(
    staged: str, dst: int, row: int, prefetch: str
):
    text = f"""width 1 src 4096 dst 4096
step src 0 dst 0
  for 8 src 512 dst {dst}{prefetch}
    {staged} streaming {{
      step src 0 dst 0
        copy 128 for 4 src 128 dst {row}
    }}
"""
    module = emit_module({"reorder": parse_plan(text)}, host())
    assert ("@llvm.prefetch" in module) == bool(prefetch)


def test_a_buffer_begins_with_a_page():
    value = parse_plan(f"width 4 src 40000 dst 40000 step src 64 dst 128 {STEPS['staged']}")
    assert re.search(r"%stage = alloca \[\d+ x i8\], align 4096\n", emit_module({"reorder": value}, host()))


def test_code_is_remembered_for_the_sources_of_plans_and_of_what_emits_them(monkeypatch: pytest.MonkeyPatch):
    read: list[Path] = []
    bytes_of = Path.read_bytes

    def remembered(path: Path) -> bytes:
        read.append(path.resolve())
        return bytes_of(path)

    monkeypatch.setattr(Path, "read_bytes", remembered)
    inspect.unwrap(version)()
    for module in (plan, planner):
        assert Path(str(module.__file__)).resolve() in read
