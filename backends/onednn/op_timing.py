"""What ops and reorders take here: each as the executor would run it, alone, on tensors that lie as they would.

An op becomes a function of its own whose arguments lie in the Formats of an option, and is planned as a network is: by
its primitive, with what is reordered on its way, or by the NumPy reference where the library has none. Contenders take
turns (`backends.llvm.runtime.timing`), so that ratios of prices mean more than the prices. Prices are those of an op in
a network: its operands are in the caches, as far as they fit, for the op before it has just written them; its weights
are in none, for the ops since its last call had weights of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from xdsl.dialects.builtin import FunctionType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.algebra.tag import names_for
from layout_ir.backends.llvm import compile_reorder
from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.llvm.runtime.timing import Limits, median_interval, race, touched_bytes
from layout_ir.backends.onednn.execution_plan import ExecutionPlan, Place, plan_execution
from layout_ir.backends.onednn.library import Library, Refused
from layout_ir.backends.onednn.plan_runner import PlanRunner
from layout_ir.backends.reference.tensor import Tensor
from layout_ir.dialects import nn
from layout_ir.dialects.layout import format_of, layout_of, with_format
from layout_ir.dialects.layout.types import tensor_type
from layout_ir.elements.numpy_types import storage
from layout_ir.errors import LayoutError
from layout_ir.interfaces import LayoutOption
from layout_ir.passes.pad_queries import provided_pad
from layout_ir.passes.rewriting import retype
from layout_ir.passes.selection.costs.calibration import machine_name
from layout_ir.passes.selection.costs.price_keys import PriceKey
from layout_ir.passes.selection.costs.price_table import Price, PriceSource
from layout_ir.passes.selection.translation.priced_selection import OpQuestion, Question, ReorderQuestion
from layout_ir.version import __version__

Call = Callable[[], object]

_LIMITS = Limits(precision=0.03, seconds=0.25, fewest=7, most=15, batch=0.0004)
"""Rounds of contenders that take turns: 7 are enough for an interval that holds the median in 95 of 100 cases."""

_SLOW = 0.02
"""Seconds of a call beyond which it is run three times and no more, and its interval is taken wider."""

_SLOW_FACTOR = 1.5

_WEIGHTS = 1 << 12
"""Bytes of constants from which it matters whether a cache holds them."""

_TURNS = 8
"""Contenders that take turns at most: all of them are in memory at once."""


def price_source(library: Library, threads: int) -> PriceSource:
    """Whose prices these are."""
    return PriceSource(
        machine_name(), f"{library}, {library.instruction_set}, layout-ir {__version__}", threads
    )


def measured(
    questions: Sequence[tuple[PriceKey, Question]],
    library: Library,
    threads: int,
    times: Callable[[Sequence[Call]], list[Price]] | None = None,
) -> Iterator[tuple[PriceKey, Price | None]]:
    """The answers as they come, None where what is asked for does not run here; options of one op, and reorders of one
    shape, take turns. `times` gives the prices of calls; else they are timed."""
    groups: dict[object, list[tuple[PriceKey, Question]]] = {}
    for key, question in questions:
        groups.setdefault((key.op, key.attributes, tuple(t.shape for t in key.ins)), []).append(
            (key, question)
        )
    for group in groups.values():
        for first in range(0, len(group), _TURNS):
            yield from _together(group[first : first + _TURNS], library, threads, times or prices_of)


def _together(
    group: Sequence[tuple[PriceKey, Question]],
    library: Library,
    threads: int,
    times: Callable[[Sequence[Call]], list[Price]],
) -> Iterator[tuple[PriceKey, Price | None]]:
    calls: dict[PriceKey, Call] = {}
    for key, question in group:
        match question:
            case OpQuestion():
                call = op_call(question.op, question.option, library, threads)
            case ReorderQuestion():
                call = reorder_call(question.source, question.destination, question.dtype, threads)
        if call is None:
            yield key, None
        else:
            calls[key] = call
    yield from zip(calls, times(list(calls.values())), strict=True)


@dataclass(frozen=True)
class OpCall:
    """An op as a call to be timed."""

    steps: Call
    inputs: Sequence[Tensor]
    """What it reads besides its constants."""
    constant_bytes: int
    """Bytes of its constants, as they are packed."""
    twin: Call | None = None
    """The same on constants of its own, where there are any that a cache could hold."""

    def __call__(self) -> None:
        self.steps()


def op_call(op: Operation, option: LayoutOption, library: Library, threads: int) -> OpCall | None:
    """`op` on tensors that lie as `option` says, as a call to be timed; None where the executor cannot run it so."""

    def planned() -> ExecutionPlan:
        return plan_execution(_function_of(op, option), library, threads=threads)

    try:
        plan = planned()
        inputs = [_filled(place) for place in plan.inputs]
        steps = PlanRunner(plan, threads=threads).steps_on(inputs)
        has_twin = _WEIGHTS <= plan.constant_bytes <= host().l3
        twin = PlanRunner(planned(), threads=threads).steps_on(inputs) if has_twin else None
    except (LayoutError, Refused):
        return None
    return OpCall(steps, inputs, plan.constant_bytes, twin)


def reorder_call(source: Layout, destination: Layout, dtype: str, threads: int) -> Call | None:
    """The compiled reorder, as a call to be timed; None where there is none."""
    try:
        if destination.is_padded and destination.pad == "undef":
            destination = destination.format.with_pad("zero").bind(destination.shape)
        kernel = compile_reorder(source, destination, dtype, threads=threads)
    except LayoutError:
        return None
    # Arrays take the shorter way into a kernel than addresses do.
    x, y = (
        touched_bytes(layout.nbytes(dtype)).view(f"u{kernel.plan.width}") for layout in (source, destination)
    )
    return lambda: kernel(x, y)


def prices_of(calls: Sequence[Call]) -> list[Price]:
    """The price of each call: the median of rounds in which all take turns, and its interval."""
    slow = {k: price for k, call in enumerate(calls) if (price := _slow_price(call)) is not None}
    fast = {k: call for k, call in enumerate(calls) if k not in slow}
    for k, own in zip(fast, rounds_of(list(fast.values()), _LIMITS), strict=True):
        found = median_interval(own)
        slow[k] = _price(found.low, found.middle, found.high)
    return [slow[k] for k in range(len(calls))]


def rounds_of(calls: Sequence[Call], limits: Limits) -> list[list[float]]:
    """Seconds of each call per round, in which all take turns, until the medians are precise or the time is up."""
    if not calls:
        return []
    if any(isinstance(call, OpCall) and call.constant_bytes >= _WEIGHTS for call in calls):
        return _rounds_without_weights(calls, limits)
    named = {str(k): call for k, call in enumerate(calls)}
    times = race(named, lambda times: _uncertainty(times.rounds.values()), limits)
    return [list(own) for own in times.rounds.values()]


def _rounds_without_weights(calls: Sequence[Call], limits: Limits) -> list[list[float]]:
    """The same, where each call finds its operands and its code in the caches, and its constants in none."""
    others = np.ones(max(host().l3, 1 << 24), np.uint8)
    rounds: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()  # whatever it does once is done
    start = perf_counter()
    for done in range(1, limits.most + 1):
        for call, own in zip(calls, rounds, strict=True):
            _ = others.max()
            if isinstance(call, OpCall):
                for tensor in call.inputs:
                    _ = tensor.buffer.max()
                if call.twin is not None:
                    call.twin()
            begun = perf_counter()
            call()
            own.append(perf_counter() - begun)
        late = perf_counter() - start > limits.seconds
        if done >= limits.fewest and (late or _uncertainty(rounds) <= limits.precision):
            break
    return rounds


def _uncertainty(rounds: Iterable[Sequence[float]]) -> float:
    return max(median_interval(own).uncertainty for own in rounds)


def _slow_price(call: Call) -> Price | None:
    """The price of a call that takes long, by a few runs; None for one that does not."""
    times: list[float] = []
    for _ in range(4):
        start = perf_counter()
        call()
        times.append(perf_counter() - start)
        if len(times) == 2 and times[1] < _SLOW:
            return None
    rest = sorted(times[1:])  # the first also fills caches and starts threads
    return _price(rest[0] / _SLOW_FACTOR, rest[1], rest[-1] * _SLOW_FACTOR)


def _price(*seconds: float) -> Price:
    low, middle, high = (max(round(1e9 * each), 1) for each in seconds)
    return Price(low, middle, high)


# One op ---------------------------------------------------------------------------------------------------------------


def _function_of(op: Operation, option: LayoutOption) -> FuncOp:
    """A function of `op` alone, on arguments that lie as `option` says; constants are constants of the function."""
    block = Block()
    mapped: list[SSAValue] = []
    made: dict[tuple[SSAValue, Format | None], SSAValue] = {}
    for value, fmt in zip(op.operands, option.ins, strict=True):
        at = (value, fmt)
        if at not in made:
            if isinstance(value.owner, nn.ConstantOp):
                constant = value.owner.clone()
                block.add_op(constant)
                made[at] = retype(constant.result, with_format(value.type, Format.row_major(_names(value))))
            else:
                assert fmt is not None
                made[at] = block.insert_arg(_typed(value.type, fmt), len(block.args))
        mapped.append(made[at])
    inner = op.clone_without_regions()
    inner.operands = mapped
    block.add_op(inner)
    for result, fmt in zip(list(inner.results), option.outs, strict=True):
        _ = retype(result, with_format(result.type, fmt.with_pad("undef")))
    for result, fmt in zip(list(inner.results), option.outs, strict=True):
        if layout_of(result.type).is_padded:
            held = provided_pad(inner)
            _ = retype(result, with_format(result.type, fmt.with_pad("undef" if held is None else held)))
    block.add_op(ReturnOp(*inner.results))
    arguments = [argument.type for argument in block.args]
    function = FuncOp(
        "main", FunctionType.from_lists(arguments, [r.type for r in inner.results]), Region(block)
    )
    return function


def _names(value: SSAValue) -> tuple[str, ...]:
    known = format_of(value.type)
    return known.names if known is not None else names_for(len(tensor_type(value.type).get_shape()))


def _typed(type: Attribute, fmt: Format) -> Attribute:
    """`type` in `fmt`, whose pads hold zeros where there are any."""
    found = with_format(type, fmt.with_pad("undef"))
    return with_format(type, fmt.with_pad("zero")) if layout_of(found).is_padded else found


def _filled(place: Place) -> Tensor:
    """A tensor for an argument: floats between 1/2 and 1, whose products neither vanish nor overflow; else zeros, which
    are within bounds wherever they are indices."""
    kind = storage(place.dtype)
    extent = max(place.layout.extent, 1)
    if kind.kind != "f":
        return Tensor(np.zeros(extent, kind), place.layout, place.dtype)
    numbers = np.random.default_rng(extent).uniform(0.5, 1.0, min(extent, 4096))
    return Tensor(np.resize(numbers, extent).astype(kind), place.layout, place.dtype)
