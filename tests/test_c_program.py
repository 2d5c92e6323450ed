"""The example of a C program does what it says: built with the commands in its head, it prints what NumPy computes."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import layout_ir as li
from layout_ir.tools.layout_ir import main

FOLDER = Path(__file__).parents[1] / "examples" / "c_program"
SOURCE = (FOLDER / "main.c").read_text(encoding="utf-8")


def test_the_program_prints_what_numpy_computes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    if shutil.which("cc") is None:
        pytest.skip("no C compiler (cc)")
    shutil.copytree(FOLDER, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    ours, compiler, program = re.findall(r"^ \*   (.+)$", SOURCE, re.MULTILINE)
    name, *args = shlex.split(ours)
    assert (name, main(args)) == ("layout-ir", 0)
    subprocess.run([*shlex.split(compiler), "-Wall", "-Wextra", "-Werror"], check=True)
    subprocess.run(program, shell=True, check=True)
    x = np.arange(2 * 17 * 5 * 4, dtype=np.float32).reshape(2, 17, 5, 4)
    y = np.float32(0.5) * (np.arange(x.size) % 7).astype(np.float32).reshape(x.shape)
    assert (tmp_path / "sum.f32").read_bytes() == (x + y).transpose(0, 2, 3, 1).tobytes()


def test_its_address_formula_is_that_of_the_layout():
    layout = li.Format.from_tag("nChw8c").bind((2, 17, 5, 4))
    assert f"#define BLOCKED(n, c, h, w) ({layout.expression(('(n)', '(c)', '(h)', '(w)'))})" in SOURCE


def test_the_program_means_what_the_network_does():
    x, y = np.random.default_rng(0).standard_normal((2, 2, 17, 5, 4)).astype(np.float32)
    total, _ = li.run(li.parse(FOLDER / "network.mlir"), [x, y])
    assert np.array_equal(total, x + y)
