"""Programs as MLIR text: `parse` reads one, `to_text` and `print` write it, `context` knows every dialect.

    module = li.parse("model.mlir")
    li.optimize(module)
    li.print(module)

A program that is wrong is refused whole, with a `ProgramError` that has every mistake and its place.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Dialect
from xdsl.utils.exceptions import ParseError

from layout_ir import registry
from layout_ir.argument_checks import check_flags, check_program, checked_row
from layout_ir.diagnostics import Diagnostic, Location, Severity
from layout_ir.entry_points import multiverse
from layout_ir.errors import LayoutError, public
from layout_ir.files import read_whole
from layout_ir.frontends.mlir.locations import LocatedParser
from layout_ir.frontends.mlir.verify_module import verify_module
from layout_ir.printing import print_module
from layout_ir.rendering import Renderer, from_parse_error

TEXT_NAME = "<text>"
"""What places in a program name as their file where the program came as a text."""


class ProgramError(LayoutError):
    """A program that cannot be read or transformed.

    `diagnostics` has one error per mistake, each with its place. `sources` has the texts that they refer to, by file.
    The message is the first of them with its place; in a traceback all follow, with the lines of source.
    """

    def __init__(self, diagnostics: list[Diagnostic], sources: dict[str, str] | None = None):
        first, others = diagnostics[0], len(diagnostics) - 1
        place = "" if first.location is None else f"{first.location}: "
        more = "" if not others else f" (and {others} more error{'s' if others > 1 else ''})"
        super().__init__(f"{place}{first.message}{more}")
        self.diagnostics = diagnostics
        self.sources = sources or {}
        if self.sources:
            from io import StringIO

            self.render(shown := StringIO())
            self.add_note(shown.getvalue().rstrip("\n"))

    def __reduce__(self) -> tuple[type[ProgramError], tuple[list[Diagnostic], dict[str, str]]]:
        return type(self), (self.diagnostics, self.sources)

    def render(self, stream: IO[str]) -> None:
        """Writes the diagnostics to `stream`, with lines of source and carets."""
        renderer = Renderer(stream, self.sources)
        for diagnostic in self.diagnostics:
            renderer(diagnostic)


def register_dialects(ctx: Context, without: Collection[str] = ()) -> None:
    """Registers every dialect of xDSL, of installed packages and of this one; each is imported at its first use.

    Of those of one name that of this package is taken, none where it is in `without`.
    """
    for name, factory in _dialects().items():
        if name not in without:
            ctx.register_dialect(name, registry.with_additions(name, factory))


def _dialects() -> dict[str, Callable[[], Dialect]]:
    """What makes each dialect, by its name."""
    return {**registry.LACKING, **multiverse().all_dialects, **registry.DIALECTS}


@public
def context(*, allow_unregistered: bool = False, without: Collection[str] = ()) -> Context:
    """A new xDSL context with every dialect of xDSL, of installed packages and of this one.

    With `allow_unregistered`, ops and attributes of unknown dialects are taken in their generic form. Dialects named in
    `without` are left out, so that others of these names can be registered. Raises LayoutError where one of these names
    is that of no dialect.
    """
    check_flags(allow_unregistered=allow_unregistered)
    without = checked_row("without =", without)
    known = _dialects()
    for name in without:
        if name not in known:
            raise LayoutError(
                f"without names {name!r}, which is no dialect: there are {', '.join(sorted(known))}"
            )
    ctx = Context(allow_unregistered=allow_unregistered)
    register_dialects(ctx, without)
    return ctx


@public
def parse(
    source: str | os.PathLike[str], *, allow_unregistered: bool = False, ctx: Context | None = None
) -> ModuleOp:
    """The verified module of an MLIR program, given as its text or by the path of its file.

    A `str` is taken for a path where it ends in `.mlir` and is one line; a `pathlib.Path` always is one. Every op has
    its place in the source as its location. With `allow_unregistered`, ops of unknown dialects are taken in their
    generic form, as other tools print it. A context `ctx` of one's own, with more dialects than `context` knows, is
    used as it is.

    Raises ProgramError, a LayoutError, with `file:line:col` of every mistake, and OSError where the file cannot be
    read.
    """
    check_flags(allow_unregistered=allow_unregistered)
    if ctx is not None and not isinstance(ctx, Context):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise LayoutError(f"ctx is a Context of xDSL, as layout_ir.context makes it, not {ctx!r}")
    if isinstance(source, os.PathLike):
        return parse_file(os.fspath(source), allow_unregistered=allow_unregistered, ctx=ctx)
    if not isinstance(source, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise LayoutError(f"a program is read from a text or a path, not from {type(source).__name__}")
    if "\n" not in source and source.endswith((".mlir", ".onnx")):
        return parse_file(source, allow_unregistered=allow_unregistered, ctx=ctx)
    return parse_program(source, TEXT_NAME, allow_unregistered=allow_unregistered, ctx=ctx)


def parse_file(path: str, *, allow_unregistered: bool = False, ctx: Context | None = None) -> ModuleOp:
    """The verified module of the MLIR text in the file `path`. Raises ProgramError and OSError."""
    if os.path.splitext(path)[1].lower() == ".onnx":
        raise LayoutError(f"{path} is an ONNX model by its name, not MLIR text: from_onnx reads models")
    try:
        data = read_whole(path)
    except LayoutError as error:
        raise ProgramError([Diagnostic(Severity.ERROR, str(error), Location(path))]) from error
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        message = f"not UTF-8 text: byte 0x{data[error.start]:02x} in line {line}; models end in .onnx"
        raise ProgramError([Diagnostic(Severity.ERROR, message, Location(path))]) from error
    return parse_program(text, path, allow_unregistered=allow_unregistered, ctx=ctx)


def parse_program(
    text: str, path: str, *, allow_unregistered: bool = False, ctx: Context | None = None
) -> ModuleOp:
    """The verified module of an MLIR text; `path` names it in errors. Raises ProgramError."""
    sources = {path: text}
    try:
        ctx = ctx or context(allow_unregistered=allow_unregistered)
        module = LocatedParser(ctx, text, path, 0).parse_program(True)
    except ParseError as error:
        raise ProgramError([from_parse_error(error)], sources) from error
    errors = verify_module(module)
    if errors:
        raise ProgramError(errors, sources)
    return module


@public
def to_text(
    module: ModuleOp, *, generic: bool = False, for_irdl: bool = False, elide_above: int | None = None
) -> str:
    """The MLIR text of `module`, ending in a newline: formats as aliases at the top, constants bit for bit.

    `parse` reads it back to the same program. `generic` writes every op in MLIR's generic form, which `mlir-opt
    --allow-unregistered-dialect` reads. `for_irdl` writes what `mlir-opt --irdl-file` reads with the definitions that
    `layout-ir irdl` prints. Constants of more than `elide_above` elements are left out, but for splats:
    such a text can be read and transformed, not run.
    """
    check_program(module)
    check_flags(generic=generic, for_irdl=for_irdl)
    return print_module(module, generic=generic, for_irdl=for_irdl, elide_above=elide_above)


@public
def print(module: ModuleOp, *, generic: bool = False, file: IO[str] | None = None) -> None:
    """Writes what `to_text` gives to `file`, an open one, or to standard output where none is given.

    Raises LayoutError where `file` is something else, and what `to_text` raises."""
    import builtins

    if file is not None and not callable(getattr(file, "write", None)):
        raise LayoutError(f"file = {file!r} is no open file: expected what open(path, 'w') returns")
    builtins.print(to_text(module, generic=generic), end="", file=file)
