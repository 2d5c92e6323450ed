"""`compile`: a network as a callable that oneDNN executes, in the layouts that cost it least.

    executable = li.compile("model.onnx", threads=2)
    outputs = executable({"x": array})
    print(executable.describe())

Every op becomes a primitive of the library in the formats that were chosen for it; elementwise ops behind it become
its post-ops. Reorders are our compiled kernels, and so are loops for what the library has no primitive for. What has
neither runs by the NumPy reference, and is named in `fallbacks`. Weights are packed once.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import RLock
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from layout_ir.api.execute import Inputs, arguments_of, entry_point, input_names, result_names
from layout_ir.api.measured_selection import MEASURE_SECONDS, Measure, check_measure, optimize
from layout_ir.backends.onednn.dequantization import sink_dequantizations
from layout_ir.backends.onednn.execution_plan import (
    ExecutionPlan,
    KernelStep,
    LoopStep,
    Place,
    PrimitiveStep,
    ReferenceStep,
    plan_execution,
)
from layout_ir.backends.onednn.gather_views import replace_gathers
from layout_ir.backends.onednn.half_floats import widen_half_floats
from layout_ir.backends.onednn.integer_primitives import state_integer_options
from layout_ir.backends.onednn.library import library
from layout_ir.backends.onednn.node_decomposition import decompose_nodes
from layout_ir.backends.onednn.pad_folding import fold_pads
from layout_ir.backends.onednn.plan_runner import PlanRunner, StepTime
from layout_ir.backends.onednn.recognized_functions import recognize_functions
from layout_ir.backends.onednn.transposition_sinking import compose_transpositions, sink_transpositions
from layout_ir.backends.reference.tensor import Tensor, is_row_major
from layout_ir.diagnostics import name_of_op
from layout_ir.elements.numpy_types import Array, storage
from layout_ir.errors import LayoutError, public, public_methods
from layout_ir.forking import fork_safe
from layout_ir.passes.selection.translation.from_ir import is_open

if TYPE_CHECKING:
    from layout_ir.frontends.onnx.model import Source
    from layout_ir.passes.selection.options.conv_kernels import Target

_KEPT = 16
"""For how many shapes of its inputs a model with open sizes stays compiled."""

Shapes = tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True, eq=False)
class _Program:
    """A function for one shape of each input, compiled."""

    module: ModuleOp
    function: FuncOp
    runner: PlanRunner

    @property
    def plan(self) -> ExecutionPlan:
        """What is executed."""
        return self.runner.plan

    def tensors(self, inputs: Inputs) -> list[Tensor]:
        """The arguments of a call. Raises LayoutError where `inputs` are not those of the function."""
        found = self._as_they_are(inputs)
        if found is not None:
            return found
        return [value for value in arguments_of(self.function, inputs) if isinstance(value, Tensor)]

    def _as_they_are(self, inputs: Inputs) -> list[Tensor] | None:
        """The inputs where each is an array that lies as its argument does; None where one has to be looked at.

        Small networks run in a tenth of a millisecond, of which looking at one input takes a fifth.
        """
        expected = self._expected
        if expected is None or len(inputs) != len(expected):
            return None
        try:
            arrays = [inputs[name] for name in expected] if isinstance(inputs, Mapping) else list(inputs)
        except KeyError:
            return None
        for array, place in zip(arrays, expected.values(), strict=True):
            if (
                type(array) is not np.ndarray
                or array.dtype != storage(place.dtype)
                or array.shape != place.layout.shape
                or not array.flags.c_contiguous
            ):
                return None
        return [
            Tensor(array.reshape(-1), place.layout, place.dtype)
            for array, place in zip(arrays, expected.values(), strict=True)
        ]

    @cached_property
    def _expected(self) -> dict[str, Place] | None:
        """Where each input lies, by its name; None where one is not row-major, or NumPy lacks its elements."""
        places = self.plan.inputs
        if not all(
            place.dtype in ("f32", "f64", "i32", "i64")
            and is_row_major(place.layout)
            and not place.layout.is_padded
            for place in places
        ):
            return None
        return dict(zip(input_names(self.function), places, strict=True))


@dataclass(frozen=True)
class _Settings:
    target: str | Target
    threads: int
    fuse: bool
    checked: bool
    measure: Measure
    measure_seconds: float

    def program(self, module: ModuleOp, entry: str) -> _Program:
        """The module, which becomes ours, with its layouts chosen, compiled."""
        function = entry_point(module, entry)
        state_for_library(module, function)
        if is_open(module):
            optimize(
                module,
                self.target,
                measure=self.measure,
                measure_seconds=self.measure_seconds,
                threads=self.threads,
            )
        plan = plan_execution(function, library(), threads=self.threads, fuse=self.fuse)
        return _Program(module, function, PlanRunner(plan, threads=self.threads, checked=self.checked))


def state_for_library(module: ModuleOp, function: FuncOp) -> None:
    """Says the program, in place, in ops that there are kernels for, before layouts are chosen for them."""
    decompose_nodes(module)
    widen_half_floats(function, library())
    if is_open(module):
        replace_gathers(module)
        recognize_functions(module)
        sink_transpositions(module)
        fold_pads(module)
        sink_dequantizations(module)
        compose_transpositions(module)
        state_integer_options(module)


@public_methods
class Executable:
    """A compiled network: `executable(inputs)` gives the list of its outputs. Made by `layout_ir.compile`.

    Any number of threads may call it at a time; in the library's calls the GIL is released.
    """

    def __init__(self, settings: _Settings, model: Source | None, program: _Program | None, names: list[str]):
        self._settings = settings
        self._model = model
        self._programs: OrderedDict[Shapes, _Program] = OrderedDict()
        self._static = program
        self._lock = RLock()
        fork_safe(self._lock)
        self.input_names = names
        """The names of the inputs."""

    @property
    def threads(self) -> int:
        """On how many threads a call runs."""
        return self._settings.threads

    def __call__(self, inputs: Inputs = ()) -> list[Array]:
        """The outputs, as arrays of their logical shapes, in order.

        `inputs` are arrays by position or by name, as `layout_ir.run` takes them. A model with open sizes is compiled
        at its first call with inputs of some shape. Raises LayoutError where inputs do not fit.
        """
        program = self._program(inputs)
        return program.runner(program.tensors(inputs))

    def profile(self, inputs: Inputs = ()) -> list[StepTime]:
        """One call, timed step by step: what each computed, in which layouts, how many bytes it touched, how long it
        took."""
        program = self._program(inputs)
        times: list[StepTime] = []
        program.runner(program.tensors(inputs), times)
        return times

    @property
    def output_names(self) -> list[str]:
        """The names of the outputs. Raises LayoutError before the first call of a model with open sizes."""
        return result_names(self._latest().function)

    @property
    def plan(self) -> ExecutionPlan:
        """What a call executes, step by step, and where its values lie.

        Raises LayoutError before the first call of a model with open sizes.
        """
        return self._latest().plan

    @property
    def fallbacks(self) -> dict[str, int]:
        """The ops that run by the NumPy reference, by name, and how many there are of each.

        Raises LayoutError before the first call of a model with open sizes.
        """
        steps = self._latest().plan.steps
        return dict(Counter(name_of_op(step.op) for step in steps if isinstance(step, ReferenceStep)))

    def describe(self) -> str:
        """What is executed, in a few lines: steps, memory, what fusion saves, what runs by the reference.

        Raises LayoutError before the first call of a model with open sizes.
        """
        plan = self._latest().plan
        primitives = [step for step in plan.steps if isinstance(step, PrimitiveStep)]
        reorders = sum(isinstance(step, KernelStep) for step in plan.steps)
        loops = [step for step in plan.steps if isinstance(step, LoopStep)]
        fused = sum(len(step.group.ops) - 1 for step in primitives)
        by = Counter(step.implementation for step in primitives).most_common()
        lines = [
            f"{plan.library}, {_count(self.threads, 'thread')}"
            + ("" if plan.library.sets_threads else " (this build takes all CPUs instead)"),
            (
                f"primitives   {len(primitives)}, with {_count(fused, 'op')} as post-ops: "
                f"{_bytes(plan.bytes_not_moved)} not moved"
            ),
            *(f"             {count:4} {name}" for name, count in by),
            f"reorders     {reorders}",
            f"loops        {len(loops)}, of {_count(sum(len(step.group.ops) for step in loops), 'op')}",
            f"arena        {_bytes(plan.arena.size)}, at least {_bytes(plan.arena.lower_bound)}",
            f"constants    {_bytes(plan.constant_bytes)}",
        ]
        rest = ", ".join(f"{count} {name}" for name, count in self.fallbacks.items())
        return "\n".join([*lines, f"reference    {rest or 'none'}"])

    # Open sizes -------------------------------------------------------------------------------------------------

    def _latest(self) -> _Program:
        if self._static is not None:
            return self._static
        with self._lock:
            if not self._programs:
                raise LayoutError("the model has open sizes: it is compiled at its first call")
            return next(reversed(self._programs.values()))

    def _program(self, inputs: Inputs) -> _Program:
        if self._static is not None:
            return self._static
        shapes = self._shapes(inputs)
        with self._lock:
            found = self._programs.get(shapes)
            if found is None:
                found = self._programs[shapes] = _imported(self._settings, self._model, dict(shapes))
                if len(self._programs) > _KEPT:
                    self._programs.popitem(last=False)
            self._programs.move_to_end(shapes)
            return found

    def _shapes(self, inputs: Inputs) -> Shapes:
        names = self.input_names
        if isinstance(inputs, Mapping):
            missing = [name for name in names if name not in inputs]
            if missing:
                raise LayoutError(f"input '{missing[0]}' is missing")
            return tuple((name, np.shape(inputs[name])) for name in names)
        if len(inputs) != len(names):
            raise LayoutError(f"the model takes {_count(len(names), 'input')}, given are {len(inputs)}")
        return tuple((name, np.shape(value)) for name, value in zip(names, inputs, strict=True))


@public
def compile(
    model: ModuleOp | Source,
    target: str | Target = "onednn",
    *,
    threads: int = 1,
    shapes: Mapping[str, Sequence[int]] | None = None,
    entry: str = "main",
    fuse: bool = True,
    checked: bool = False,
    measure: Measure = "off",
    measure_seconds: float = MEASURE_SECONDS,
) -> Executable:
    """A callable that computes function `entry` of a module, which stays as it is, or an ONNX model, by oneDNN.

    Layouts that are open are chosen for `target`, a Target or the name of one. `threads` is on how many threads a call
    runs. `shapes` are those of the model's inputs, as `from_onnx` takes them; without them, a model with symbolic sizes
    is compiled for each size that it is called with. `fuse` lets elementwise ops join the op before them. With
    `checked`, memory holds NaN before each call, and a call that writes outside of its memory raises LayoutError.

    With `measure` ("deciding" or "all"), layouts are chosen by prices that are measured first, on these threads and for
    `measure_seconds` at most, as `layout_ir.optimize` does.

    Raises LayoutError where oneDNN is not installed, or the program has what cannot be executed.
    """
    if not isinstance(threads, int) or threads < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise LayoutError(f"threads = {threads!r} is no number of threads: expected a whole number from 1 on")
    check_measure(measure, measure_seconds, threads)
    library()
    settings = _Settings(target, threads, fuse, checked, measure, measure_seconds)
    if isinstance(model, ModuleOp):
        if shapes is not None:
            raise LayoutError("shapes are for ONNX models: the types of a module say its shapes")
        program = settings.program(model.clone(), entry)
        return Executable(settings, None, program, input_names(program.function))
    open_inputs, names = _inputs_of(model)
    if shapes is None and open_inputs:
        return Executable(settings, model, None, names)
    program = _imported(settings, model, shapes)
    return Executable(settings, None, program, input_names(program.function))


def _inputs_of(model: Source) -> tuple[bool, list[str]]:
    """Whether an input of an ONNX model has a symbolic size, and the names of its inputs."""
    from layout_ir.frontends.onnx.model import load

    graph = load(model).graph
    constants = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in constants]
    is_open = any(
        not dim.HasField("dim_value") for value in inputs for dim in value.type.tensor_type.shape.dim
    )
    return is_open, [value.name for value in inputs]


def _imported(
    settings: _Settings, model: Source | None, shapes: Mapping[str, Sequence[int]] | None
) -> _Program:
    from layout_ir.frontends.onnx import from_onnx

    assert model is not None
    return settings.program(from_onnx(model, shapes=shapes, keep_quantized=True), "main")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _bytes(number: int) -> str:
    return f"{number / 1e6:.1f} MB" if number >= 1e5 else f"{number} bytes"
