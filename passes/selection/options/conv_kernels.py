"""What a target is made of: convolution kernels by the Formats they take, and a word on every other op.

A target is data. Its convolution kernels are enumerated from the shape of the convolution; every other op runs in
the Formats that reach it, by its model in `models.py`, unless the target's `refine` hook says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from xdsl.ir import Operation

from layout_ir.algebra.factors import Factor
from layout_ir.algebra.format import Format
from layout_ir.interfaces import LayoutOption
from layout_ir.passes.selection.problem.tensors import Candidates


@dataclass(frozen=True, slots=True)
class ConvShape:
    """What a conv kernel is chosen by. Extents in elements; per spatial dim where there is a tuple.

    `image` and `kernel` are the spatial extents of input and weights, `pads` the begins and then the ends.
    """

    batch: int
    channels: int
    outputs: int
    group: int
    image: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    dtype: str = "f32"
    bias: bool = False

    @property
    def spatial_rank(self) -> int:
        return len(self.image)

    @property
    def inputs_per_group(self) -> int:
        return self.channels // self.group

    @property
    def outputs_per_group(self) -> int:
        return self.outputs // self.group

    @property
    def is_depthwise(self) -> bool:
        return self.group > 1 and self.inputs_per_group == self.outputs_per_group == 1


@dataclass(frozen=True, slots=True)
class ConvKernel:
    """Formats of input, weights and output of one kernel, and its rate in operations per ns.

    The kernel computes on padded channels too: `models.py` counts them.
    """

    x: Format
    w: Format
    y: Format
    rate: int


ConvKernels = Callable[[ConvShape], Iterable[ConvKernel]]
Refine = Callable[[Operation, Iterable[LayoutOption]], Iterable[LayoutOption]]


def no_caveat() -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Target:
    """A named set of kernels."""

    name: str
    summary: str
    conv_kernels: ConvKernels
    refine: Refine | None = None
    """Given an op and the options of its model, the options that this target has: some left out, some added.

    Asked for every op that does not carry options of its own, each time a new Format reaches it; must not depend on
    anything but the op, its neighbours and the options.
    """
    caveat: Callable[[], str | None] = no_caveat
    """Why the target is not what its name says on this machine; None where it is."""
    panel: int = 0
    """Columns of a panel in which its matrix products take the right operand packed; 0: they pack it themselves."""


Model = Callable[[Operation, Candidates, Target], Iterable[LayoutOption]]
"""The options of an op, given the Formats that are known so far for a value, and the target."""


# Formats ---------------------------------------------------------------------------------------------------------

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


# Kernels that several targets have --------------------------------------------------------------------------------


def plain_kernel(conv: ConvShape, rate: int) -> ConvKernel:
    """Row-major everything, a matrix product over unrolled windows: at `rate` where there are no groups.

    Each group is a product of its own, as narrow as the group: `_DEPTHWISE` for one channel, near `rate` for many.
    """
    rank = conv.spatial_rank
    if conv.group > 1:
        width = min(conv.inputs_per_group, conv.outputs_per_group)
        narrow = min(rate, _DEPTHWISE)
        rate = rate * narrow * width // (narrow * width + rate - narrow)
    return ConvKernel(activation(rank, "ncS"), weight(rank, "oiS"), activation(rank, "ncS"), rate)


_DEPTHWISE = 19
"""Operations per ns of row-major depthwise convolutions, at most: 4.5 to 19 were measured, whatever the vectors."""


def channels_last_kernel(conv: ConvShape, rate: int) -> ConvKernel:
    """nhwc activations and ohwi weights, at `rate`."""
    last = activation(conv.spatial_rank, "nSc")
    return ConvKernel(last, weight(conv.spatial_rank, "oSi"), last, rate)


def blocked_kernels(conv: ConvShape, block: int, rate: int) -> Iterator[ConvKernel]:
    """Channels in blocks of one vector: nChw8c with OIhw8i8o, and what else such libraries have."""
    rank = conv.spatial_rank
    blocked = activation(rank, "ncS", ("c", block))
    if conv.group == 1:
        yield ConvKernel(blocked, weight(rank, "oiS", ("i", block), ("o", block)), blocked, rate)
        if conv.channels < block:
            # The first layer of a network: too few channels for a block, so its input is read as it comes.
            yield ConvKernel(activation(rank, "ncS"), weight(rank, "oSi", ("o", block)), blocked, rate)
    elif conv.is_depthwise:
        # A vector of channels at a time, as fast as a dense one: 82 to 219 operations per ns.
        yield ConvKernel(blocked, weight(rank, "oiS", ("o", block)), blocked, rate)
    elif conv.inputs_per_group % block == 0 and conv.outputs_per_group % block == 0:
        yield ConvKernel(blocked, weight(rank, "oiS", ("i", block), ("o", block)), blocked, rate)
