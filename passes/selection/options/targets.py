"""Targets: which Formats the kernels of a machine or library accept, and how fast they are.

Everything but convolutions (elementwise ops, pools, concat, views) follows the Formats that convolutions ask for, by
the models in `models.py`; a library that takes fewer Formats has a hook (`conv_kernels.Target.refine`). Rates are
floating-point operations per nanosecond of one core. For AVX2 they are what oneDNN reaches on ResNet-50 layers: 79 in
nChw8c, 62 in nchw (by a matrix product over unrolled windows), 100 in nhwc; the others scale these by vector width.

`ort-nchwc` is what the blocked kernels of ONNX Runtime accept (`nchwc.py`), `megengine-cuda` the formats of
MegEngine's CUDA kernels (`megengine.py`), `onednn` asks the library itself where it is installed (`onednn.py`), `onnx`
is what can go out as an ONNX model (`onnx_operators.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

from layout_ir.algebra.format import Format
from layout_ir.diagnostics import Diagnostic, Severity, emit
from layout_ir.errors import LayoutError
from layout_ir.passes.selection.options import megengine, nchwc, onednn, onnx_operators
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
    """Lets passes and commands find `target` by its name. Raises LayoutError where another has that name."""
    if target.name in _targets or target.name in _BY_PROCESSOR:
        raise LayoutError(f"there is a target '{target.name}' already")
    _targets[target.name] = target


for _target in (
    Target("avx2", "nChw8c convolutions, 8 floats per vector", _blocked(8, 80, 60), panel=16),
    Target("avx512", "nChw16c convolutions, 16 floats per vector", _blocked(16, 150, 100), panel=32),
    Target("channels-last", "nhwc convolutions", _channels_last),
    Target("onednn", "what oneDNN answers to any", onednn.conv_kernels, caveat=onednn.missing),
    Target("htp", "Hexagon croutons", _htp),
    onnx_operators.target(),
    Target("megengine-cuda", "NCHW4, NCHW32, NCHW64, CHWN4", megengine.conv_kernels, megengine.refine),
    nchwc.target(8),
    nchwc.target(16),
):
    register_target(_target)


def target_names() -> tuple[str, ...]:
    """The names of help texts: without ort-nchwc8 and ort-nchwc16, which are ort-nchwc with a block of one's choice."""
    return ("host", *(name for name in _targets if not name.startswith("ort-nchwc")), "ort-nchwc")


def check_target(name: str) -> None:
    """Raises LayoutError for an unknown target."""
    if name not in _targets and name not in _BY_PROCESSOR:
        raise LayoutError(f"unknown target '{name}': targets are {', '.join(target_names())}")


def target_named(name: str) -> Target:
    """The target called `name`. "host" is the one of this machine, "ort-nchwc" has the block that ONNX Runtime uses
    on it. Raises LayoutError for an unknown name; a remark says where the target is not quite what its name says."""
    check_target(name)
    if name in _BY_PROCESSOR:
        name = _BY_PROCESSOR[name](_host())
    caveat = _targets[name].caveat()
    if caveat is not None:
        emit(Diagnostic(Severity.REMARK, f"target {name}: {caveat}"))
    return _targets[name]


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
