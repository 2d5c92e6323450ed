"""Libraries that transpose dense tensors, as peers in `benchmarks/reorder.py`.

A reorder between dense layouts whose blocks divide one another is a transpose of the dims of memory: its loops, merged
where they lie behind one another on both sides, are the dims of the source and, permuted, those of the destination.
Where there are pads or conversions it is not, and these libraries say so.

    numpy-new, torch-new   numpy.ascontiguousarray and torch.contiguous, which allocate what they return
    opencv                 transpose where two dims change places, else transposeND
    onnxruntime            a model of one Transpose (MLAS), its input and output bound to the buffers
    eigen, xtensor         through `transpose_peers.cpp`, compiled by g++ into build/ where their headers are installed
                           (Debian: libeigen3-dev, libxtensor-dev)

HPTT has no package: neither PyPI nor Debian has one, so it takes no part.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layout_ir.backends.llvm.machine.machine import processor_name
from layout_ir.errors import LayoutError
from layout_ir.tools.benchmark.peers import Call, Peer, Side, import_torch, register, views

_SOURCE = Path(__file__).with_suffix(".cpp")
_BUILT = Path(__file__).resolve().parents[1] / "build" / "benchmarks"
_INTEGERS = {1: np.uint8, 2: np.uint16, 4: np.int32, 8: np.int64}
"""Integers of each width: a move does not ask what elements mean."""


@dataclass(frozen=True)
class Transpose:
    """A reorder as a transpose: extents of the source, outermost first, and which of its dims each of the others is."""

    shape: tuple[int, ...]
    perm: tuple[int, ...]

    @property
    def result(self) -> tuple[int, ...]:
        """Extents of the destination."""
        return tuple(self.shape[dim] for dim in self.perm)


def transpose_of(src: Side, dst: Side) -> Transpose:
    """The transpose that the reorder is. Raises LayoutError where it is none."""
    if src.dtype != dst.dtype:
        raise LayoutError("elements are converted: a transpose does not")
    pairs = list(views(src, dst))
    if len(pairs) > 1:
        raise LayoutError(f"it takes {len(pairs)} strided views")
    [(s, d)] = pairs
    width = s.itemsize
    loops = [
        (count, a // width, b // width)
        for count, a, b in zip(s.shape, s.strides, d.strides, strict=True)
        if count > 1
    ]
    loops.sort(key=lambda loop: -loop[1])
    merged: list[tuple[int, int, int]] = []
    for count, a, b in loops:
        if merged and (merged[-1][1], merged[-1][2]) == (count * a, count * b):
            count *= merged.pop()[0]
        merged.append((count, a, b))
    perm = tuple(sorted(range(len(merged)), key=lambda dim: -merged[dim][2]))
    for side, order, stride in ((src, range(len(merged)), 1), (dst, perm, 2)):
        below = 1
        for dim in reversed(order):
            if merged[dim][stride] != below:
                raise LayoutError("there are pads or holes: a transpose has none")
            below *= merged[dim][0]
        if below != side.data.size:
            raise LayoutError("there are pads or holes: a transpose has none")
    return Transpose(tuple(count for count, _, _ in merged), perm)


def _dense(src: Side, dst: Side) -> tuple[Transpose, NDArray[Any], NDArray[Any]]:
    """The transpose and both buffers as integers in its shapes. Raises LayoutError where nothing is transposed."""
    found = transpose_of(src, dst)
    if len(found.shape) < 2:
        raise LayoutError("nothing is transposed")
    integer = _INTEGERS[src.data.itemsize]
    return found, src.data.view(integer).reshape(found.shape), dst.data.view(integer).reshape(found.result)


# Libraries with a Python interface -----------------------------------------------------------------------------------


def _numpy_new(src: Side, dst: Side, threads: int) -> Call:
    found, x, _ = _dense(src, dst)
    return partial(np.ascontiguousarray, x.transpose(found.perm))


def _torch_new(src: Side, dst: Side, threads: int) -> Call:
    found, x, _ = _dense(src, dst)
    torch = import_torch()
    torch.set_num_threads(threads)
    signed = np.int16 if x.dtype == np.uint16 else x.dtype
    return torch.from_numpy(x.view(signed)).permute(found.perm).contiguous


def _import(name: str, package: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise LayoutError(f"the package {package} is not installed: {error}") from None


def _opencv(src: Side, dst: Side, threads: int) -> Call:
    found, x, y = _dense(src, dst)
    cv2 = _import("cv2", "opencv-python-headless")
    cv2.setNumThreads(threads)
    if found.perm == (1, 0):
        return partial(cv2.transpose, x, y)
    if found.perm == (0, 2, 1):
        calls = [partial(cv2.transpose, x[k], y[k]) for k in range(found.shape[0])]

        def run() -> None:
            for call in calls:
                call()

        return run
    if len(found.perm) == 3:  # the last of three dims would be taken for channels
        return partial(cv2.transposeND, x[None], (0, *(axis + 1 for axis in found.perm)), y[None])
    return partial(cv2.transposeND, x, found.perm, y)


def _onnxruntime(src: Side, dst: Side, threads: int) -> Call:
    found, x, y = _dense(src, dst)
    onnx, runtime = _import("onnx", "onnx"), _import("onnxruntime", "onnxruntime")
    element = onnx.helper.np_dtype_to_tensor_dtype(x.dtype)
    values = [
        onnx.helper.make_tensor_value_info(name, element, shape)
        for name, shape in (("x", found.shape), ("y", found.result))
    ]
    node = onnx.helper.make_node("Transpose", ["x"], ["y"], perm=found.perm)
    graph = onnx.helper.make_graph([node], "transpose", values[:1], values[1:])
    opset = onnx.helper.make_opsetid("", 17)
    model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    binding.bind_input("x", "cpu", 0, x.dtype, found.shape, x.ctypes.data)
    binding.bind_output("y", "cpu", 0, y.dtype, found.result, y.ctypes.data)
    return partial(session.run_with_iobinding, binding)


# C++ -----------------------------------------------------------------------------------------------------------------


@cache
def _library(name: str, march: str) -> Any:
    """The functions of `name` compiled for `march`, or the LayoutError that says why there are none."""
    compiler = shutil.which("g++")
    if compiler is None:
        return LayoutError("there is no g++ to compile it with")
    includes = ["-isystem", "/usr/include/eigen3"]
    options = ["-std=c++17", "-O3", f"-march={march}", "-fPIC", "-shared", "-pthread", *includes]
    define = f"-DWITH_{name.upper()}"
    release = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    made_of = _SOURCE.read_bytes(), options, define, release, processor_name()
    key = hashlib.sha256(repr(made_of).encode()).hexdigest()[:16]
    path = _BUILT / f"{name}-{key}.so"
    if not path.exists():
        _BUILT.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}")
        command = [compiler, *options, define, str(_SOURCE), "-o", str(part)]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode:
            part.unlink(missing_ok=True)
            return LayoutError(f"it does not compile: {_first_error(made.stderr)}")
        part.replace(path)
    library: Any = ctypes.CDLL(str(path))
    getattr(library, f"{name}_version").restype = ctypes.c_char_p
    return library


def _first_error(text: str) -> str:
    return next((line for line in text.splitlines() if "error" in line), text[-200:]).strip()


def _compiled(name: str, march: str) -> Any:
    library = _library(name, march)
    if isinstance(library, LayoutError):
        raise library
    return library


def _cpp_version(name: str, march: str) -> str:
    return str(getattr(_compiled(name, march), f"{name}_version")().decode())


def _cpp(name: str, march: str, src: Side, dst: Side, threads: int) -> Call:
    found, x, y = _dense(src, dst)
    call = getattr(_compiled(name, march), name)
    call.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_int] * 2 + [ctypes.c_void_p] * 2 + [ctypes.c_int]
    rank = len(found.shape)
    extents, perm = (
        (ctypes.c_int64 * rank)(*numbers) for numbers in (found.shape, found.perm)
    )  # held by the partial below
    run = partial(call, x.ctypes.data, y.ctypes.data, x.itemsize, rank, extents, perm, threads)
    if run():
        raise LayoutError(f"elements of {x.itemsize} bytes, or {rank} dims")
    return run


# The table -----------------------------------------------------------------------------------------------------------


def _package_version(name: str, package: str) -> str:
    return str(_import(name, package).__version__)


def transpose_peers(march: str = "native") -> dict[str, Peer]:
    """All of them by name; those in C++ compiled for what g++ calls `march`."""
    return {
        "numpy-new": Peer(partial(_package_version, "numpy", "numpy"), _numpy_new, allocates=True),
        "torch-new": Peer(lambda: str(import_torch().__version__), _torch_new, allocates=True),
        "opencv": Peer(partial(_package_version, "cv2", "opencv-python-headless"), _opencv),
        "onnxruntime": Peer(partial(_package_version, "onnxruntime", "onnxruntime"), _onnxruntime),
        **{
            name: Peer(partial(_cpp_version, name, march), partial(_cpp, name, march))
            for name in ("eigen", "xtensor")
        },
    }


def register_all(march: str = "native") -> Sequence[str]:
    """Has all of them take part, and returns their names."""
    found = transpose_peers(march)
    for name, library in found.items():
        register(name, library)
    return tuple(found)
