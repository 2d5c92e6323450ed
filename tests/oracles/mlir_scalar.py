"""What the stock mlir-opt and mlir-runner compute for scalar ops of arith and math, many values in one run.

Values travel as bit patterns in 64-bit integers, so that NaNs, signed zeros and subnormals arrive as they are. They
are loaded at run time: nothing is folded, and every op is executed as MLIR lowers it to LLVM.
"""

from __future__ import annotations

import platform
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.oracles.mlir import tools

_LOWER = (
    "builtin.module(func.func(arith-expand),{math},convert-scf-to-cf,convert-vector-to-llvm,finalize-memref-to-llvm,"
    "convert-arith-to-llvm,convert-func-to-llvm,convert-cf-to-llvm,convert-index-to-llvm,reconcile-unrealized-casts)"
)
_MATH = "convert-math-to-llvm,convert-math-to-libm"
# What convert-math-to-llvm makes of these loses digits: exp(x) - 1, log(1 + x).
_LIBM = ("math.expm1", "math.log1p")

_WIDTHS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64, "index": 64}


@dataclass(frozen=True)
class Case:
    """`text` is the op with its operands spelled %a, %b, %c; `operands` and `result` are types.

    `bits` has one row per operand: patterns of the operand's width in 64 bits.
    """

    text: str
    operands: tuple[str, ...]
    result: str
    bits: NDArray[np.uint64]


def width(type: str) -> int:
    """How many bits a scalar of `type` has."""
    return _WIDTHS[type] if type in _WIDTHS else int(type[1:])


def _load(name: str, type: str, source: str) -> list[str]:
    """Lines that make %name of `type` out of the 64-bit integer %source."""
    bits = width(type)
    lines: list[str] = []
    narrow = source
    if bits < 64:
        lines.append(f"%{name}_n = arith.trunci %{source} : i64 to i{bits}")
        narrow = f"{name}_n"
    if type == "index":
        lines.append(f"%{name} = arith.index_cast %{narrow} : i64 to index")
    elif type in _WIDTHS:
        lines.append(f"%{name} = arith.bitcast %{narrow} : i{bits} to {type}")
    else:
        zero = f"%{name}_z = arith.constant {'false' if bits == 1 else f'0 : i{bits}'}"
        lines += [zero, f"%{name} = arith.ori %{narrow}, %{name}_z : i{bits}"]
    return lines


def _pack(name: str, type: str, target: str) -> list[str]:
    """Lines that make the 64-bit integer %target out of %name of `type`."""
    bits = width(type)
    if type == "index":
        return [f"%{target} = arith.index_cast %{name} : index to i64"]
    lines: list[str] = []
    if type in _WIDTHS:
        lines.append(f"%{target}_b = arith.bitcast %{name} : {type} to i{bits}")
        name = f"{target}_b"
    if bits < 64:
        lines.append(f"%{target} = arith.extui %{name} : i{bits} to i64")
    else:
        zero = f"%{target}_z = arith.constant 0 : i64"
        lines += [zero, f"%{target} = arith.ori %{name}, %{target}_z : i64"]
    return lines


def run_scalars(cases: Sequence[Case]) -> list[NDArray[np.uint64]]:
    """The bit patterns of the results, one array per case."""
    results: dict[int, NDArray[np.uint64]] = {}
    for math, libm in (("convert-math-to-libm", True), (_MATH, False)):
        chosen = [k for k, case in enumerate(cases) if (case.text.split()[0] in _LIBM) == libm]
        some = _run([cases[k] for k in chosen], _LOWER.format(math=math)) if chosen else []
        results |= dict(zip(chosen, some, strict=True))
    return [results[k] for k in range(len(cases))]


def _run(cases: Sequence[Case], pipeline: str) -> list[NDArray[np.uint64]]:
    found = tools()
    assert not isinstance(found, str), found
    opt, runner, libraries = found
    half = sorted(Path(libraries.split(",")[0]).parent.glob("libmlir_float16_utils.so*"))
    libraries = ",".join([libraries, *map(str, half[:1])])
    constants: list[str] = []
    lines: list[str] = []
    for k, case in enumerate(cases):
        count = case.bits.shape[1]
        lines.append(f"func.func @case{k}() {{")
        for j, row in enumerate(case.bits):
            values = ", ".join(map(str, row.astype(np.int64).tolist()))
            lines.append(f"%in{j} = memref.get_global @in{k}_{j} : memref<{count}xi64>")
            constants.append(f"memref.global constant @in{k}_{j} : memref<{count}xi64> = dense<[{values}]>")
        lines += [
            "%zero = arith.constant 0 : index",
            "%one = arith.constant 1 : index",
            f"%count = arith.constant {count} : index",
            f"%out = memref.alloc() : memref<{count}xi64>",
            "scf.for %i = %zero to %count step %one {",
        ]
        for j, (name, type) in enumerate(zip("abc", case.operands, strict=False)):
            lines.append(f"%{name}_l = memref.load %in{j}[%i] : memref<{count}xi64>")
            lines += _load(name, type, f"{name}_l")
        lines += [
            f"%r = {case.text}",
            *_pack("r", case.result, "s"),
            f"memref.store %s, %out[%i] : memref<{count}xi64>",
            "}",
            f"%unranked = memref.cast %out : memref<{count}xi64> to memref<*xi64>",
            "call @printMemrefI64(%unranked) : (memref<*xi64>) -> ()",
            "return",
            "}",
        ]
    calls = [f"call @case{k}() : () -> ()" for k in range(len(cases))]
    printer = "func.func private @printMemrefI64(memref<*xi64>) attributes {llvm.emit_c_interface}"
    main = ["func.func @main() {", *calls, "return", "}"]
    text = "\n".join(["module {", printer, *constants, *lines, *main, "}"])
    lowered = subprocess.run(
        [opt, f"--pass-pipeline={pipeline}", "-"], input=text, capture_output=True, text=True, check=False
    )
    assert lowered.returncode == 0, lowered.stderr[:3000]
    command = [runner, "-", "-O0", "-e", "main", "-entry-point-result=void", f"-shared-libs={libraries}"]
    if platform.machine() == "x86_64":
        # Processors that round to bf16 themselves take subnormal numbers for 0, which MLIR does not say.
        command.append("-mattr=-avx512bf16,-avxneconvert,-avx10.2")
    ran = subprocess.run(command, input=lowered.stdout, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[:3000]
    blocks = ran.stdout.split("data =")[1:]
    assert len(blocks) == len(cases)
    results: list[NDArray[np.uint64]] = []
    for block, case in zip(blocks, cases, strict=True):
        numbers = re.findall(r"-?\d+", block.split("Unranked")[0])
        results.append(np.array([int(n) for n in numbers], np.int64).view(np.uint64))
        assert results[-1].size == case.bits.shape[1]
    return results
