"""Targets as data: the Formats that their convolution kernels take, and which options of other ops they have.

The convolution kernels of a target are enumerated from the shape of the convolution; every other op runs in the
Formats that reach it, by its model in `models.py`, unless the `refine` hook of the target takes options away.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from xdsl.ir import Operation

from layout_ir.algebra.factors import Factor
from layout_ir.algebra.format import Format
from layout_ir.argument_checks import check_flags, checked_integer
from layout_ir.errors import LayoutError
from layout_ir.interfaces import LayoutOption
from layout_ir.passes.selection.costs.cost_model import BUILT_IN, CostModel, Rates
from layout_ir.passes.selection.options.tensor_formats import Candidates


@dataclass(frozen=True, slots=True)
class ConvShape:
    """What the kernels of a convolution depend on. Extents in elements; per spatial dim where there is a tuple.

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
        """How many dims the windows have: 1 to 3."""
        return len(self.image)

    @property
    def inputs_per_group(self) -> int:
        """Input channels that one output channel reads."""
        return self.channels // self.group

    @property
    def outputs_per_group(self) -> int:
        """Output channels that read the same input channels."""
        return self.outputs // self.group

    @property
    def is_depthwise(self) -> bool:
        """Whether each output channel reads one input channel of its own."""
        return self.group > 1 and self.inputs_per_group == self.outputs_per_group == 1


@dataclass(frozen=True, slots=True)
class ConvKernel:
    """Formats of input, weights and output of one kernel, and its rate in operations per ns.

    The kernel computes on padded channels too: `models.py` counts them. A convolution that runs in a kernel with a
    name carries it as `layout.chosen`.
    """

    x: Format
    w: Format
    y: Format
    rate: int
    name: str = ""


ConvKernels = Callable[[ConvShape], Iterable[ConvKernel]]
Refine = Callable[[Operation, Iterable[LayoutOption]], Iterable[LayoutOption]]


def no_kernels(conv: ConvShape) -> Iterable[ConvKernel]:
    """The kernels of a target that runs no convolution of `nn`: none."""
    return ()


def no_caveat() -> str | None:
    """The caveat of a target that is what its name says: None."""
    return None


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")


@dataclass(frozen=True, slots=True)
class Target:
    """A named set of kernels, and how fast the machine is.

    Raises LayoutError for a part of another type, for a name of other characters than letters, digits, `_`, `.`, `+`
    and `-`, and for a panel of less than no column.
    """

    name: str
    summary: str = ""
    conv_kernels: ConvKernels = no_kernels
    """The kernels that convolutions of `nn` have, and those of `linalg` that are the same."""
    refine: Refine | None = None
    """Given an op and the options of its model, the options that this target has: some left out, some added.

    Asked for every op that does not carry options of its own, each time a new Format reaches it; must not depend on
    anything but the op, its neighbours and the options.
    """
    refines_locally: bool = False
    """Whether `refine` looks at the op and the options alone, so that its answer holds for all ops that are alike."""
    caveat: Callable[[], str | None] = no_caveat
    """Why the target is not what its name says on this machine; None where it is."""
    panel: int = 0
    """Columns of a panel, where its matrix products take the right operand packed in panels; 0 where they do not."""
    rates: Rates = BUILT_IN
    """How fast it moves bytes and multiplies, for the costs that it does not state itself."""
    costs: CostModel | None = None
    """What moving costs on it, where that does not follow from `rates`, and what options cost in place of what they
    state. Costs that a call or a command names take precedence."""

    def __post_init__(self) -> None:
        for what, kind, word in (
            ("name", str, "a str"),
            ("summary", str, "a str"),
            ("rates", Rates, "Rates"),
        ):
            if not isinstance(getattr(self, what), kind):
                raise LayoutError(
                    f"{what} of a target is {word}, not of type {type(getattr(self, what)).__name__}"
                )
        if _NAME.fullmatch(self.name) is None:
            raise LayoutError(
                f"{self.name!r} is no name of a target: expected letters, digits, '_', '.', '+' and '-'"
            )
        if checked_integer("panel of a target =", self.panel) < 0:
            raise LayoutError(
                f"panel = {self.panel} of target {self.name}: a panel has a column or more, or is 0"
            )
        check_flags(refines_locally=self.refines_locally)
        if self.costs is not None and not isinstance(self.costs, CostModel):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise LayoutError(
                f"costs of target {self.name} is a CostModel, not of type {type(self.costs).__name__}"
            )
        for what in ("conv_kernels", "refine", "caveat"):
            given = getattr(self, what)
            if not (callable(given) or (given is None and what == "refine")):
                raise LayoutError(
                    f"{what} of target {self.name} is a function, not of type {type(given).__name__}"
                )

    def own_costs(self) -> CostModel | None:
        """The costs that the target brings along; None where those are the built-in ones."""
        if self.costs is not None:
            return self.costs
        return None if self.rates == BUILT_IN else CostModel(self.rates)


Model = Callable[[Operation, Candidates, Target], Iterable[LayoutOption]]
"""Gives the options of an op from the Formats known so far for its values, and the target."""


# Formats ---------------------------------------------------------------------------------------------------------

_SPACE = {1: "w", 2: "hw", 3: "dhw"}


@lru_cache(maxsize=256)
def activation(rank: int, order: str, *blocks: tuple[str, int]) -> Format:
    """A Format of (n, c, space) with outer factors in `order` (S stands for all of space) and inner `blocks`."""
    return _format("nc", rank, order, blocks)


@lru_cache(maxsize=256)
def weight(rank: int, order: str, *blocks: tuple[str, int]) -> Format:
    """A Format of weights (o, i, space), with `order` and `blocks` as for `activation`."""
    return _format("oi", rank, order, blocks)


def _format(lead: str, rank: int, order: str, blocks: tuple[tuple[str, int], ...]) -> Format:
    names = lead + _SPACE[rank]
    outer = order.replace("S", _SPACE[rank])
    factors = [Factor(names.index(name)) for name in outer]
    factors += [Factor(names.index(name), size) for name, size in blocks]
    return Format(tuple(names), tuple(factors), pad="zero" if blocks else "undef")


# Kernels that several targets have --------------------------------------------------------------------------------


def row_major_kernel(conv: ConvShape, rate: int) -> ConvKernel:
    """All tensors row-major, as a matrix product over unrolled windows: at `rate` where there are no groups.

    Each group is a product of its own, as narrow as the group: `_DEPTHWISE` for one channel, near `rate` for many.
    """
    rank = conv.spatial_rank
    if conv.group > 1:
        rate = grouped_rate(rate, conv.inputs_per_group, conv.outputs_per_group)
    return ConvKernel(activation(rank, "ncS"), weight(rank, "oiS"), activation(rank, "ncS"), rate)


def grouped_rate(rate: int, inputs: int, outputs: int) -> int:
    """Operations per ns of row-major groups of so many channels, where a product without groups has `rate`."""
    width, narrow = min(inputs, outputs), min(rate, _DEPTHWISE)
    return rate * narrow * width // (narrow * width + rate - narrow)


_DEPTHWISE = 19
"""Operations per ns of row-major depthwise convolutions, at most: 4.5 to 19 were measured, whatever the vectors."""


def channels_last_kernel(conv: ConvShape, rate: int) -> ConvKernel:
    """The kernel of nhwc activations and ohwi weights, at `rate` operations per ns."""
    last = activation(conv.spatial_rank, "nSc")
    return ConvKernel(last, weight(conv.spatial_rank, "oSi"), last, rate)


def blocked_kernels(conv: ConvShape, block: int, rate: int) -> Iterator[ConvKernel]:
    """The kernels of a library whose channels are in blocks of one vector of `block` elements: nChw8c with OIhw8i8o,
    depthwise, grouped, and the first layer of a network."""
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
