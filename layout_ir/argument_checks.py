"""What many public calls take, checked in one place: programs, flags, integers, rows, shapes, paths, numbers of
threads, times."""

from __future__ import annotations

import math
import operator
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any, cast

from layout_ir.errors import LayoutError, shape_text


def check_program(module: object) -> None:
    """Raises LayoutError where `module` is no ModuleOp of xDSL."""
    from xdsl.dialects.builtin import ModuleOp  # problems without programs do without xDSL

    if not isinstance(module, ModuleOp):
        is_source = isinstance(module, str | bytes | os.PathLike)
        hint = (
            ": layout_ir.parse reads one from MLIR, layout_ir.from_onnx from an ONNX model"
            if is_source
            else ""
        )
        raise LayoutError(f"a program is a ModuleOp of xDSL, not of type {type(module).__name__}{hint}")


def check_model_name(source: object) -> None:
    """Raises LayoutError where `source`, which is to be an ONNX model, is the path of a program by its name."""
    if isinstance(source, str | os.PathLike) and os.fspath(source)[-5:] in (".mlir", b".mlir"):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        raise LayoutError(
            f"{os.fspath(source)!s} is a program by its name, and no ONNX model: layout_ir.parse reads it, "  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            "layout_ir.compile and layout_ir.optimize take what that returns"
        )


def check_flags(**flags: object) -> None:
    """Raises LayoutError where an argument, given under its name, is neither True nor False, of Python or of NumPy.

    Any text but the empty one would be taken for True, "no" as well.
    """
    for name, flag in flags.items():
        if isinstance(flag, bool):
            continue
        numpy = sys.modules.get("numpy")  # whoever has a bool of NumPy has imported that
        if numpy is None or not isinstance(flag, numpy.bool_):
            raise LayoutError(f"{name} = {flag!r} is no flag: expected True or False")


MOST_THREADS = 8192
"""As many processors as Linux can be built for on x86-64. OpenMP starts each thread that it is told to use, and keeps
what it knows of them on the stack of the caller, which some ten times as many overflow."""


def check_threads(threads: object, most: int | None = None) -> None:
    """Raises LayoutError where `threads` is no whole number from 1 on, or more than `most`."""
    if isinstance(threads, bool) or not isinstance(threads, Integral) or int(threads) < 1:
        raise LayoutError(f"threads = {threads!r} is no number of threads: expected a whole number from 1 on")
    if most is not None and int(threads) > most:
        raise LayoutError(f"threads = {threads} is more than {most}, and no machine runs so many at a time")


def check_seconds(name: str, seconds: object, *, finite: bool = False) -> None:
    """Raises LayoutError where `seconds`, the argument called `name`, is no number from 0 on.

    Infinity is such a number, unless it has to be `finite`.
    """
    wrong = isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0
    if wrong or (finite and seconds == math.inf):
        raise LayoutError(f"{name} = {seconds!r} is no number of seconds from 0 on")


def checked_shapes(shapes: object) -> dict[str, tuple[int, ...]] | None:
    """The argument `shapes`: the extents of inputs by their names, or None.

    Raises LayoutError where it is something else. Whether there are such inputs, and whether they can have these
    extents, is not looked at.
    """
    if shapes is None:
        return None
    if not isinstance(shapes, Mapping):
        raise LayoutError(f"shapes = {shapes!r} is no dict from names of inputs to their extents")
    found: dict[str, tuple[int, ...]] = {}
    for name, shape in cast("Mapping[object, Any]", shapes).items():
        if not isinstance(name, str):
            raise LayoutError(f"shapes gives a shape to {name!r}, which is no name of an input")
        try:
            found[name] = tuple(map(operator.index, shape))
        except TypeError as error:
            raise LayoutError(
                f"shapes[{name!r}] = {shape!r} is no row of whole numbers, such as (1, 3, 224, 224)"
            ) from error
    return found


def checked_integers(what: str, numbers: object) -> tuple[int, ...]:
    """Whole numbers of any kind as integers of Python. Raises LayoutError where `numbers`, called `what`, are none."""
    try:
        return tuple(map(operator.index, cast("Any", numbers)))
    except TypeError:
        raise LayoutError(f"{what} {numbers!r} is no row of integers") from None


def checked_integer(what: str, number: object) -> int:
    """A whole number of any kind as an integer of Python. Raises LayoutError where `number`, called `what`, is none."""
    try:
        return operator.index(cast("Any", number))
    except TypeError:
        raise LayoutError(f"{what} {number!r} is no integer") from None


def checked_row(what: str, row: object) -> tuple[Any, ...]:
    """The elements of any iterable. Raises LayoutError where `row`, called `what`, is none, or is a text, whose letters
    are hardly meant."""
    try:
        found = None if isinstance(row, str | bytes) else tuple(cast("Iterable[Any]", row))
    except TypeError:
        found = None
    if found is None:
        instead = f": expected [{row!r}]" if isinstance(row, str) else ""
        raise LayoutError(f"{what} {row!r} is no row of names{instead}")
    return found


def checked_dim(dim: object, shape: Sequence[int]) -> int:
    """`dim` as an integer of Python. Raises LayoutError where it is no number of a dim of `shape`."""
    try:
        number = operator.index(cast("Any", dim))
    except TypeError:
        raise LayoutError(
            f"dim {dim!r} is no integer: the dims of shape {shape_text(shape)} count from 0"
        ) from None
    if not 0 <= number < len(shape):
        raise LayoutError(f"dim {number} does not exist in shape {shape_text(shape)}")
    return number


def checked_path(path: object, name: str = "path") -> str:
    """The argument called `name`, a path, as text. Raises LayoutError where it is none."""
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if not isinstance(text, str) or "\0" in text:
        raise LayoutError(f"{name} = {path!r} is no path: expected a text without NUL, or a pathlib.Path")
    return text
