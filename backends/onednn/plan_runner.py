"""A plan as a callable on arrays, for any number of threads at a time.

Each call takes a context of its own (`execution_context`), made once and kept for later calls. A call of the plan is
one native call, in which the GIL is released, for all steps between two that NumPy computes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeGuard

import numpy as np

from layout_ir.backends.onednn.execution_context import ExecutionContext
from layout_ir.backends.onednn.plan_steps import (
    ControlStep,
    ExecutionPlan,
    Owner,
    ReferenceStep,
    Step,
    StepTime,
)
from layout_ir.backends.reference.tensor import Tensor
from layout_ir.elements.numpy_types import Array, storage

_NOTHING: Mapping[int, Any] = {}


class PlanRunner:
    """Runs a plan; re-entrant. With `checked`, the arena holds NaN before each call, and what lies around it must not
    change: LayoutError says where it did. With `nested`, the plan is that of a subgraph: loops and branches in it are
    records where they can be, which nobody can interrupt.
    """

    def __init__(
        self, plan: ExecutionPlan, *, threads: int, checked: bool = False, nested: bool = False
    ) -> None:
        self.plan = plan
        self.threads = threads
        self.checked = checked
        self._by_python = [step for step in plan.steps if _is_by_python(step, nested)]
        self.is_native = not self._by_python
        """Whether all steps are machine code, with no call of Python between them."""
        self._idle: deque[ExecutionContext] = deque()

    def __call__(self, inputs: Sequence[Tensor], times: list[StepTime] | None = None) -> list[Array]:
        """The results, in their logical shapes. `times` is given an entry per step."""
        return self._run([np.ascontiguousarray(tensor.buffer) for tensor in inputs], times)

    def on_arrays(
        self, arrays: Sequence[Array], into: Sequence[Array | None] = (), *, lends: bool = False
    ) -> list[Array]:
        """The results, in their logical shapes, for arrays that lie as the inputs do, which the caller has looked at.

        A result is written to its array in `into`, row-major, where there is one. With `lends`, one that is an input or
        a constant is that memory itself, which must not be written.

        Small networks run in microseconds: where a call is its records, this writes addresses, makes one native call,
        and nothing else.
        """
        return self._run(arrays, None, into, self._lent if lends else _NOTHING)

    @cached_property
    def _lent(self) -> dict[int, int | Array]:
        """Results that are inputs, by the number of the input, or constants."""
        found: dict[int, int | Array] = {}
        for number, place in enumerate(self.plan.results):
            buffer = place.buffer
            if place.start or not place.is_dense:
                continue
            if (
                buffer.owner is Owner.INPUT
                and self.plan.inputs[buffer.number].layout.nelems == place.layout.nelems
            ):
                found[number] = buffer.number
            elif buffer.owner is Owner.CONSTANT and buffer.array is not None:
                kind, shape = storage(place.dtype), place.layout.shape
                data = buffer.array.reshape(-1).view(np.uint8)[: place.layout.nelems * kind.itemsize]
                found[number] = data.view(kind).reshape(shape)
        return found

    def _run(
        self,
        arrays: Sequence[Array],
        times: list[StepTime] | None,
        into: Sequence[Array | None] = (),
        lent: Mapping[int, int | Array] = _NOTHING,
    ) -> list[Array]:
        context = self.take()
        try:
            if times is None and context.is_records:
                return context.run_records(arrays, into)
            return context.run(arrays, times, into, lent)
        finally:
            self.give_back(context)

    def take(self) -> ExecutionContext:
        """Returns a context that no other call uses until it is given back."""
        try:
            return self._idle.pop()
        except IndexError:
            return self.new_context()

    def new_context(self) -> ExecutionContext:
        """Returns a new context, which the caller keeps."""
        return ExecutionContext(self.plan, self.threads, self.checked, self._by_python)

    def give_back(self, context: ExecutionContext) -> None:
        """Takes back a context, for a later call."""
        self._idle.append(context)

    def steps_on(self, inputs: Sequence[Tensor]) -> Callable[[], None]:
        """All steps of a call on `inputs`, without what is done before and behind them: what is repeated to be timed.

        The results stay where the steps write them.
        """
        buffers = [np.ascontiguousarray(tensor.buffer) for tensor in inputs]
        return ExecutionContext(self.plan, self.threads, False, self._by_python).repeated(buffers)


def _is_by_python(step: Step, nested: bool) -> TypeGuard[ControlStep | ReferenceStep]:
    """Whether a step is a call of Python, of a plan within another one or not."""
    if isinstance(step, ControlStep):
        return not (nested and step.flow.is_native)
    return isinstance(step, ReferenceStep)
