"""Targets: which Formats the kernels of a machine or library accept for convolutions, and how fast they are.

Everything else (elementwise ops, pools, concat, views) follows the Formats that convolutions ask for, by the models
in `models.py`. Rates are floating-point operations per nanosecond of one core. For AVX2 they are what oneDNN
reaches on ResNet-50 layers: 79 in nChw8c, 62 in nchw (by a matrix product over unrolled windows), 100 in nhwc; the
others scale these by vector width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from layout_ir.errors import LayoutError
from layout_ir.format import Factor, Format


@dataclass(frozen=True, slots=True)
class ConvShape:
    """What a conv kernel is chosen by. Extents in elements."""

    batch: int
    channels: int
    outputs: int
    group: int
    spatial_rank: int

    @property
    def inputs_per_group(self) -> int:
        return self.channels // self.group

    @property
    def outputs_per_group(self) -> int:
        return self.outputs // self.group


@dataclass(frozen=True, slots=True)
class ConvKernel:
    """Formats of input, weights and output of one kernel, and its rate in floating-point operations per ns.

    The kernel computes on padded channels too: `models.py` counts them.
    """

    x: Format
    w: Format
    y: Format
    rate: int


@dataclass(frozen=True, slots=True)
class Target:
    """A named set of kernels."""

    name: str
    summary: str
    conv_kernels: Callable[[ConvShape], Iterator[ConvKernel]]


_SPACE = {1: "w", 2: "hw", 3: "dhw"}


@lru_cache(maxsize=256)
def activation(rank: int, order: str, *blocks: tuple[str, int]) -> Format:
    """A Format of (n, c, space) with outer factors in `order` (S stands for all of space) and inner `blocks`."""
    return _format("nc", rank, order, blocks)


@lru_cache(maxsize=256)
def weight(rank: int, order: str, *blocks: tuple[str, int]) -> Format:
    """The same for weights (o, i, space)."""
    return _format("oi", rank, order, blocks)


def _format(lead: str, rank: int, order: str, blocks: tuple[tuple[str, int], ...]) -> Format:
    names = lead + _SPACE[rank]
    outer = order.replace("S", _SPACE[rank])
    factors = [Factor(names.index(name)) for name in outer]
    factors += [Factor(names.index(name), size) for name, size in blocks]
    return Format(tuple(names), tuple(factors), pad="zero" if blocks else "undef")


def _plain(conv: ConvShape, rate: int) -> ConvKernel:
    rank = conv.spatial_rank
    return ConvKernel(activation(rank, "ncS"), weight(rank, "oiS"), activation(rank, "ncS"), rate)


def _blocked(block: int, fast: int, plain: int) -> Callable[[ConvShape], Iterator[ConvKernel]]:
    """Channels in blocks of one vector: nChw8c with OIhw8i8o, and what else such libraries have."""

    def kernels(conv: ConvShape) -> Iterator[ConvKernel]:
        rank = conv.spatial_rank
        blocked = activation(rank, "ncS", ("c", block))
        if conv.group == 1:
            yield ConvKernel(blocked, weight(rank, "oiS", ("i", block), ("o", block)), blocked, fast)
            if conv.channels < block:
                # The first layer of a network: too few channels for a block, so its input is read as it comes.
                yield ConvKernel(activation(rank, "ncS"), weight(rank, "oSi", ("o", block)), blocked, fast)
        elif conv.inputs_per_group == 1 and conv.outputs_per_group == 1:
            yield ConvKernel(blocked, weight(rank, "oiS", ("o", block)), blocked, fast // 4)
        elif conv.inputs_per_group % block == 0 and conv.outputs_per_group % block == 0:
            yield ConvKernel(blocked, weight(rank, "oiS", ("i", block), ("o", block)), blocked, fast)
        yield _plain(conv, plain)

    return kernels


def _channels_last(conv: ConvShape) -> Iterator[ConvKernel]:
    rank = conv.spatial_rank
    last = activation(rank, "nSc")
    yield ConvKernel(last, weight(rank, "oSi"), last, 90)
    yield _plain(conv, 62)


def _onednn(conv: ConvShape) -> Iterator[ConvKernel]:
    """What oneDNN 3.13 answers to `any` on AVX2: nhwc activations, weights in blocks of 16 to 32 outputs."""
    rank = conv.spatial_rank
    last = activation(rank, "nSc")
    if conv.group == 1:
        block = 32 if conv.outputs % 32 == 0 else 24 if conv.outputs % 24 == 0 else 16
        yield ConvKernel(last, weight(rank, "oSi", ("o", block)), last, 100)
    else:
        yield ConvKernel(last, weight(rank, "oSi"), last, 50)
    yield _plain(conv, 62)


def _htp(conv: ConvShape) -> Iterator[ConvKernel]:
    """Croutons of 8x8x32 for activations, 32-deep blocks of weights, as Hexagon's tensor units take them."""
    rank = conv.spatial_rank
    if rank == 2 and conv.group == 1:
        blocks = Format.parse("(n, c, h, w) : [n, h, w, c | h:8, w:8, c:32], pad = zero")
        packed = Format.parse("(o, i, h, w) : [o, i, h, w, i:8, o:32, i:4], pad = zero")
        yield ConvKernel(blocks, packed, blocks, 1000)
    last = activation(rank, "nSc")
    yield ConvKernel(last, weight(rank, "Sio"), last, 100)


_TARGETS = {
    target.name: target
    for target in (
        Target("avx2", "nChw8c convolutions, 8 floats per vector", _blocked(8, 80, 60)),
        Target("avx512", "nChw16c convolutions, 16 floats per vector", _blocked(16, 150, 100)),
        Target("channels-last", "nhwc convolutions", _channels_last),
        Target("onednn", "what oneDNN chooses on AVX2: nhwc and Ohwi32o", _onednn),
        Target("htp", "Hexagon croutons", _htp),
    )
}

NAMES = ("host", *_TARGETS)


def target_named(name: str) -> Target:
    """The target called `name`; "host" is the one of this machine. Raises LayoutError for an unknown name."""
    if name == "host":
        return _TARGETS[_host()]
    if name not in _TARGETS:
        raise LayoutError(f"unknown target '{name}': targets are {', '.join(NAMES)}")
    return _TARGETS[name]


@lru_cache(maxsize=1)
def _host() -> str:
    """The target of this machine's processor, by the flags that the kernel reports."""
    try:
        with open("/proc/cpuinfo") as info:
            flags = next((line for line in info if line.startswith("flags")), "").split()
    except OSError:
        flags = []
    if "avx512f" in flags:
        return "avx512"
    return "avx2" if "avx2" in flags else "channels-last"
