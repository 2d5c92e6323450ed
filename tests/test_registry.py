"""No pass that is registered writes out what a constant says in one number."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from layout_ir.registry import PASSES
from tests.processes import run_python

N = "1048576x1048576"
ODD = "1000003x1048576"
"""2^40 elements, and nearly so, in rows that blocks do not divide."""

PROGRAMS = {
    "ops of MLIR": f"""
      func.func @main(%x: tensor<{N}xf32>) -> tensor<{N}xf32> {{
        %c = arith.constant dense<0.5> : tensor<{N}xf32>
        %h = arith.constant dense<"0x0000C07F"> : tensor<{N}xf32>
        %a = arith.addf %x, %c : tensor<{N}xf32>
        %y = arith.addf %a, %h : tensor<{N}xf32>
        %e = tensor.empty() : tensor<{N}xf32>
        %z = linalg.generic {{indexing_maps = [affine_map<(a, b) -> (b, a)>, affine_map<(a, b) -> (a, b)>,
            affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}}
            ins(%c, %y : tensor<{N}xf32>, tensor<{N}xf32>) outs(%e : tensor<{N}xf32>) {{
        ^bb0(%p: f32, %q: f32, %o: f32):
          %r = arith.mulf %p, %q : f32
          linalg.yield %r : f32
        }} -> tensor<{N}xf32>
        func.return %z : tensor<{N}xf32>
      }}""",
    "reorders into pads": f"""
      #y = #layout.format<(a, b) : [a, b, a:16, b:16], pad = zero>
      #x = #layout.format<(a, b) : [b, a, a:8], pad = 3.0>
      func.func @main(%x: tensor<{ODD}xf32, #y>) -> (tensor<{ODD}xf32, #y>, tensor<{ODD}xf32, #x>, tensor<{ODD}xf32>) {{
        %k = nn.constant dense<0.5> : tensor<{ODD}xf32>
        %d = nn.constant dense<3.0> : tensor<{ODD}xf32>
        %c = layout.reorder %k : tensor<{ODD}xf32> -> tensor<{ODD}xf32, #y>
        %m = layout.reorder %d : tensor<{ODD}xf32> -> tensor<{ODD}xf32, #x>
        %o = nn.add %k, %d : tensor<{ODD}xf32>
        func.return %c, %m, %o : tensor<{ODD}xf32, #y>, tensor<{ODD}xf32, #x>, tensor<{ODD}xf32>
      }}""",
    "weights": """
      func.func @main(%x: tensor<1x1048576x4x4xf32>) -> tensor<1x1048572x2x2xf32> {
        %w = nn.constant dense<0.5> : tensor<1048572x1048576x3x3xf32>
        %b = nn.constant dense<1.5> : tensor<1048572x1x1xf32>
        %y = nn.conv %x, %w
          : (tensor<1x1048576x4x4xf32>, tensor<1048572x1048576x3x3xf32>) -> tensor<1x1048572x2x2xf32>
        %z = nn.add %y, %b : (tensor<1x1048572x2x2xf32>, tensor<1048572x1x1xf32>) -> tensor<1x1048572x2x2xf32>
        func.return %z : tensor<1x1048572x2x2xf32>
      }""",
    "partial tiles": """
      func.func @main(%x: tensor<65537x1048576x16xf32>) -> tensor<65537x1048576x16xf32> {
        %e = tensor.empty() : tensor<1048577x1048576xf32>
        %u = linalg.unpack %x inner_dims_pos = [0] inner_tiles = [16] into %e
          : tensor<65537x1048576x16xf32> -> tensor<1048577x1048576xf32>
        %c = arith.constant dense<100.0> : tensor<1048577x1048576xf32>
        %d = arith.divf %c, %u : tensor<1048577x1048576xf32>
        %z = arith.constant 0.0 : f32
        %o = tensor.empty() : tensor<65537x1048576x16xf32>
        %p = linalg.pack %d padding_value(%z : f32) inner_dims_pos = [0] inner_tiles = [16] into %o
          : tensor<1048577x1048576xf32> -> tensor<65537x1048576x16xf32>
        func.return %p : tensor<65537x1048576x16xf32>
      }""",
}

RUN = """
import resource, sys
from layout_ir.tools.layout_opt import main

resource.setrlimit(resource.RLIMIT_AS, (4 << 30, resource.RLIM_INFINITY))
for arguments in sys.stdin.read().splitlines():
    status = main(arguments.split("\\t"))
    print(">>>", status, arguments, flush=True)
"""
"""Runs layout-opt on each line of arguments, in an address space in which no large constant has room."""

CHOSEN = "layout-open,layout-optimize{target=blocked8}"


@pytest.mark.skipif(sys.platform != "linux", reason="the address space is limited as Linux does it")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_constant_of_one_number_takes_no_memory_in_any_pass(name: str, tmp_path: Path):
    program = tmp_path / "program.mlir"
    program.write_text(PROGRAMS[name])
    variants = {each: [each] for each in PASSES}
    variants["convert-layout-to-linalg"] += [
        f"convert-layout-to-linalg{{reorders={r}}}" for r in ("pack", "call")
    ]
    pipelines = [p for each in variants.values() for p in each]
    pipelines += [f"{CHOSEN},{p}" for each in variants.values() for p in each if p.startswith("convert")]
    lines = "\n".join(f"{program}\t-p\t{pipeline}" for pipeline in pipelines)
    done = run_python("-c", RUN, stdin=lines)
    assert "MemoryError" not in done.stderr
    ended = [line for line in done.stdout.splitlines() if line.startswith(">>>")]
    assert len(ended) == len(pipelines)
    # What is refused is refused for another reason: ops of MLIR that were packed by nobody have no form as loops.
    refused = [line for line in ended if not line.startswith(">>> 0")]
    assert all("loops" in line and CHOSEN not in line for line in refused), done.stderr
    assert len(done.stdout) < 100_000
