"""Targets: which Formats the kernels of a machine or library accept, and how fast they are.

Everything but convolutions (elementwise ops, pools, concat, views) follows the Formats that convolutions ask for, by
the models in `models.py`; a library that takes fewer Formats has a hook (`conv_kernels.Target.refine`). Rates are
floating-point operations per nanosecond of one core.

`avx2` and `avx512` are the kernels of oneDNN for these instructions (`onednn_kernels.py`), at prices that were measured
of them, the same on every machine. `blocked8`, `blocked16` and `channels-last` are no library's: they know one way to
store channels, besides row-major, and rates that make it worth its reorders.

`ort-nchwc` is what the blocked kernels of ONNX Runtime accept (`nchwc.py`), `megengine-cuda` the formats of MegEngine's
CUDA kernels (`megengine.py`), `onednn` asks the library itself where it is installed (`onednn.py`), `onnx` is what can
go out as an ONNX model (`onnx_operators.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from importlib import import_module
from typing import cast

from layout_ir.algebra.format import Format
from layout_ir.diagnostics import Diagnostic, Severity, emit
from layout_ir.entry_points import TARGETS, entry_names, load_entry
from layout_ir.errors import LayoutError
from layout_ir.forking import loading
from layout_ir.passes.selection.options import megengine, nchwc, onednn, onednn_kernels, onnx_operators
from layout_ir.passes.selection.options.conv_kernels import (
    ConvKernel,
    ConvKernels,
    ConvShape,
    Target,
    activation,
    blocked_kernels,
    channels_last_kernel,
    row_major_kernel,
    weight,
)


def _blocked(block: int, fast: int, row_major: int) -> ConvKernels:
    def kernels(conv: ConvShape) -> Iterator[ConvKernel]:
        yield from blocked_kernels(conv, block, fast)
        yield row_major_kernel(conv, row_major)

    return kernels


def _channels_last(conv: ConvShape) -> Iterator[ConvKernel]:
    yield channels_last_kernel(conv, 90)
    yield row_major_kernel(conv, 62)


def _htp(conv: ConvShape) -> Iterator[ConvKernel]:
    """Croutons of 8x8x32 for activations, 32-deep blocks of weights, as Hexagon's tensor units take them."""
    rank = conv.spatial_rank
    if rank == 2 and conv.group == 1:
        blocks = Format.parse("(n, c, h, w) : [n, h, w, c | h:8, w:8, c:32], pad = zero")
        packed = Format.parse("(o, i, h, w) : [o, i, h, w, i:8, o:32, i:4], pad = zero")
        yield ConvKernel(blocks, packed, blocks, 1000)
    last = activation(rank, "nSc")
    yield ConvKernel(last, weight(rank, "Sio"), last, 100)


# The registry ---------------------------------------------------------------------------------------------------------

_targets: dict[str, Target] = {}

_BY_PROCESSOR: dict[str, Callable[[str], str]] = {
    "host": lambda host: host,
    "ort-nchwc": lambda host: "ort-nchwc16" if host == "avx512" else "ort-nchwc8",
}
"""Names of which this machine's processor says what target they stand for."""


def register_target(target: Target) -> None:
    """Lets passes and commands of this process find `target` by its name.

    Raises LayoutError where another target has that name.
    """
    if not isinstance(target, Target):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise LayoutError(f"a target is a Target, not of type {type(target).__name__}")
    if target.name in _BY_PROCESSOR or _targets.get(target.name, target) is not target:
        raise LayoutError(f"there is a target '{target.name}' already")
    _targets[target.name] = target


for _target in (
    Target(
        "avx2",
        "oneDNN's kernels for AVX2, at measured prices",
        partial(onednn_kernels.kernels, vector=8),
        costs=onednn.LibraryCosts("avx2"),
    ),
    Target(
        "avx512",
        "oneDNN's kernels for AVX-512, at measured prices",
        partial(onednn_kernels.kernels, vector=16),
        costs=onednn.LibraryCosts("avx512"),
    ),
    Target("blocked8", "nChw8c convolutions, 8 floats per vector", _blocked(8, 80, 60), panel=16),
    Target("blocked16", "nChw16c convolutions, 16 floats per vector", _blocked(16, 150, 100), panel=32),
    Target("channels-last", "nhwc convolutions", _channels_last),
    Target(
        "onednn",
        "what oneDNN answers to any, at measured prices",
        onednn.conv_kernels,
        caveat=onednn.missing,
        costs=onednn.LibraryCosts(),
    ),
    Target("htp", "Hexagon croutons", _htp),
    onnx_operators.target(),
    Target("megengine-cuda", "NCHW4, NCHW32, NCHW64, CHWN4", megengine.conv_kernels, megengine.refine),
    nchwc.target(8),
    nchwc.target(16),
):
    register_target(_target)


def target_names() -> tuple[str, ...]:
    """The names of help texts: without ort-nchwc8 and ort-nchwc16, which are ort-nchwc with a block of one's choice."""
    known = [name for name in _targets if not name.startswith("ort-nchwc")]
    return ("host", *dict.fromkeys((*known, *entry_names(TARGETS))), "ort-nchwc")


def find_target(target: str | Target) -> Target:
    """`target` itself, or the target of that name.

    A name is one that was registered, "host" (the target of this machine) or "ort-nchwc" (the block that ONNX Runtime
    uses on it), that of an entry point of `layout_ir.targets`, or `package:name`, which imports `package`. Raises
    LayoutError for any other.
    """
    if isinstance(target, Target):
        return target
    if not isinstance(cast("object", target), str):
        raise LayoutError(f"a target is a Target or the name of one, not of type {type(target).__name__}")
    if target in _BY_PROCESSOR:
        return _targets[_BY_PROCESSOR[target](_host())]
    if target in _targets:
        return _targets[target]
    if ":" in target:
        return _imported(target)
    found = load_entry(TARGETS, target)
    if found is None:
        raise LayoutError(
            f"unknown target '{target}': targets are {', '.join(target_names())}, or package:name of one's own"
        )
    found = _made(found, f"{TARGETS}: '{target}'")
    if found.name != target:
        raise LayoutError(f"{TARGETS}: '{target}' is a target named '{found.name}': one name is expected")
    return found


def target_named(target: str | Target) -> Target:
    """`find_target`; a remark says where the target is not quite what its name says."""
    found = find_target(target)
    caveat = found.caveat()
    if caveat is not None:
        emit(Diagnostic(Severity.REMARK, f"target {found.name}: {caveat}"))
    return found


def _imported(text: str) -> Target:
    """The target that `package:name` names."""
    package, _, name = text.partition(":")
    if re.fullmatch(r"\w+(\.\w+)*", package) is None or not name.isidentifier():
        raise LayoutError(f"target '{text}': expected package:name, such as npu_compiler.targets:NPU")
    try:
        with loading:
            module = import_module(package)
    except Exception as error:
        raise LayoutError(f"target '{text}': importing {package}: {type(error).__name__}: {error}") from error
    if not hasattr(module, name):
        own = [known for known, value in vars(module).items() if isinstance(value, Target)]
        hint = f": its targets are {', '.join(own)}" if own else ", and no other target"
        raise LayoutError(f"target '{text}': {package} has no {name}{hint}")
    return _made(getattr(module, name), f"target '{text}'")


def _made(value: object, source: str) -> Target:
    """`value`, or what it returns, which is to be a Target. Raises LayoutError."""
    if not isinstance(value, Target) and callable(value):
        try:
            value = value()
        except Exception as error:
            raise LayoutError(f"{source}: {type(error).__name__}: {error}") from error
    if not isinstance(value, Target):
        raise LayoutError(f"{source} is of type {type(value).__name__}, expected a Target")
    return value


@lru_cache(maxsize=1)
def _host() -> str:
    """The name of the target of this machine's processor, by the flags that the operating system reports."""
    try:
        with open("/proc/cpuinfo") as info:
            flags = next((line for line in info if line.startswith("flags")), "").split()
    except OSError:
        flags = []
    if "avx512f" in flags:
        return "avx512"
    return "avx2" if "avx2" in flags else "channels-last"
