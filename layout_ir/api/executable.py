"""`Executable`: a compiled network as a callable, saved in a file, and loaded from one.

    executable = li.compile("model.onnx", threads=2)
    executable.save("model.exe")
    outputs = li.load_executable("model.exe")({"x": array})

What is loaded runs at once: nothing is imported, chosen or compiled but the library's primitives. A file is for the
CPU, the library and the release that it was made by, and holds machine code.
"""

from __future__ import annotations

import os
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from threading import RLock
from typing import Any, NoReturn, cast

import numpy as np

from layout_ir.api.call_inputs import Inputs, check_inputs, in_order, stored
from layout_ir.api.sectioned_program import SectionedProgram
from layout_ir.api.staged_program import StagedProgram
from layout_ir.argument_checks import checked_path
from layout_ir.backends.onednn.library import library
from layout_ir.backends.onednn.plan_runner import PlanRunner
from layout_ir.backends.onednn.plan_steps import (
    ExecutionPlan,
    KernelStep,
    LoopStep,
    PrimitiveStep,
    ReferenceStep,
    RunnablePlan,
    StepText,
    StepTime,
)
from layout_ir.backends.onednn.saved_plan import file_of, read_plan
from layout_ir.backends.reference.tensor import Tensor, is_row_major
from layout_ir.elements.numpy_types import Array, storage
from layout_ir.errors import LayoutError, UnforeseenError, public, public_methods
from layout_ir.files import write_result
from layout_ir.forking import fork_safe, loading

_KEPT = 16
"""For how many shapes of its inputs a model with dynamic extents stays compiled."""

_OFTEN = 100
"""Calls with the same shapes from which on a model in sections is compiled for them as a whole. What sections take
longer, some milliseconds per call, is then about what compiling takes."""

_AS_IN_NUMPY = ("f16", "f32", "f64", "i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64")
"""Element types that arrays hold as tensors do."""

Shapes = tuple[tuple[str, tuple[int, ...]], ...]

StatedShape = tuple[int | None, ...] | None
"""What a model says of the shape of an input: its extents, None for a dynamic one; None where it says nothing."""


class Program:
    """A function for one shape of each input, compiled. `checked` is that of `PlanRunner`."""

    def __init__(self, runnable: RunnablePlan, *, checked: bool = False) -> None:
        self.runnable = runnable
        self.tuning = ""
        """Which layouts were found to be faster than those of least price, and by how much; empty where none were."""
        self.runner = PlanRunner(runnable.plan, threads=runnable.threads, checked=checked)

    @property
    def plan(self) -> ExecutionPlan:
        """What is executed."""
        return self.runnable.plan

    @property
    def threads(self) -> int:
        """On how many threads a call runs."""
        return self.runnable.threads

    @property
    def input_names(self) -> Sequence[str]:
        """The names of the inputs."""
        return self.runnable.input_names

    @property
    def result_names(self) -> Sequence[str]:
        """The names of the results."""
        return self.runnable.result_names

    def __call__(self, inputs: Inputs) -> list[Array]:
        """The results. Raises LayoutError where `inputs` are not those of the function."""
        arrays = self._as_they_are(inputs)
        return self.runner(self.tensors(inputs)) if arrays is None else self.runner.on_arrays(arrays)

    def parts(self) -> Iterator[RunnablePlan]:
        """What is executed."""
        yield self.runnable

    def evaluated(self) -> Counter[str]:
        """Nodes that are no ops of a plan, which run by the reference: none."""
        return Counter()

    def tensors(self, inputs: Inputs) -> list[Tensor]:
        """The arguments of a call. Raises LayoutError where `inputs` are not those of the function."""
        arrays = self._as_they_are(inputs)
        if arrays is not None:
            return [
                Tensor(array.reshape(-1), place.layout, place.dtype)
                for array, place in zip(arrays, self.plan.inputs, strict=True)
            ]
        names = self.runnable.input_names
        given = in_order(names, self.runnable.title, inputs)
        return [
            stored(name, value, place.layout, place.dtype)
            for name, value, place in zip(names, given, self.plan.inputs, strict=True)
        ]

    def _as_they_are(self, inputs: Inputs) -> list[Array] | None:
        """The inputs in order where each is an array that lies as its argument does; None where one has another form.

        Small networks run in microseconds, and looking at one input takes ten.
        """
        expected = self._expected
        if expected is None or len(inputs) != len(expected):
            return None
        arrays: list[Any]
        if type(inputs) is dict or (type(inputs) not in (list, tuple) and isinstance(inputs, Mapping)):
            try:
                arrays = [cast("Mapping[str, Any]", inputs)[name] for name, _, _ in expected]
            except KeyError:
                return None
        else:
            arrays = list(inputs)
        for array, (_, kind, shape) in zip(arrays, expected, strict=True):
            if (
                type(array) is not np.ndarray
                or array.dtype != kind
                or array.shape != shape
                or not array.flags.c_contiguous
            ):
                return None
        return arrays

    @cached_property
    def _expected(self) -> list[tuple[str, np.dtype[Any], tuple[int, ...]]] | None:
        """The name, element type and shape of each input; None where one is not row-major, or NumPy lacks its
        elements."""
        places = self.plan.inputs
        if not all(
            place.dtype in _AS_IN_NUMPY and is_row_major(place.layout) and not place.layout.is_padded
            for place in places
        ):
            return None
        return [
            (name, storage(place.dtype), place.layout.shape)
            for name, place in zip(self.runnable.input_names, places, strict=True)
        ]


ProgramInParts = StagedProgram | SectionedProgram
AnyProgram = Program | ProgramInParts


@dataclass(slots=True)
class _Kept:
    """A program for some shapes, and how many calls it had."""

    program: AnyProgram
    calls: int = 0

    @property
    def is_worth_compiling(self) -> bool:
        """Whether these shapes come so often that a program for them alone is to take the place of one for many."""
        return self.calls >= _OFTEN and isinstance(self.program, SectionedProgram)


@public_methods
class Executable:
    """A compiled network: `executable(inputs)` gives the list of its outputs. Made by `layout_ir.compile`, or loaded.

    Any number of threads may call it at a time; in the library's calls the GIL is released.
    """

    def __init__(
        self,
        program: AnyProgram | Callable[[Mapping[str, Sequence[int]], bool], AnyProgram],
        inputs: Mapping[str, StatedShape] | None = None,
        threads: int = 1,
        *,
        with_given: Callable[[frozenset[str]], Executable | None] | None = None,
    ) -> None:
        """`program`, or what gives one for the shapes of `inputs` of these names, on so many threads: for these alone
        where it is told True. `with_given` makes an executable that takes these inputs as well, which have defaults
        here; None where there are no such inputs."""
        is_program = isinstance(program, AnyProgram)
        self._static = program if is_program else None
        self._compiled_for = None if is_program else program
        self._programs: OrderedDict[Shapes, _Kept] = OrderedDict()
        self._with_given = with_given
        self._with_more_inputs = OrderedDict[frozenset[str], Executable]()
        self._lock = RLock()
        fork_safe(self._lock)
        self._threads = threads if self._static is None else self._static.threads
        self._stated = dict(inputs or {})
        self.input_names = list(self._stated if self._static is None else self._static.input_names)
        """The names of the inputs, but for those that have defaults."""

    @property
    def threads(self) -> int:
        """On how many threads a call runs."""
        return self._threads

    def __call__(self, inputs: Inputs = ()) -> list[Array]:
        """The outputs, as arrays of their logical shapes, in order.

        `inputs` are arrays by position or by name, as `layout_ir.run` takes them. A model with dynamic extents is
        compiled at its first call with inputs of some shape, and one whose initializers are inputs, too, for each set
        of these that a call gives by name. Raises LayoutError where inputs do not fit.
        """
        try:
            if self._with_given is not None and len(inputs) > len(self.input_names):
                other = self._for_more_inputs(inputs)
                if other is not None:
                    return other(inputs)
            program = self._static
            return self._program(inputs)(inputs) if program is None else program(inputs)
        except (LayoutError, OSError, ImportError):
            raise
        except Exception as error:
            # What is wrong with a call is looked for once it failed: most take microseconds.
            check_inputs(inputs)
            raise UnforeseenError("the call of an executable", error) from error

    def __copy__(self) -> Executable:
        """The executable itself: calls leave nothing in it."""
        return self

    def __reduce__(self) -> NoReturn:
        """Raises TypeError: pickling and deep copies have no use of the addresses of a process."""
        raise TypeError(
            "an executable is machine code in the memory of this process, and cannot be pickled or copied: "
            "Executable.save writes a file for layout_ir.load_executable, and layout_ir.compile(..., cache_dir=...) "
            "finds in another process what this one compiled"
        )

    def profile(self, inputs: Inputs = (), *, calls: int = 1) -> list[StepTime]:
        """Calls that are timed step by step: what each step computed, in which layouts, how many bytes it touched, and
        how long it took in the call in which it was shortest, since other work of the machine only adds.

        Raises LayoutError where `calls` is no whole number from 1 on.
        """
        if not isinstance(calls, Integral) or calls < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise LayoutError(f"calls = {calls} is no number of calls: expected a whole number from 1 on")
        other = self._for_more_inputs(inputs)
        if other is not None:
            return other.profile(inputs, calls=calls)
        program = self._single(self._program(inputs, whole=True))
        tensors = program.tensors(inputs)
        found: list[list[StepTime]] = []
        for _ in range(calls):
            found.append([])
            program.runner(tensors, found[-1])
        return [min(steps, key=lambda step: step.nanoseconds) for steps in zip(*found, strict=True)]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes what is needed to run to a file, for `layout_ir.load_executable` on a machine like this one.

        The file has packed constants and machine code. Raises LayoutError where extents are dynamic, or ops run by the
        reference, and OSError.
        """
        if self._static is None:
            raise LayoutError(
                "the model has dynamic extents: only what is compiled with shapes= can be saved"
            )
        write_result(file_of(self._single(self._static).runnable), checked_path(path))

    @property
    def is_in_parts(self) -> bool:
        """Whether the model is compiled part by part while it runs, so that it has no one `plan`, `profile` or file.

        Raises LayoutError before the first call of a model with dynamic extents.
        """
        return isinstance(self._latest(), ProgramInParts)

    @property
    def output_names(self) -> list[str]:
        """The names of the outputs. Raises LayoutError before the first call of a model with dynamic extents."""
        return list(self._latest().result_names)

    @property
    def plan(self) -> ExecutionPlan:
        """What a call executes, step by step, and where its values lie.

        Raises LayoutError before the first call of a model with dynamic extents.
        """
        return self._single(self._latest()).plan

    @property
    def fallbacks(self) -> dict[str, int]:
        """The ops that run by the NumPy reference, by name, and how many there are of each; behind the names of those
        that it lacks or that are slow there, and ONNX Runtime computes, "(ONNX Runtime)".

        Raises LayoutError before the first call of a model with dynamic extents.
        """
        program = self._latest()
        steps = [step for part in program.parts() for step in part.plan.all_steps]
        by_reference = Counter(_title(step.text) for step in steps if isinstance(step, ReferenceStep))
        return dict(by_reference + program.evaluated())

    def describe(self) -> str:
        """What is executed, in a few lines: steps, memory, what fusion saves, what runs by the reference.

        Raises LayoutError before the first call of a model with dynamic extents.
        """
        program = self._latest()
        if isinstance(program, ProgramInParts):
            said = [_described(part.plan, self.threads) for part in program.parts()]
            nodes = ", ".join(f"{count} {name}" for name, count in program.evaluated().items())
            return "\n".join(
                [*said, f"between {_count(len(said), 'part')}: {nodes or 'nothing'} without a kernel"]
            )
        rest = ", ".join(f"{count} {name}" for name, count in self.fallbacks.items())
        lines = [_described(program.plan, self.threads), f"reference    {rest or 'none'}"]
        if program.tuning:
            lines.append(f"layouts      {program.tuning}")
        return "\n".join(lines)

    # Inputs with defaults ---------------------------------------------------------------------------------------

    def _for_more_inputs(self, inputs: Inputs) -> Executable | None:
        """The executable for a call that gives inputs with defaults; None where it gives none, or what is no input."""
        if self._with_given is None or not isinstance(inputs, Mapping):
            return None
        names = frozenset(inputs).difference(self.input_names)
        if not names:
            return None
        with self._lock:
            found = self._with_more_inputs.get(names)
        if found is not None:
            return found
        with loading, self._lock:
            found = self._with_more_inputs.get(names) or self._with_given(names)
            if found is not None:
                self._with_more_inputs[names] = found
                if len(self._with_more_inputs) > _KEPT:
                    self._with_more_inputs.popitem(last=False)
            return found

    # Open sizes -------------------------------------------------------------------------------------------------

    @staticmethod
    def _single(program: AnyProgram) -> Program:
        """The program that has one plan for all. Raises LayoutError for one that is compiled part by part."""
        if isinstance(program, StagedProgram):
            raise LayoutError(
                "shapes of the model depend on numbers, so that it is compiled in parts while it runs: it has no one "
                "plan that could be looked at or saved"
            )
        if isinstance(program, SectionedProgram):
            raise LayoutError(
                "the model runs in sections that many shapes share: it has no one plan that could be looked at"
            )
        return program

    def _latest(self) -> AnyProgram:
        if self._static is not None:
            return self._static
        with self._lock:
            if not self._programs:
                raise LayoutError("the model has dynamic extents: it is compiled at its first call")
            return next(reversed(self._programs.values())).program

    def _program(self, inputs: Inputs, *, whole: bool = False) -> AnyProgram:
        """The program for inputs; with `whole`, one that is for their shapes alone."""
        if self._static is not None:
            return self._static
        shapes = self._shapes(inputs)
        with self._lock:
            found = self._found(shapes, whole=whole)
        if found is not None:
            return found
        with loading, self._lock:  # what compiles imports: a process that forks takes the two in this order
            found = self._found(shapes, whole=whole)
            if found is None:
                found = self._made(shapes, whole=whole)
            return found

    def _found(self, shapes: Shapes, *, whole: bool) -> AnyProgram | None:
        """The program that is kept for these shapes; None where there is none, or a better one is to be made."""
        kept = self._programs.get(shapes)
        if kept is None or kept.is_worth_compiling or (whole and isinstance(kept.program, SectionedProgram)):
            return None
        self._programs.move_to_end(shapes)
        kept.calls += 1
        return kept.program

    def _made(self, shapes: Shapes, *, whole: bool) -> AnyProgram:
        """A program that is kept for these shapes from now on."""
        assert self._compiled_for is not None
        program = self._compiled_for(dict(shapes), whole or shapes in self._programs)
        self._programs[shapes] = _Kept(program, 1)
        self._programs.move_to_end(shapes)
        if len(self._programs) > _KEPT:
            self._programs.popitem(last=False)
        return program

    def _shapes(self, inputs: Inputs) -> Shapes:
        names = self.input_names
        if isinstance(inputs, Mapping):
            missing = [name for name in names if name not in inputs]
            if missing:
                raise LayoutError(f"input '{missing[0]}' is missing")
            inputs = [inputs[name] for name in names]
        if len(inputs) != len(names):
            raise LayoutError(f"the model takes {_count(len(names), 'input')}, given are {len(inputs)}")
        return tuple((name, self._shape(name, value)) for name, value in zip(names, inputs, strict=True))

    def _shape(self, name: str, value: Any) -> tuple[int, ...]:
        """The shape of an input. Raises LayoutError where it is another than the model states."""
        stated = self._stated[name]
        try:
            shape = np.shape(value)
        except ValueError as error:  # a list of tensors of different shapes
            if stated is None:
                return ()
            raise LayoutError(f"input '{name}' is a list of items of different shapes, no array") from error
        if stated is not None and (
            len(shape) != len(stated) or any(s not in (None, e) for s, e in zip(stated, shape, strict=True))
        ):
            wanted = "x".join("?" if extent is None else str(extent) for extent in stated) or "a scalar"
            given = "x".join(map(str, shape)) or "a scalar"
            raise LayoutError(f"input '{name}' is {wanted}, the array given is {given}")
        return shape


@public
def load_executable(path: str | os.PathLike[str]) -> Executable:
    """The executable that `Executable.save` wrote to a file. Its code is run: load only what you would run.

    Raises LayoutError where the file is damaged, or was saved for another CPU, library or release; and OSError.
    """
    return Executable(Program(read_plan(checked_path(path), library())))


def _described(plan: ExecutionPlan, threads: int) -> str:
    """A plan in a few lines, on so many threads."""
    primitives = [step for step in plan.steps if isinstance(step, PrimitiveStep)]
    reorders = sum(isinstance(step, KernelStep) for step in plan.steps)
    loops = [step for step in plan.steps if isinstance(step, LoopStep)]
    fused = sum(len(step.text.ops) - 1 for step in primitives)
    looped = sum(len(step.text.ops) for step in loops)
    by = Counter(step.implementation for step in primitives).most_common()
    lines = [
        f"{plan.library}, {_count(threads, 'thread')}"
        + ("" if plan.library.sets_threads else " (this build takes all CPUs instead)"),
        (
            f"primitives   {len(primitives)}, with {_count(fused, 'op')} as post-ops: "
            f"{_bytes(plan.bytes_not_moved)} not moved"
        ),
        *(f"             {count:4} {name}" for name, count in by),
        f"reorders     {reorders}",
        f"loops        {len(loops)}, of {_count(looped, 'op')}",
        f"arena        {_bytes(plan.arena.size)}, at least {_bytes(plan.arena.lower_bound)}",
        f"constants    {_bytes(plan.constant_bytes)}",
    ]
    return "\n".join(lines)


def _title(text: StepText) -> str:
    """The name of the op of a step, and what computes it where it is not the reference."""
    return text.ops[0] if text.implementation == "reference" else f"{text.ops[0]} ({text.implementation})"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _bytes(number: int) -> str:
    return f"{number / 1e6:.1f} MB" if number >= 1e5 else f"{number} bytes"
