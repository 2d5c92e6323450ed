"""Reorders as an object file by one call: of a program, or by name."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import layout_ir as li
from layout_ir.backends.llvm.machine.known_cpus import known_cpus

NCHW = li.TensorDesc((2, 17, 5, 4), "f32", "nchw")
BLOCKED = li.TensorDesc((2, 17, 5, 4), "f32", "nChw8c")
BYTES = li.TensorDesc((2, 17, 5, 4), "i8", "nhwc", scale=0.05, zero_point=3)


def test_pairs_become_functions_of_their_names(tmp_path: Path):
    if shutil.which("cc") is None:
        pytest.skip("no C compiler (cc)")
    library = li.compile_object({"to_blocks": (NCHW, BLOCKED), "to_bytes": (NCHW, BYTES)})
    assert [s for s in library.symbols if not s.endswith("_part")] == ["to_blocks", "to_bytes"]
    (tmp_path / "k.o").write_bytes(library.object)
    subprocess.run(["cc", "-shared", "k.o", "-o", "k.so"], cwd=tmp_path, check=True)
    loaded = ctypes.CDLL(str(tmp_path / "k.so"))
    x = np.random.default_rng(0).standard_normal((2, 17, 5, 4)).astype(np.float32)
    blocked, packed = np.empty((2, 3, 5, 4, 8), np.float32), np.empty((2, 5, 4, 17), np.int8)
    loaded.to_blocks(x.ctypes, blocked.ctypes)
    loaded.to_bytes(x.ctypes, packed.ctypes)
    assert np.array_equal(blocked, li.reorder(x, "nchw", "nChw8c"))
    assert np.array_equal(packed, li.reorder(x, "nchw", "nhwc", dtype="i8", scale=0.05, zero_point=3))
    exact = np.rint(x.astype(np.float64) / 0.05 + 3).clip(-128, 127).transpose(0, 2, 3, 1)
    assert np.abs(packed - exact).max() <= 1 and np.mean(packed == exact) > 0.99


def test_it_is_made_for_any_machine():
    for target in ("aarch64", "riscv64"):
        library = li.compile_object({"move": (NCHW, BLOCKED)}, target=target)
        assert library.object[:4] == b"\x7fELF" and known_cpus()[target].machine.triple in library.header
    wide = li.compile_object({"move": (NCHW, BLOCKED)}, target="x86-64-v3", features="+avx512f")
    assert "avx512f" in wide.needs and "avx512f" in wide.header


def test_bare_layouts_have_elements_of_f32_and_open_extents_are_arguments():
    sides = [li.Format.from_tag(tag).bind((2, 17, 5, 4)) for tag in ("nchw", "nhwc")]
    assert "elements f32" in li.compile_object({"move": (sides[0], sides[1])}).header
    open_ = [li.TensorDesc((None, 3, None, None), "f32", tag) for tag in ("nchw", "nhwc")]
    assert (
        "const int64_t *extents" in li.compile_object({"move": (open_[0], open_[1])}, target="aarch64").header
    )


def test_a_program_is_compiled_with_the_names_of_its_reorders():
    module = li.parse(
        "func.func @f(%x: tensor<2x3xf32>) {\n"
        "  %y = layout.reorder %x : tensor<2x3xf32> -> tensor<2x3xf32, #layout.tag<ba>>\n  func.return\n}"
    )
    library = li.compile_object(module, target="aarch64", prefix="net", name="net_reorders")
    assert library.symbols[0] == "net_ab_to_ba_2x3_f32" and "LAYOUT_IR_NET_REORDERS_H" in library.header


@pytest.mark.parametrize(
    ("reorders", "options", "message"),
    [
        ({"for": (NCHW, BLOCKED)}, {}, "reorder 'for': 'for' is taken by C"),
        ({"move": (NCHW, li.TensorDesc((2, 3), "f32", "ab"))}, {}, "reorder 'move': a reorder keeps the shape"),
        ({"move": (NCHW,)}, {}, "'move': a reorder is a pair"),
        ({"move": "nchw"}, {}, "'move': a reorder is a pair"),
        ({5: (NCHW, BLOCKED)}, {}, "5: a reorder is a pair"),
        ({}, {}, "there is no reorder to compile"),
        ([(NCHW, BLOCKED)], {}, "a program or a dict of .*, not of type list"),
        ({"move": (NCHW, BLOCKED)}, {"target": "z80"}, "unknown cpu 'z80'"),
        ({"move": (NCHW, BLOCKED)}, {"target": "aarch64", "features": "+avx2"}, "unknown feature 'avx2' of aarch64"),
    ],
)  # fmt: skip
def test_negative_what_cannot_be_compiled_is_said(reorders: Any, options: dict[str, Any], message: str):
    with pytest.raises(li.LayoutError, match=message):
        li.compile_object(reorders, **options)


def test_negative_half_a_result_is_never_written(tmp_path: Path):
    library = li.compile_object({"move": (NCHW, BLOCKED)}, target="aarch64")
    with pytest.raises(OSError, match="No such file"):
        library.write(str(tmp_path / "k.o"), str(tmp_path / "none" / "k.h"))
    assert list(tmp_path.iterdir()) == []
