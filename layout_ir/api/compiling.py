"""`compile`: a network as a callable that oneDNN executes, in the layouts that cost it least.

    executable = li.compile("model.onnx", threads=2)
    outputs = executable({"x": array})
    print(executable.describe())

Every op becomes a primitive of the library in the formats that were chosen for it; elementwise ops behind it become
its post-ops. Reorders are our compiled kernels, and so are loops for what the library has no primitive for. What has
neither runs by the NumPy reference, and is named in `fallbacks`. Weights are packed once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

from layout_ir.api.executable import AnyProgram, Executable, Program
from layout_ir.api.measure_settings import MEASURE_SECONDS, Measure, check_measure
from layout_ir.api.model_cache import ModelCache
from layout_ir.argument_checks import check_threads
from layout_ir.backends.onednn.library import library
from layout_ir.errors import LayoutError, public
from layout_ir.forking import loading

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from layout_ir.frontends.onnx.model import Source
    from layout_ir.passes.selection.options.conv_kernels import Target


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
    cache_dir: str | os.PathLike[str] | None = None,
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

    `cache_dir` is a folder in which compiled ONNX models are kept: the next time, in another process too, the same
    model is read from there, with the layouts that were chosen then. Its code is run: let nobody else write there.

    Raises LayoutError where oneDNN is not installed, or the program has what cannot be executed, and OSError.
    """
    check_threads(threads)
    library()
    cache: ModelCache | None = None
    if cache_dir is not None:
        if not isinstance(target, str):
            raise LayoutError("cache_dir keeps models for targets that have a name: give target= as a text")
        if not _is_source(model):
            raise LayoutError("cache_dir is for ONNX models: an executable is kept by its method save")
        chosen = (target, threads, fuse, measure, measure_seconds, tune)
        cache = ModelCache(Path(cache_dir), model, chosen)
        # Before anything is imported that compiles.
        if (plan := cache.read(shapes)) is not None:
            return Executable(Program(plan, checked=checked))
    with loading:
        from xdsl.dialects.builtin import ModuleOp

        from layout_ir.api.compilation import Compilation, OpenModel, inputs_of
        from layout_ir.gc_pause import gc_paused

    check_measure(measure, measure_seconds, threads)
    compilation = Compilation(target, threads, fuse, checked, measure, measure_seconds, tune, cache)
    if isinstance(model, ModuleOp):
        if shapes is not None:
            raise LayoutError("shapes are for ONNX models: the types of a module say its shapes")
        with gc_paused():
            return Executable(compilation.program(model.clone(), entry))

    def written(program: AnyProgram, shapes: Mapping[str, Sequence[int]] | None) -> AnyProgram:
        if cache is not None and isinstance(program, Program):
            cache.write(program.runnable, shapes)
        return program

    is_open, inputs = (False, {}) if shapes is not None else inputs_of(model)
    if not is_open:
        return Executable(written(compilation.imported(model, shapes), shapes))
    open_model = OpenModel(compilation, model)

    def kept(shapes: Mapping[str, Sequence[int]], whole: bool) -> AnyProgram:
        plan = None if cache is None else cache.read(shapes)
        if plan is not None:
            return Program(plan, checked=checked)
        return written(open_model.program(shapes, whole=whole), shapes)

    return Executable(kept, inputs, threads)


def _is_source(model: ModuleOp | Source) -> TypeGuard[Source]:
    """Whether a model is one of ONNX, which is asked without importing what makes the one or the other."""
    return isinstance(model, str | bytes | os.PathLike) or hasattr(model, "SerializeToString")
