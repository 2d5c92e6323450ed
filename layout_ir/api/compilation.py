"""How `compile` makes a program from a module or an ONNX model: rewrites, layouts, plan."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import ModuleOp

from layout_ir.api.executable import AnyProgram, Executable, Program, StatedShape
from layout_ir.api.measure_settings import Measure
from layout_ir.api.program_arguments import entry_point, input_names, result_names
from layout_ir.api.sectioned_program import SectionedProgram, cut
from layout_ir.api.staged_program import StagedProgram
from layout_ir.backends.onednn.control_flow import control_flow
from layout_ir.backends.onednn.execution_plan import plan_execution
from layout_ir.backends.onednn.library import library
from layout_ir.backends.onednn.plan_steps import RunnablePlan
from layout_ir.backends.onednn.rewrites.pipeline import rewrite_after_selection, rewrite_before_selection
from layout_ir.files import FileState
from layout_ir.forking import loading
from layout_ir.gc_pause import gc_paused
from layout_ir.passes.optimize_pipeline import optimize
from layout_ir.passes.selection.options.targets import find_target
from layout_ir.passes.selection.translation.from_ir import is_open

if TYPE_CHECKING:
    import onnx

    from layout_ir.api.model_cache import ModelCache
    from layout_ir.frontends.onnx.model import AnySource, Model
    from layout_ir.passes.selection.options.conv_kernels import Target


_REMEMBERED = 16
"""How many shapes that a model was compiled for are compared with one that comes."""


@dataclass(frozen=True)
class Compilation:
    """What a program is compiled for: `layout_ir.compile` says what each setting is."""

    target: str | Target
    threads: int
    fuse: bool
    checked: bool
    measure: Measure
    measure_seconds: float
    tune: bool
    cache: ModelCache | None = None
    """Where programs of the model, and of its parts, are kept."""
    repeatable: bool = False

    def __post_init__(self):
        find_target(self.target)  # an unknown one is refused where no layout is to be chosen, too

    def executable_of(self, module: ModuleOp, entry: str) -> Executable:
        """A module, which stays as it is, as a callable."""
        with gc_paused():
            return Executable(self.program(module.clone(), entry))

    def executable(self, model: AnySource, shapes: Mapping[str, Sequence[int]] | None) -> Executable:
        """An ONNX model as a callable, for these shapes of its inputs or, without them, for all that it may be called
        with."""
        return self._executable(model, shapes, self.cache, may_be_open=shapes is None)

    def with_given(
        self, model: AnySource, shapes: Mapping[str, Sequence[int]] | None, names: frozenset[str]
    ) -> Executable | None:
        """The model for calls that give inputs with defaults; None where `names` are not all of such inputs."""
        with loading:
            from layout_ir.frontends.onnx.model import WithoutDefaults, load

        if not names <= inputs_of(load(model), {}).with_defaults:
            return None
        return self._executable(WithoutDefaults(model, names), shapes, None, may_be_open=True)

    def _executable(
        self,
        model: AnySource,
        shapes: Mapping[str, Sequence[int]] | None,
        cache: ModelCache | None,
        *,
        may_be_open: bool,
    ) -> Executable:
        """A model as a callable that, where it is open and `may_be_open`, is compiled for each shape that it is called
        with. `cache` is where whole programs are kept."""
        with gc_paused():
            with loading:
                from layout_ir.frontends.onnx.model import load

            loaded = load(model)
            inputs = inputs_of(loaded, shapes or {})
        are_read_again = (may_be_open and inputs.are_open) or inputs.with_defaults
        files = files_of(model, loaded) if are_read_again else []
        if are_read_again:
            model = _copied(model)

        def given(names: frozenset[str]) -> Executable | None:
            check_unchanged(files)
            return self.with_given(model, shapes, names)

        with_given = given if inputs.with_defaults else None

        def written(program: AnyProgram, shapes: Mapping[str, Sequence[int]] | None) -> AnyProgram:
            if cache is not None and isinstance(program, Program):
                cache.write(program.runnable, shapes)
            return program

        if not (may_be_open and inputs.are_open):
            with gc_paused():
                module = _module_of_known_types(loaded, shapes)
                del loaded  # before its weights are packed
                program = self.compiled(module, model, shapes)
            return Executable(written(program, shapes), with_given=with_given)
        open_model = OpenModel(self, model, files)

        def kept(shapes: Mapping[str, Sequence[int]], whole: bool) -> AnyProgram:
            plan = None if cache is None else cache.read(shapes)
            if plan is not None:
                return Program(plan, checked=self.checked)
            return written(open_model.program(shapes, whole=whole), shapes)

        return Executable(kept, inputs.shapes, self.threads, with_given=with_given)

    def program(self, module: ModuleOp, entry: str) -> Program:
        """The module, which becomes ours and is used up, with its layouts chosen, compiled."""
        if not self.tune:
            return Program(self.runnable(module, entry), checked=self.checked)
        rewrite_before_selection(module, entry_point(module, entry))
        return self._tuned(module, entry)

    def runnable(self, module: ModuleOp, entry: str) -> RunnablePlan:
        """The plan of such a module, at least cost."""
        rewrite_before_selection(module, entry_point(module, entry))
        self._choose_layouts(module)
        return self._planned(module, entry)

    def part(self, module: ModuleOp, *, kept: bool) -> RunnablePlan:
        """The plan of a part of a model; one to be `kept` is read from where such are kept, and written there."""
        compile = partial(self.runnable, entry="main")
        return self.cache.part(module, compile) if kept and self.cache is not None else compile(module)

    def _choose_layouts(self, module: ModuleOp) -> None:
        if not is_open(module):
            return
        if self.measure == "off":
            optimize(module, self.target)
            return
        with loading:
            from layout_ir.api import measured_selection

        measured_selection.optimize(
            module,
            self.target,
            measure=self.measure,
            measure_seconds=self.measure_seconds,
            threads=self.threads,
        )

    def _tuned(self, module: ModuleOp, entry: str) -> Program:
        """The fastest of the program of least price and those whose convolutions are all of one kind."""
        with loading:
            from layout_ir.api.network_tuning import call_of, fastest, signature
            from layout_ir.passes.selection.options.uniform_kernels import uniform_targets

        programs: dict[str, Program] = {}
        seen: set[tuple[str, ...]] = set()
        for kind, target in ("", self.target), *uniform_targets(find_target(self.target)).items():
            laid_out = module.clone()
            if not kind:
                self._choose_layouts(laid_out)
            elif is_open(laid_out):
                optimize(laid_out, target)
            if (types := signature(laid_out)) not in seen:
                seen.add(types)
                programs[kind] = Program(self._planned(laid_out, entry), checked=self.checked)
        calls = {kind: call_of(program) for kind, program in programs.items()}
        kind, gain = fastest(calls, self.measure_seconds)
        program = programs[kind]
        if kind:
            program.tuning = f"{kind}, {gain:.2f} times as fast as the choice of least price"
        return program

    def _planned(self, module: ModuleOp, entry: str) -> RunnablePlan:
        function = entry_point(module, entry)
        rewrite_after_selection(module, function, self.fuse)
        flow_of = partial(control_flow, compile_model=self._subgraph)
        plan = plan_execution(function, library(), threads=self.threads, fuse=self.fuse, flow_of=flow_of)
        names = tuple(input_names(function)), tuple(result_names(function))
        return RunnablePlan(plan, self.threads, f"@{function.sym_name.data}", *names)

    def _subgraph(self, model: onnx.ModelProto) -> RunnablePlan:
        return self.runnable(_module(model, None), "main")

    def imported(self, model: AnySource, shapes: Mapping[str, Sequence[int]] | None) -> AnyProgram:
        """A model compiled for these shapes of its inputs."""
        with gc_paused():
            return self.compiled(_module_of_known_types(model, shapes), model, shapes)

    def compiled(
        self, module: ModuleOp | None, model: AnySource, shapes: Mapping[str, Sequence[int]] | None
    ) -> AnyProgram:
        """The module, which is used up, compiled; without one the model in parts, for these shapes of its inputs."""
        if module is None:
            return StagedProgram(
                _copied(model),
                shapes,
                self.part,
                self.threads,
                checked=self.checked,
                repeatable=self.repeatable,
            )
        return self.program(module, "main")


class OpenModel:
    """A model with dynamic extents, a program for each shape of its inputs that comes.

    The first shapes are compiled for, the whole model for each. Where some inputs keep their shapes and others do not,
    the model is cut into sections that later shapes share (`sectioned_program`), if that leaves much to share.
    """

    def __init__(self, compilation: Compilation, model: AnySource, files: Sequence[FileState]) -> None:
        """`files` are those that the model is read from, again for each new shape."""
        self._compilation = compilation
        self._model = model
        self._files = files
        self._whole: deque[Mapping[str, Sequence[int]]] = deque(maxlen=_REMEMBERED)
        """Shapes that the whole model was compiled for."""
        self._sectioned: SectionedProgram | None = None
        self._tried: set[frozenset[str]] = set()
        """Inputs that differed where it was asked whether to cut the model."""

    def program(self, shapes: Mapping[str, Sequence[int]], *, whole: bool) -> AnyProgram:
        """A program for these shapes; with `whole`, one that is for no others.

        Raises LayoutError where the files of the model are not as they were.
        """
        check_unchanged(self._files)
        compilation = self._compilation
        may_cut = not (whole or compilation.repeatable or compilation.tune)
        if may_cut and compilation.measure == "off":
            if self._sectioned is None:
                self._sectioned = self._cut(shapes)
            if self._sectioned is not None:
                return self._sectioned
        self._whole.append(shapes)
        return compilation.imported(self._model, shapes)

    def _cut(self, shapes: Mapping[str, Sequence[int]]) -> SectionedProgram | None:
        """The model in sections, if there is much that these shapes and some before have in common."""
        for before in reversed(self._whole):
            changed = frozenset(name for name in shapes if shapes[name] != before[name])
            if len(changed) == len(shapes) or changed in self._tried:
                continue
            with gc_paused(), loading:
                found = cut(self._model, before, shapes)
            self._tried.add(changed)
            if found is not None:
                compilation = self._compilation
                return SectionedProgram(
                    found, compilation.part, compilation.threads, checked=compilation.checked
                )
        return None


@dataclass(frozen=True)
class StatedInputs:
    """What an ONNX model says of its inputs."""

    shapes: dict[str, StatedShape]
    """By name, of those that a call must give."""
    are_open: bool
    """Whether one of them has a dynamic extent."""
    with_defaults: frozenset[str]
    """Those that a call may give."""


def _copied(source: AnySource) -> AnySource:
    """A model that is read again later: of a ModelProto a copy, for its owner may change it."""
    if not hasattr(source, "SerializeToString"):
        return source
    given = cast("onnx.ModelProto", source)
    copy = type(given)()
    copy.CopyFrom(given)
    return copy


def files_of(source: AnySource, model: Model) -> list[FileState]:
    """The files that a model was read from: its own, and those with external data."""
    with loading:
        from layout_ir.frontends.onnx.model import WithoutDefaults
        from layout_ir.passes.onnx.model_file import tensors_within

    while isinstance(source, WithoutDefaults):
        source = source.source
    if not isinstance(source, str | os.PathLike) or model.folder is None:
        return []
    entries = (entry for tensor in tensors_within(model.proto) for entry in tensor.external_data)
    names = dict.fromkeys(entry.value for entry in entries if entry.key == "location")
    return [FileState.of(path) for path in (Path(source), *(model.folder / name for name in names))]


def check_unchanged(files: Sequence[FileState]) -> None:
    """Raises LayoutError where files that a model was read from, and is read from again, are not as they were."""
    for file in files:
        file.check_unchanged("the model is read again for calls of other shapes and inputs: compile it anew")


def inputs_of(model: Model, shapes: Mapping[str, Sequence[int]]) -> StatedInputs:
    """The inputs of an ONNX model, of which some have these shapes."""
    with loading:
        from layout_ir.frontends.onnx.model import inputs_with_defaults, is_dynamic, stated_extents

    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in constants]
    stated = {value.name: stated_extents(value) for value in inputs}
    return StatedInputs(
        {**stated, **{name: tuple(shape) for name, shape in shapes.items() if name in stated}},
        any(is_dynamic(value) and value.name not in shapes for value in inputs),
        frozenset(inputs_with_defaults(model.proto)),
    )


def _module_of_known_types(
    model: AnySource | Model, shapes: Mapping[str, Sequence[int]] | None
) -> ModuleOp | None:
    """The module of a model; None where types of values are known when the numbers are that they depend on."""
    with loading:
        from layout_ir.frontends.onnx.import_error import OnnxImportError, is_unknown_type
    try:
        return _module(model, shapes)
    except OnnxImportError as error:
        if not is_unknown_type(error):
            raise
        return None


def _module(model: AnySource | Model, shapes: Mapping[str, Sequence[int]] | None) -> ModuleOp:
    with loading:
        from layout_ir.frontends.onnx import to_run

    return to_run(model, shapes)
