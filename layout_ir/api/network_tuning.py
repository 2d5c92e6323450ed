"""Which of several compiled programs of one network is the fastest here: found by running them in turns.

    executable = li.compile("model.onnx", threads=2, tune=True)

The choice of least price keeps its place unless another is faster beyond the noise, and is so again when just the two
take turns: the fastest of several looks faster than it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from layout_ir.api.executable import Program
from layout_ir.backends.llvm.runtime.timing import Limits, Times, race
from layout_ir.backends.onednn.plan_steps import Place
from layout_ir.backends.reference.tensor import Tensor
from layout_ir.elements.element_types import element_type
from layout_ir.elements.numpy_types import Array, narrow, storage

MARGIN = 0.01
"""By how much another program has to be faster: two builds of one plan differ by less."""

_MOST_ROUNDS = 200


def signature(module: ModuleOp) -> tuple[str, ...]:
    """What tells two programs of one network apart: ops and types, in order."""
    return tuple(f"{op.name} {[str(result.type) for result in op.results]}" for op in module.walk())


def fastest(calls: Mapping[str, Callable[[], object]], seconds: float) -> tuple[str, float]:
    """The name of the fastest of `calls`, the first of which keeps its place unless another is faster beyond the noise,
    and how many times as fast as the first it is. Two thirds of the `seconds` are for all, the rest for the two."""
    first = next(iter(calls))
    if len(calls) == 1:
        return first, 1.0
    times = race(calls, lambda times: _uncertainty(times, calls, first), _limits(seconds * 2 / 3))
    best = min(calls, key=times.median)
    if best == first:
        return first, 1.0
    pair = {first: calls[first], best: calls[best]}
    gain = race(pair, lambda times: _uncertainty(times, pair, first), _limits(seconds / 3)).speedup(
        best, over=first
    )
    return (best, gain.middle) if gain.low > 1 + MARGIN else (first, 1.0)


def _limits(seconds: float) -> Limits:
    return Limits(precision=MARGIN / 2, seconds=seconds, most=_MOST_ROUNDS)


def _uncertainty(times: Times, names: Mapping[str, object], first: str) -> float:
    return max(times.ratio(name, to=first).uncertainty for name in names if name != first)


def call_of(program: Program) -> Callable[[], object]:
    """A call of the program, on floats drawn at random and integers that are 0, an index into whatever there is."""
    return partial(program.runner, some_inputs(program.plan.inputs))


def some_inputs(places: Sequence[Place]) -> list[Tensor]:
    """A tensor for each place: floats from the normal distribution, the same ones each time; all else is 0."""
    rng = np.random.default_rng(0)
    return [Tensor(_buffer(place, rng), place.layout, place.dtype) for place in places]


def _buffer(place: Place, rng: np.random.Generator) -> Array:
    count = place.layout.extent
    if element_type(place.dtype).is_float:
        return narrow(rng.standard_normal(count, np.float32), place.dtype)
    return np.zeros(count, storage(place.dtype))
