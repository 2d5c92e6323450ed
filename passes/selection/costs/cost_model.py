"""What moving and computing costs, in whole numbers of one unit, so that an optimum is exact and reproducible.

The built-in figures are nanoseconds of one core of a current x86 server, measured with the layouts this project
knows: they need not be right to a percent, they need to rank. A reorder of n bytes (source and destination together)
takes

    call_ns + n / bytes_per_ns

(`Rates`) with 20 bytes per nanosecond, what compiled reorders reach in memory (25 to 35 on sizes that miss every cache,
60 to 75 in L2), and a call that costs about a microsecond with its cold misses. They are constants, so that a program
comes out the same on every machine; `costs=calibrated` prices reorders by what `layout-ir calibrate` measured on this
one instead (`calibration.py`), and leaves ops their costs.

A target of one's own brings its own rates, or a `CostModel` of its own. A cost table in JSON replaces costs entry by
entry (`cost_table.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isfinite

from xdsl.ir import Operation

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.diagnostics import name_of_op
from layout_ir.dialects.layout.ops import can_cast
from layout_ir.errors import LayoutError, UnforeseenError
from layout_ir.interfaces import LayoutOption
from layout_ir.selection.solver.selection_problem import FORBIDDEN

COST_LIMIT = 1 << 48
"""Costs stay below this, so that sums over a million ops stay below what counts as forbidden."""


@dataclass(frozen=True, slots=True)
class Rates:
    """How fast a machine is, as far as the built-in costs depend on it. Raises LayoutError for no positive number."""

    bytes_per_ns: float = 20
    """Bytes that a reorder, or an op that only streams its tensors, reads and writes per nanosecond."""
    call_ns: float = 1000
    """Nanoseconds that such an op takes however small its tensors are; 0 or more."""
    operations_per_ns: float = 80
    """Floating-point operations of a matrix product per nanosecond. Convolutions have the rates of their kernels."""

    def __post_init__(self) -> None:
        for name, least in (
            ("bytes_per_ns", "above 0"),
            ("call_ns", "from 0 on"),
            ("operations_per_ns", "above 0"),
        ):
            given: object = getattr(self, name)
            fits = isinstance(given, int | float) and not isinstance(given, bool) and isfinite(given)
            if not fits or not (given >= 0 if least == "from 0 on" else given > 0):  # pyright: ignore[reportOperatorIssue]
                raise LayoutError(f"{name} = {given!r} is no number {least}")

    def stream(self, nbytes: int) -> int:
        """Nanoseconds of an op that reads and writes `nbytes` once (elementwise, pools, concat)."""
        return int(self.call_ns + nbytes // self.bytes_per_ns)

    def product(self, operations: int) -> int:
        """Nanoseconds of a matrix product of so many floating-point operations."""
        return int(operations // self.operations_per_ns)


BUILT_IN = Rates()


def reorder_bytes(source: Layout, destination: Layout, dtype: str) -> int:
    """Bytes a reorder reads and writes: both buffers from where the tensors begin, pads of the destination included."""
    return source.without_offset.nbytes(dtype) + destination.without_offset.nbytes(dtype)


def reorder_ns(source: Layout, destination: Layout, dtype: str, rates: Rates = BUILT_IN) -> int:
    """Estimated time of a reorder; 0 where the destination is only another name for the same bytes."""
    if can_cast(source, destination):
        return 0
    return rates.stream(reorder_bytes(source, destination, dtype))


def apart(source: Layout, destination: Layout) -> tuple[Layout, Layout]:
    """Source and destination of a reorder, each in a buffer of its own; of two windows that differ in their offset
    alone, the second begins behind the first, so that they are not the same memory."""
    alone = source.without_offset, destination.without_offset
    if source.offset != destination.offset and can_cast(*alone):
        return alone[0], replace(alone[1], offset=1)
    return alone


def fill_bytes(layout: Layout, dtype: str) -> int:
    """Bytes that filling the pads of a tensor writes: its pads, and nothing else."""
    layout = layout.without_offset
    return layout.nbytes(dtype) - layout.nelems * layout.nbytes(dtype) // max(layout.extent, 1)


def fill_ns(layout: Layout, dtype: str, rates: Rates = BUILT_IN) -> int:
    """Estimated time of writing the pads of a tensor."""
    return rates.stream(fill_bytes(layout, dtype))


class CostModel:
    """The built-in costs, at these rates. Subclasses replace some."""

    unit = "ns"
    source: str | None = None
    """The file of the cost table, as it was named; "calibrated" for measured costs, None for the built-in ones."""
    speaks_of: str = ""
    """Whose costs these are, in words, where a report is to say that instead of the file."""
    rates: Rates = BUILT_IN
    tells_offsets = True
    """Whether the cost of a reorder depends on the addresses at which the tensors begin in their buffers."""
    tells_constants = False
    """Whether costs depend on which operands are constants, so that ops are alike only where the same ones are."""

    def __init__(self, rates: Rates = BUILT_IN):
        self.rates = rates

    def reorder(self, source: Layout, destination: Layout, dtype: str) -> int:
        """What a reorder costs; FORBIDDEN where it is impossible."""
        return reorder_ns(source, destination, dtype, self.rates)

    def fill(self, layout: Layout, dtype: str) -> int:
        """What it costs to write the pads of a tensor, and nothing else."""
        return fill_ns(layout, dtype, self.rates)

    def op(self, name: str, option: LayoutOption, shapes: Sequence[tuple[int, ...]]) -> int:
        """What an option of the op `name` costs; `shapes` are those of its tensor operands, then results."""
        return option.cost

    def for_op(self, op: Operation, option: LayoutOption, shapes: Sequence[tuple[int, ...]]) -> int:
        """What an option of `op` costs, for who asks more of it than its name, as its attributes: as `op` says."""
        return self.op(name_of_op(op), option, shapes)

    def formats(self, shape: tuple[int, ...]) -> Sequence[Format]:
        """Formats that a reorder of a tensor of this shape may pass through although no op asks for them."""
        return ()


class CheckedCosts(CostModel):
    """Another cost model, whose answers are checked: whole numbers in [0, 2^48), or FORBIDDEN for a reorder.

    Raises LayoutError, naming the model and the question, where one is not.
    """

    def __init__(self, model: CostModel):
        self.model = model
        self.unit, self.source = model.unit, model.source
        self.tells_constants, self.tells_offsets = model.tells_constants, model.tells_offsets

    def reorder(self, source: Layout, destination: Layout, dtype: str) -> int:
        """What the model says, checked."""
        cost = self._asked(
            lambda: self.model.reorder(source, destination, dtype), "reorder", source, destination
        )
        return cost if cost >= FORBIDDEN else self._checked(cost, "reorder", source, destination)

    def fill(self, layout: Layout, dtype: str) -> int:
        """What the model says, checked."""
        return self._checked(
            self._asked(lambda: self.model.fill(layout, dtype), "fill", layout), "fill", layout
        )

    def op(self, name: str, option: LayoutOption, shapes: Sequence[tuple[int, ...]]) -> int:
        """What the model says, checked."""
        return self._checked(self._asked(lambda: self.model.op(name, option, shapes), "op", name), "op", name)

    def for_op(self, op: Operation, option: LayoutOption, shapes: Sequence[tuple[int, ...]]) -> int:
        """What the model says, checked."""
        name = name_of_op(op)
        return self._checked(
            self._asked(lambda: self.model.for_op(op, option, shapes), "op", name), "op", name
        )

    def formats(self, shape: tuple[int, ...]) -> Sequence[Format]:
        """What the model says."""
        return self.model.formats(shape)

    def _asked(self, question: Callable[[], object], name: str, *about: object) -> int:
        try:
            answer = question()
        except LayoutError:
            raise
        except Exception as error:
            raise UnforeseenError(self._subject(name, about), error) from error
        if not isinstance(answer, int) or isinstance(answer, bool):
            raise LayoutError(f"{self._subject(name, about)} = {answer!r} is no int")
        return answer

    def _checked(self, cost: int, name: str, *about: object) -> int:
        if not 0 <= cost < COST_LIMIT:
            raise LayoutError(f"{self._subject(name, about)} = {cost} is not in [0, 2^48)")
        return cost

    def _subject(self, name: str, about: Sequence[object]) -> str:
        return f"cost model {type(self.model).__name__}: {name}({', '.join(map(str, about))})"


CALIBRATED = "calibrated"
"""Stands for a file where the costs of this machine are meant, as `layout-ir calibrate` measured them."""


SHIPPED = ("onednn-avx2", "onednn-avx512")
"""The names of the price models that come with the package, which stand for a file as well."""


def proven_for(costs: CostModel | None, target: str) -> str:
    """What an optimum is proven for, in words: the costs and the target."""
    if costs is None or (costs.source is None and type(costs) is CostModel):
        return f"the cost model of target {target}"
    if costs.source == CALIBRATED:
        return f"the costs calibrated on this machine, target {target}"
    if costs.speaks_of:
        return f"{costs.speaks_of}, target {target}"
    name = (
        f"cost table {costs.source}" if costs.source else f"a cost model of its own ({type(costs).__name__})"
    )
    return f"{name}, target {target}"
