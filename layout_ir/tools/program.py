"""Reading a program for a command: an ONNX model or IR text, verified, with errors that name the place."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException

from layout_ir.api.program_text import ProgramError, parse_file
from layout_ir.diagnostics import Diagnostic, Location, Severity
from layout_ir.errors import LayoutError
from layout_ir.rendering import one_line


def check_output(path: str | None) -> None:
    """Raises LayoutError where `path` ends in .onnx, since programs are written as MLIR text."""
    if path is not None and os.path.splitext(path)[1].lower() == ".onnx":
        raise LayoutError(
            f"{path}: programs are written as MLIR text, not as ONNX: name a file that ends in .mlir"
        )


def is_model(path: str) -> bool:
    """Whether `path` names an ONNX model, by its ending or as one that ships with the package onnx."""
    return path.startswith("onnx:") or os.path.splitext(path)[1].lower() == ".onnx"


def input_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Shapes of inputs by name, from texts such as "x0=1x3x224x224". Raises LayoutError."""
    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, equals, extents = text.rpartition("=")
        if not equals or re.fullmatch(r"[0-9]+(x[0-9]+)*|\(\)", extents) is None:
            raise LayoutError(
                f"--shape {text}: expected NAME=EXTENTS, such as x0=1x3x224x224, or x0=() for a scalar"
            )
        if name in shapes:
            raise LayoutError(f"--shape {text}: input '{name}' is given a shape twice")
        shapes[name] = () if extents == "()" else tuple(map(int, extents.split("x")))
    return shapes


def check_is_model(path: str, shapes: Sequence[str]) -> None:
    """Raises LayoutError where `shapes`, the values of `--shape`, are given for a program that is no ONNX model."""
    if shapes:
        raise LayoutError(
            f"--shape {shapes[0]} is for inputs of ONNX models: the types in {path} say the shapes"
        )


def load_program(path: str, *, allow_unregistered: bool = False, shapes: Sequence[str] = ()) -> ModuleOp:
    """The module in the file `path` (.onnx or .mlir), or the network `onnx:NAME` that ships with the onnx package.

    `shapes` has the shapes of inputs of a model, each as `--shape` takes it. With `allow_unregistered`, ops of unknown
    dialects are taken in their generic form. Raises ProgramError, LayoutError or OSError.
    """
    if path.startswith("onnx:"):
        path = shipped_network(path)
    if os.path.splitext(path)[1] == ".onnx":
        return _load_onnx(path, input_shapes(shapes))
    check_is_model(path, shapes)
    return parse_file(path, allow_unregistered=allow_unregistered)


def shipped_network(name: str) -> str:
    """The path of the network `onnx:NAME` in the package onnx. Raises ProgramError where it has none of that name."""
    spec = find_spec("onnx")
    if spec is None or spec.origin is None:
        message = f"{name} ships with the package onnx, which is not installed: pip install 'layout-ir[onnx]'"
        raise ProgramError([Diagnostic(Severity.ERROR, message)])
    folder = os.path.join(os.path.dirname(spec.origin), "backend", "test", "data", "light")
    known = sorted(f[len("light_") : -len(".onnx")] for f in os.listdir(folder) if f.endswith(".onnx"))
    wanted = name.removeprefix("onnx:")
    if wanted not in known:
        message = f"no network '{wanted}' ships with the package onnx: it has {', '.join(known)}"
        raise ProgramError([Diagnostic(Severity.ERROR, message)])
    return os.path.join(folder, f"light_{wanted}.onnx")


def _load_onnx(path: str, shapes: Mapping[str, Sequence[int]]) -> ModuleOp:
    from layout_ir.frontends.onnx import from_onnx

    try:
        return from_onnx(path, shapes=shapes)
    except LayoutError as error:
        # A missing file is an OSError, whatever the importer makes of it.
        if isinstance(error.__cause__, OSError) and error.__cause__.filename == path:
            raise error.__cause__ from None
        raise ProgramError([Diagnostic(Severity.ERROR, str(error), Location(path))]) from error


def pass_error(error: DiagnosticException, path: str) -> ProgramError:
    """The ProgramError for what a pass raised, at its location, or else the file as a whole."""
    place = getattr(error, "location", None) or Location(path)
    return ProgramError([Diagnostic(Severity.ERROR, one_line(error), place)])
