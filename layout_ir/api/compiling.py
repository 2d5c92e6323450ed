"""`compile`: a network as a callable that oneDNN executes, in the layouts that cost it least.

    executable = li.compile("model.onnx", threads=2)
    outputs = executable({"x": array})
    print(executable.describe())

Every op becomes a primitive of the library in the formats that were chosen for it; elementwise ops behind it become
its post-ops. Reorders are our compiled kernels, and so are loops for what the library has no primitive for. What has
neither runs by the NumPy reference, or by ONNX Runtime where that lacks it, and is named in `fallbacks`. Weights are
packed once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from layout_ir.api.executable import Executable, Program
from layout_ir.api.measure_settings import MEASURE_SECONDS, Measure, check_measure
from layout_ir.api.model_cache import ModelCache
from layout_ir.argument_checks import (
    MOST_THREADS,
    check_flags,
    check_model_name,
    check_program,
    check_threads,
    checked_path,
    checked_shapes,
)
from layout_ir.backends.onednn.library import library
from layout_ir.errors import LayoutError, public
from layout_ir.forking import loading
from layout_ir.gc_pause import gc_paused

if TYPE_CHECKING:
    from typing_extensions import TypeIs
    from xdsl.dialects.builtin import ModuleOp

    from layout_ir.api.compilation import Compilation
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
    repeatable: bool = False,
) -> Executable:
    """A callable that computes function `entry` of a module, which stays as it is, or an ONNX model, by oneDNN.

    Layouts that are open are chosen for `target`, a Target or the name of one: all of a model, and of a module those
    that are `#layout.any` (`layout_ir.open_layouts` opens others). `threads` is on how many threads a call runs.
    `shapes` are those of the model's inputs, as `from_onnx` takes them; without them, a model with symbolic sizes is
    compiled for each size that it is called with, and one whose shapes depend on numbers part by part, when they are
    known. An initializer that is an input, too, is what the model says unless a call gives another by name: the model
    is compiled once for calls that give these inputs. `fuse` lets elementwise ops join the op before them. With
    `checked`, memory holds NaN before each call, and a call that writes outside of its memory raises LayoutError.

    With `measure` ("deciding" or "all"), layouts are chosen by prices that are measured first, on these threads and for
    `measure_seconds` at most, as `layout_ir.optimize` does. With `tune`, the network is compiled with all convolutions
    plain, in channels last and in blocks, too, the programs run in turns for `measure_seconds` at most, and the fastest
    is kept: the choice of least price unless another is faster beyond the noise.

    `cache_dir` is a folder in which compiled ONNX models are kept: the next time, in another process too, the same
    model is read from there, with the layouts that were chosen then. Its code is run: let nobody else write there.

    With `repeatable`, equal inputs give equal bits at every call. Otherwise a model whose sizes grow, or whose shapes
    depend on numbers, computes some nodes by NumPy for sizes that come for the first time, and by compiled code when
    they come again, which may round otherwise; with it, each new size is compiled when it comes.

    Raises LayoutError where oneDNN is not installed, or the program has what cannot be executed, and OSError.
    """
    check_flags(fuse=fuse, checked=checked, tune=tune, repeatable=repeatable)
    check_threads(threads, MOST_THREADS)
    check_model_name(model)
    shapes = checked_shapes(shapes)
    library()

    def compilation(cache: ModelCache | None = None) -> Compilation:
        with loading, gc_paused():  # of modules nothing is garbage
            from layout_ir.api.compilation import Compilation

        check_measure(measure, measure_seconds, threads)
        return Compilation(
            target, threads, fuse, checked, measure, measure_seconds, tune, cache, repeatable=repeatable
        )

    if not _is_source(model):
        return _of_module(model, compilation(), entry, shapes, cache_dir)
    if entry != "main":
        raise LayoutError(f"entry = {entry!r} names a function of a module, and an ONNX model has one graph")
    if cache_dir is None:
        return compilation().executable(model, shapes)
    if not isinstance(target, str):
        raise LayoutError("cache_dir keeps models for targets that have a name: give target= as a text")
    cache = ModelCache(
        Path(checked_path(cache_dir, "cache_dir")),
        model,
        (target, threads, fuse, measure, measure_seconds, tune),
    )
    # Before anything is imported that compiles.
    if (plan := cache.read(shapes)) is not None:

        def with_given(names: frozenset[str]) -> Executable | None:
            cache.check_unchanged()
            return compilation(cache).with_given(model, shapes, names)

        return Executable(Program(plan, checked=checked), with_given=with_given)
    return compilation(cache).executable(model, shapes)


def _of_module(
    module: ModuleOp,
    compilation: Compilation,
    entry: str,
    shapes: Mapping[str, Sequence[int]] | None,
    cache_dir: str | os.PathLike[str] | None,
) -> Executable:
    """The executable of a module. Raises LayoutError where `shapes` or `cache_dir` are given."""
    if cache_dir is not None:
        raise LayoutError("cache_dir is for ONNX models: an executable is kept by its method save")
    if shapes is not None:
        raise LayoutError("shapes are for ONNX models: the types of a module say its shapes")
    check_program(module)
    return compilation.executable_of(module, entry)


def _is_source(model: ModuleOp | Source) -> TypeIs[Source]:
    """Whether a model is one of ONNX, which is asked without importing what makes the one or the other."""
    return isinstance(model, str | bytes | os.PathLike) or hasattr(model, "SerializeToString")
