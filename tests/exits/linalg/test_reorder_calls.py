"""Reorders as calls: the compiled function gets the addresses of source and destination, and moves the same bytes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import UnitAttr
from xdsl.dialects.func import CallOp, FuncOp

from layout_ir.algebra.format import Format
from layout_ir.api.execute import run
from layout_ir.backends.llvm.aot.object_file import compile_ahead
from layout_ir.backends.llvm.machine.machine import host
from layout_ir.passes.convert_to_linalg import convert_to_linalg
from tests.exits.linalg.mlir_tools import execute, tool
from tests.programs import parse

PROGRAM = """
func.func @main(%x: tensor<2x17x5x4xf32>) -> (tensor<2x17x5x4xf32>, tensor<2x17x5x4xf32>) {
  %a = layout.reorder %x : tensor<2x17x5x4xf32> -> tensor<2x17x5x4xf32, #layout.tag<nChw8c>>
  %b = nn.relu %a : tensor<2x17x5x4xf32, #layout.tag<nChw8c>>
  %c = layout.reorder %b : tensor<2x17x5x4xf32, #layout.tag<nChw8c>> -> tensor<2x17x5x4xf32>
  %d = layout.reorder %c : tensor<2x17x5x4xf32> -> tensor<2x17x5x4xf32, #layout.tag<nChw8c>>
  %e = layout.reorder %d : tensor<2x17x5x4xf32, #layout.tag<nChw8c>> -> tensor<2x17x5x4xf32>
  func.return %c, %e : tensor<2x17x5x4xf32>, tensor<2x17x5x4xf32>
}
"""


def test_equal_reorders_are_calls_of_one_function_by_address():
    module = parse(PROGRAM)
    convert_to_linalg(module, "call")
    module.verify()
    declared = [op for op in module.walk() if isinstance(op, FuncOp) and not op.body.blocks]
    calls = [op for op in module.walk() if isinstance(op, CallOp)]
    assert len(declared) == 2 and len(calls) == 4
    assert {call.callee.string_value() for call in calls} == {op.sym_name.data for op in declared}
    for op in declared:
        assert op.attributes["llvm.bareptr"] == UnitAttr()
        assert list(map(str, op.function_type.inputs)) in (
            ["memref<2x17x5x4xf32>", "memref<2x3x5x4x8xf32>"],
            ["memref<2x3x5x4x8xf32>", "memref<2x17x5x4xf32>"],
        )


def test_compiled_functions_are_called_and_move_the_same_bytes(tmp_path: Path):
    module = parse(PROGRAM)
    x = np.random.default_rng(0).standard_normal((2, 17, 5, 4)).astype(np.float32)
    want = run(module, [x], reorders="reference")
    convert_to_linalg(module, "call")
    formats = [Format.from_tag(tag).bind(x.shape) for tag in ("nchw", "nChw8c")]
    objects: list[Path] = []
    for op in module.walk():
        if isinstance(op, FuncOp) and not op.body.blocks:
            packs = str(op.function_type.inputs.data[0]) == "memref<2x17x5x4xf32>"
            src, dst = formats if packs else formats[::-1]
            objects.append(tmp_path / f"{op.sym_name.data}.o")
            objects[-1].write_bytes(compile_ahead(src, dst, "f32", host(), op.sym_name.data).object_file())
    library = tmp_path / "libreorders.so"
    tool("mlir-opt")
    linked = subprocess.run(
        ["cc", "-shared", "-o", library, *objects], capture_output=True, text=True, check=False
    )
    assert linked.returncode == 0, linked.stderr
    got = execute(module, [x], tmp_path, libraries=[library])
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)


def test_negative_a_program_without_reorders_declares_nothing():
    module = parse(
        "func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {\n"
        "%y = nn.relu %x : tensor<2x3xf32>\nfunc.return %y : tensor<2x3xf32> }"
    )
    convert_to_linalg(module, "call")
    assert not [op for op in module.walk() if isinstance(op, CallOp)]


@pytest.mark.parametrize("reorders", ["calls", ""])
def test_negative_another_way_to_write_reorders_is_unknown(reorders: str):
    with pytest.raises(ValueError, match="is unknown, expected one of ops, pack, call"):
        convert_to_linalg(parse(PROGRAM), reorders)
