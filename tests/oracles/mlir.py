"""The stock mlir-opt and mlir-runner: executes linalg.pack and reads back what it stored.

Found as `mlir-opt` or `mlir-opt-<version>` on the path (Debian's package mlir-22-tools). `available()` says why not.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_LOWER = (
    "--transform-interpreter", "--test-transform-dialect-erase-schedule",
    "--one-shot-bufferize=bufferize-function-boundaries", "--convert-linalg-to-loops", "--lower-affine",
    "--convert-scf-to-cf", "--expand-strided-metadata", "--lower-affine", "--finalize-memref-to-llvm",
    "--convert-func-to-llvm", "--convert-arith-to-llvm", "--convert-cf-to-llvm", "--reconcile-unrealized-casts",
)  # fmt: skip

_SCHEDULE = """
  transform.named_sequence @__transform_main(%m: !transform.any_op {transform.readonly}) {
    %packs = transform.structured.match ops{["linalg.pack"]} in %m : (!transform.any_op) -> !transform.op<"linalg.pack">
    transform.foreach %packs : !transform.op<"linalg.pack"> {
    ^bb0(%pack: !transform.op<"linalg.pack">):
      transform.structured.lower_pack %pack : (!transform.op<"linalg.pack">)
        -> (!transform.op<"tensor.pad">, !transform.op<"tensor.expand_shape">, !transform.op<"linalg.transpose">)
    }
    transform.yield
  }
"""


@lru_cache(maxsize=1)
def tools() -> tuple[str, str, str] | str:
    """mlir-opt, mlir-runner and their support libraries, or what is missing."""
    for suffix in ("", "-22", "-21", "-20"):
        opt, runner = shutil.which(f"mlir-opt{suffix}"), shutil.which(f"mlir-runner{suffix}")
        if opt is None or runner is None:
            continue
        lib = Path(opt).resolve().parents[1] / "lib"
        found = [sorted(lib.glob(f"libmlir_{name}_utils.so*")) for name in ("c_runner", "runner")]
        if all(found):
            return opt, runner, ",".join(str(names[0]) for names in found)
    return "no mlir-opt with mlir-runner (20 or later) and its runner libraries: install mlir-22-tools"


def available() -> str | None:
    """None, or why linalg.pack cannot be executed here."""
    found = tools()
    return found if isinstance(found, str) else None


def _type(shape: Sequence[int]) -> str:
    return f"tensor<{'x'.join(map(str, shape))}xf32>"


def run_packs(cases: Sequence[tuple[tuple[int, ...], str, tuple[int, ...]]]) -> list[NDArray[np.float32]]:
    """What linalg.pack stores for each (source shape, attributes, result shape); sources count 1, 2, 3, ... .

    `attributes` is the text between the source and `into`, with the padding value spelled `%p : f32`.
    """
    found = tools()
    assert not isinstance(found, str), found
    opt, runner, libraries = found
    lines = [
        "module attributes {transform.with_named_sequence} {",
        "func.func private @printMemrefF32(%ptr : tensor<*xf32>)",
    ]
    lines += ["func.func @main() {", "%p = arith.constant 0.5 : f32"]
    for k, (source, attributes, target) in enumerate(cases):
        values = np.arange(1, np.prod(source) + 1, dtype=np.float32).reshape(source)
        text = str(values.tolist())
        lines += [
            f"%s{k} = arith.constant dense<{text}> : {_type(source)}",
            f"%d{k} = tensor.empty() : {_type(target)}",
            f"%r{k} = linalg.pack %s{k} {attributes} into %d{k} : {_type(source)} -> {_type(target)}",
            f"%u{k} = tensor.cast %r{k} : {_type(target)} to tensor<*xf32>",
            f"call @printMemrefF32(%u{k}) : (tensor<*xf32>) -> ()",
        ]
    lines += ["return", "}", _SCHEDULE, "}"]
    lowered = subprocess.run(
        [opt, *_LOWER, "-"], input="\n".join(lines), capture_output=True, text=True, check=False
    )
    assert lowered.returncode == 0, lowered.stderr[:2000]
    command = [runner, "-", "-e", "main", "-entry-point-result=void", f"-shared-libs={libraries}"]
    ran = subprocess.run(command, input=lowered.stdout, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[:2000]
    blocks = ran.stdout.split("data =")[1:]
    assert len(blocks) == len(cases)
    arrays: list[NDArray[np.float32]] = []
    for block, (_, _, target) in zip(blocks, cases, strict=True):
        numbers = re.findall(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", block.split("Unranked")[0])
        arrays.append(np.array([float(n) for n in numbers], np.float32).reshape(target))
    return arrays


def reprint(text: str, *options: str) -> str:
    """What mlir-opt prints of `text`, called with `options`; fails where it refuses it."""
    found = tools()
    assert not isinstance(found, str), found
    ran = subprocess.run([found[0], "-", *options], input=text, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[:2000]
    return ran.stdout
