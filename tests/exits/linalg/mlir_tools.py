"""Programs run by LLVM's own tools: `mlir-opt` lowers them, `mlir-runner` runs them.

Inputs and results go through files, byte by byte: the program gets a function that reads the ones with `fread`, calls
the function asked for, and writes the others with `fwrite`, which the runner finds in the C library.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from xdsl.dialects.builtin import FunctionType, MemRefType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from layout_ir.dialects.layout import element_type_of
from layout_ir.elements.numpy_types import Array, storage
from layout_ir.printing import print_module

LOWERING = (
    "--canonicalize", "--cse", "--convert-elementwise-to-linalg",
    (
        "--one-shot-bufferize=bufferize-function-boundaries allow-return-allocs-from-loops "
        "function-boundary-type-conversion=identity-layout-map"
    ),
    "--convert-linalg-to-loops", "--expand-strided-metadata", "--lower-affine", "--convert-scf-to-cf",
    "--arith-expand=include-bf16", "--convert-math-to-funcs", "--convert-math-to-libm", "--convert-math-to-llvm",
    "--convert-to-llvm", "--reconcile-unrealized-casts",
)  # fmt: skip
"""Stock passes from tensors to what LLVM takes."""


def tool(name: str) -> str:
    """The path of an LLVM 22 tool; skips the test where there is none."""
    found = (
        shutil.which(f"{name}-22") or shutil.which(name, path="/usr/lib/llvm-22/bin") or shutil.which(name)
    )
    if found is None:
        pytest.skip(f"needs {name} of LLVM 22 (Debian and Ubuntu: mlir-22-tools)")
    return found


def _runner_libraries() -> list[Path]:
    """The library of the runner that has `memrefCopy`."""
    folder = Path(tool("mlir-runner")).resolve().parent.parent / "lib"
    return sorted(folder.glob("libmlir_c_runner_utils.so*"))[:1]


def mlir_opt(text: str, *passes: str) -> str:
    """What `mlir-opt` makes of a program."""
    done = subprocess.run(
        [tool("mlir-opt"), *passes], input=text, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[:3000]
    return done.stdout


def execute(
    module: ModuleOp, inputs: Sequence[Array], folder: Path, *, entry: str = "main", libraries: Sequence[Path] = (),
    before: Sequence[str] = (),
) -> list[Array]:  # fmt: skip
    """The results of function `entry`, as arrays of stored elements.

    `before` has passes of mlir-opt that run first, `libraries` objects that the program calls.
    """
    return execute_all(module, {entry: inputs}, folder, libraries=libraries, before=before)[entry]


def execute_all(
    module: ModuleOp, calls: Mapping[str, Sequence[Array]], folder: Path, *, libraries: Sequence[Path] = (),
    before: Sequence[str] = (),
) -> dict[str, list[Array]]:  # fmt: skip
    """The results of several functions, each on its own inputs."""
    functions = {op.sym_name.data: op for op in module.walk() if isinstance(op, FuncOp) and op.body.blocks}
    driver = _Driver(folder)
    for entry, inputs in calls.items():
        driver.call(entry, functions[entry].function_type, inputs)
    lowered = mlir_opt(driver.around(print_module(module)), *before, *LOWERING)
    (folder / "lowered.mlir").write_text(lowered)
    command = [
        tool("mlir-runner"),
        str(folder / "lowered.mlir"),
        "-e",
        "run_on_files",
        "--entry-point-result=i32",
    ]
    # Not optimized: compiling takes most of the time, and what is written is what runs.
    command += ["-O0", *(f"--shared-libs={library}" for library in (*libraries, *_runner_libraries()))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]
    return {
        entry: [
            np.frombuffer(path.read_bytes(), _numpy_type(type)).reshape(_shape(type))
            for path, type in zip(paths, functions[entry].function_type.outputs, strict=True)
        ]
        for entry, paths in driver.results.items()
    }


def _shape(type: Attribute) -> tuple[int, ...]:
    return cast("TensorType[Attribute] | MemRefType[Attribute]", type).get_shape()


def _numpy_type(type: Attribute) -> np.dtype[Any]:
    known = element_type_of(cast("TensorType[Attribute] | MemRefType[Attribute]", type).element_type)
    assert known is not None
    return storage(known.name)


class _Driver:
    """Functions that read inputs from files of `folder`, call the program, and write its results."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.results: dict[str, list[Path]] = {}
        self.paths: list[Path] = []
        self.functions: list[str] = []

    def call(self, entry: str, type: FunctionType, inputs: Sequence[Array]) -> None:
        """Adds a call of the function `entry`."""
        lines = [f"func.func private @driver_{entry}() {{", "%one = llvm.mlir.constant(1 : i64) : i64"]
        arguments: list[str] = []
        for k, (of, array) in enumerate(zip(type.inputs, inputs, strict=True)):
            path = self._path(f"{entry}_in{k}")
            path.write_bytes(np.ascontiguousarray(array).tobytes())
            buffer = MemRefType(cast(Any, of).element_type, _shape(of))
            lines.append(f"%in{k} = memref.alloc() : {buffer}")
            lines += self._transfer(f"%in{k}", buffer, "fread", "r")
            name = f"%in{k}"
            if isinstance(of, TensorType):
                lines.append(f"%arg{k} = bufferization.to_tensor {name} restrict writable : {buffer} to {of}")
                name = f"%arg{k}"
            arguments.append(name)
        outputs = list(type.outputs)
        types = f"({', '.join(map(str, type.inputs))}) -> ({', '.join(map(str, outputs))})"
        lines.append(f"%results:{len(outputs)} = func.call @{entry}({', '.join(arguments)}) : {types}")
        self.results[entry] = []
        for k, of in enumerate(outputs):
            self.results[entry].append(self._path(f"{entry}_out{k}"))
            buffer = MemRefType(cast(Any, of).element_type, _shape(of))
            name = f"%results#{k}"
            if isinstance(of, TensorType):
                lines.append(f"%out{k} = bufferization.to_buffer {name} : {of} to {buffer}")
                name = f"%out{k}"
            lines += self._transfer(name, buffer, "fwrite", "w")
        self.functions += [*lines, "func.return", "}"]

    def _path(self, name: str) -> Path:
        self.paths.append(self.folder / name)
        return self.paths[-1]

    def _transfer(self, buffer: str, type: MemRefType[Attribute], call: str, mode: str) -> list[str]:
        """Code that reads the buffer from the last path, or writes it there."""
        n, size = len(self.paths) - 1, int(np.prod(type.get_shape())) * _numpy_type(type).itemsize
        arguments = f"(%data{n}, %one, %size{n}, %file{n}) : (!llvm.ptr, i64, i64, !llvm.ptr) -> i64"
        return [
            f"%index{n} = memref.extract_aligned_pointer_as_index {buffer} : {type} -> index",
            f"%address{n} = arith.index_cast %index{n} : index to i64",
            f"%data{n} = llvm.inttoptr %address{n} : i64 to !llvm.ptr",
            f"%name{n} = llvm.mlir.addressof @path{n} : !llvm.ptr",
            f"%mode{n} = llvm.mlir.addressof @mode_{mode} : !llvm.ptr",
            f"%file{n} = llvm.call @fopen(%name{n}, %mode{n}) : (!llvm.ptr, !llvm.ptr) -> !llvm.ptr",
            f"%size{n} = llvm.mlir.constant({size} : i64) : i64",
            f"%done{n} = llvm.call @{call}{arguments}",
            f"%closed{n} = llvm.call @fclose(%file{n}) : (!llvm.ptr) -> i32",
        ]

    def around(self, text: str) -> str:
        """The program with these functions behind its own."""
        lines = [
            "llvm.func @fopen(!llvm.ptr, !llvm.ptr) -> !llvm.ptr",
            "llvm.func @fread(!llvm.ptr, i64, i64, !llvm.ptr) -> i64",
            "llvm.func @fwrite(!llvm.ptr, i64, i64, !llvm.ptr) -> i64",
            "llvm.func @fclose(!llvm.ptr) -> i32",
            'llvm.mlir.global internal constant @mode_r("rb\\00")',
            'llvm.mlir.global internal constant @mode_w("wb\\00")',
            *(
                f'llvm.mlir.global internal constant @path{k}("{path}\\00")'
                for k, path in enumerate(self.paths)
            ),
            *self.functions,
            "func.func @run_on_files() -> i32 {",
            *(f"func.call @driver_{entry}() : () -> ()" for entry in self.results),
            "%zero = arith.constant 0 : i32",
            "func.return %zero : i32",
            "}",
        ]
        resources = text.find("{-#")
        end = text.rindex("}", 0, resources if resources >= 0 else len(text))
        return text[:end] + "\n".join(lines) + "\n" + text[end:]
