"""`compile`: a network as a callable that oneDNN executes, in the layouts that cost it least.

    executable = li.compile("model.onnx", threads=2)
    outputs = executable({"x": array})
    print(executable.describe())

Every op becomes a primitive of the library in the formats that were chosen for it; elementwise ops behind it become
its post-ops. Reorders are our compiled kernels, and so are loops for what the library has no primitive for. What has
neither runs by the NumPy reference, and is named in `fallbacks`. Weights are packed once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

from layout_ir.api.executable import AnyProgram, Executable, Program
from layout_ir.api.measured_selection import MEASURE_SECONDS, Measure, check_measure, optimize
from layout_ir.api.network_tuning import call_of, fastest, signature
from layout_ir.api.program_arguments import entry_point, input_names, result_names
from layout_ir.api.staged_program import StagedProgram
from layout_ir.backends.onednn.control_flow import control_flow
from layout_ir.backends.onednn.execution_plan import plan_execution
from layout_ir.backends.onednn.library import library
from layout_ir.backends.onednn.plan_steps import RunnablePlan
from layout_ir.backends.onednn.rewrites.pipeline import rewrite_after_selection, rewrite_before_selection
from layout_ir.errors import LayoutError, public
from layout_ir.forking import loading
from layout_ir.gc_pause import gc_paused
from layout_ir.passes.selection.options.targets import find_target
from layout_ir.passes.selection.options.uniform_kernels import uniform_targets
from layout_ir.passes.selection.translation.from_ir import is_open

if TYPE_CHECKING:
    import onnx

    from layout_ir.frontends.onnx.model import Source
    from layout_ir.passes.selection.options.conv_kernels import Target


@dataclass(frozen=True)
class _Settings:
    target: str | Target
    threads: int
    fuse: bool
    checked: bool
    measure: Measure
    measure_seconds: float
    tune: bool

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

    def _choose_layouts(self, module: ModuleOp) -> None:
        if is_open(module):
            optimize(
                module,
                self.target,
                measure=self.measure,
                measure_seconds=self.measure_seconds,
                threads=self.threads,
            )

    def _tuned(self, module: ModuleOp, entry: str) -> Program:
        """The fastest of the program of least price and those whose convolutions are all of one kind."""
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
    tune: bool = False,
) -> Executable:
    """A callable that computes function `entry` of a module, which stays as it is, or an ONNX model, by oneDNN.

    Layouts that are open are chosen for `target`, a Target or the name of one. `threads` is on how many threads a call
    runs. `shapes` are those of the model's inputs, as `from_onnx` takes them; without them, a model with symbolic sizes
    is compiled for each size that it is called with, and one whose shapes depend on numbers part by part, when they are
    known. `fuse` lets elementwise ops join the op before them. With `checked`, memory holds NaN before each call, and a
    call that writes outside of its memory raises LayoutError.

    With `measure` ("deciding" or "all"), layouts are chosen by prices that are measured first, on these threads and for
    `measure_seconds` at most, as `layout_ir.optimize` does. With `tune`, the network is compiled with all convolutions
    plain, in channels last and in blocks, too, the programs run in turns for `measure_seconds` at most, and the fastest
    is kept: the choice of least price unless another is faster beyond the noise.

    Raises LayoutError where oneDNN is not installed, or the program has what cannot be executed.
    """
    if not isinstance(threads, int) or threads < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise LayoutError(f"threads = {threads!r} is no number of threads: expected a whole number from 1 on")
    check_measure(measure, measure_seconds, threads)
    library()
    settings = _Settings(target, threads, fuse, checked, measure, measure_seconds, tune)
    if isinstance(model, ModuleOp):
        if shapes is not None:
            raise LayoutError("shapes are for ONNX models: the types of a module say its shapes")
        with gc_paused():
            return Executable(settings.program(model.clone(), entry))
    if shapes is None:
        open_inputs, names = _inputs_of(model)
        if open_inputs:
            return Executable(partial(_imported, settings, model), names, threads)
    return Executable(_imported(settings, model, shapes))


def _inputs_of(model: Source) -> tuple[bool, list[str]]:
    """Whether an input of an ONNX model has a symbolic size, and the names of its inputs."""
    with loading:
        from layout_ir.frontends.onnx.model import load

    graph = load(model).graph
    constants = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in constants]
    is_open = any(
        not dim.HasField("dim_value") for value in inputs for dim in value.type.tensor_type.shape.dim
    )
    return is_open, [value.name for value in inputs]


def _imported(settings: _Settings, model: Source, shapes: Mapping[str, Sequence[int]] | None) -> AnyProgram:
    with gc_paused():
        with loading:
            from layout_ir.frontends.onnx.import_error import OnnxImportError, is_unknown_type
        try:
            module = _module(model, shapes)
        except OnnxImportError as error:
            if not is_unknown_type(error):
                raise
            # Whose types are known when the numbers are that they depend on.
            compile_part = partial(settings.runnable, entry="main")
            return StagedProgram(model, shapes, compile_part, settings.threads, checked=settings.checked)
        return settings.program(module, "main")


def _module(model: Source, shapes: Mapping[str, Sequence[int]] | None) -> ModuleOp:
    with loading:
        from layout_ir.frontends.onnx import from_onnx

    return from_onnx(model, shapes=shapes, keep_quantized=True)
