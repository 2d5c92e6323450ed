"""Diagnostics of passes: errors, warnings, remarks and notes with a place in the source.

A pass that cannot go on raises `PassError(message, op)`. A pass that declines to do something, or has something to
explain, emits `remark(op, message)` or `warning(op, message)` and goes on. They go to the innermost handler: the tools
print them, tests collect them, and without a handler they are dropped.

    with collect() as found:
        LayoutFoldReordersPass().apply(ctx, module)
    assert [d.message for d in found] == ["reorder stays: its result has two uses"]

The handler is a context variable, so that threads and nested runs have their own.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    ModuleOp,
    NameLoc,
    UnregisteredOp,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import PassFailedException

from layout_ir.errors import LayoutError, UnforeseenError, printable

if TYPE_CHECKING:
    from xdsl.ir import Attribute, Block

__all__ = [
    "Diagnostic",
    "LocatedError",
    "Location",
    "PassError",
    "Severity",
    "collect",
    "collect_remarks",
    "emit",
    "note",
    "remark",
    "warning",
]


class Severity(Enum):
    """The severity of a diagnostic; the value is the word that is printed."""

    ERROR = "error"
    WARNING = "warning"
    REMARK = "remark"
    NOTE = "note"


class Location(NamedTuple):
    """A place in a source; `line` and `col` count from 1, columns in code points.

    Line 0 is the source as a whole: a model file that is not text, the name of a node in one.
    """

    file: str
    line: int = 0
    col: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.col}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message about one place, with the notes that belong to it."""

    severity: Severity
    message: str
    location: Location | None = None
    """None where no place in a source is known."""
    notes: tuple[Diagnostic, ...] = ()

    def __str__(self) -> str:
        """The message with its place before it, as MLIR's tools print it: one line, without the notes."""
        place = "" if self.location is None else f"{self.location}: "
        return printable(f"{place}{self.severity.value}: {self.message}")


Handler = Callable[[Diagnostic], None]

_handler: ContextVar[Handler | None] = ContextVar("layout_ir_diagnostic_handler", default=None)


class LocatedError(LayoutError):
    """An error about an op of a program; `location` is its place in the source, None where no place is known."""

    location: Location | None

    def __init__(self, message: str, op: Operation | None = None):
        super().__init__(message)
        self.location = None if op is None else location_of(op)


class PassError(LocatedError, PassFailedException):
    """A pass cannot do what it was asked to; `location` is the place in the source of the op to blame."""


class UnforeseenOpError(UnforeseenError, LocatedError):
    """An unforeseen exception while an op was processed; `location` is the op's."""

    def __init__(self, subject: str, cause: BaseException, op: Operation | None = None):
        super().__init__(subject, cause)
        self.location = None if op is None else location_of(op)
        if self.location is not None:
            self.add_note(f"at {self.location}")  # shown in Python's own traceback


class UnforeseenPassError(UnforeseenOpError, PassError):
    """An unforeseen exception inside a pass; names the op that was processed, and its place."""


def unforeseen_in_pass(name: str, error: Exception) -> UnforeseenPassError:
    """The exception to raise for an unforeseen `error` in the pass `name`."""
    op = visited_op(error)
    at = "" if op is None else f" at '{name_of_op(op)}' op"
    return UnforeseenPassError(f"pass '{name}' failed{at}", error, op)


def visited_op(error: BaseException) -> Operation | None:
    """The op that was processed when `error` was raised: a local variable of the innermost frame that has one.

    Passes walk programs in a hundred places; to search the frames of a traceback costs nothing until there is one.
    An op inside a function is preferred to the function, and that to the module; an op without a location comes last.
    """
    frames = [frame.f_locals for frame, _ in traceback.walk_tb(error.__traceback__)]
    found = [value for names in reversed(frames) for value in _ops(names)]
    found.sort(key=lambda op: (location_of(op) is None, isinstance(op, ModuleOp), isinstance(op, FuncOp)))
    return found[0] if found else None


def _ops(names: dict[str, object]) -> list[Operation]:
    """The ops among the variables of a function, the one called `op` first.

    One whose constructor raised has no location yet, and is left out.
    """
    return [
        value
        for _, value in sorted(names.items(), key=lambda item: item[0] != "op")
        if isinstance(value, Operation) and hasattr(value, "location")
    ]


def emit(diagnostic: Diagnostic) -> None:
    """Passes `diagnostic` to the innermost handler; without one it is dropped."""
    if (handler := _handler.get()) is not None:
        handler(diagnostic)


def listening() -> bool:
    """Whether there is a handler; without one a pass can skip the work for an expensive diagnostic."""
    return _handler.get() is not None


def remark(op: Operation, message: str, *notes: Diagnostic) -> None:
    """Emits a remark at the location of `op`: information that asks for no action."""
    emit(Diagnostic(Severity.REMARK, message, location_of(op), notes))


def warning(op: Operation, message: str, *notes: Diagnostic) -> None:
    """Emits a warning at the location of `op`: something is probably not intended."""
    emit(Diagnostic(Severity.WARNING, message, location_of(op), notes))


def note(op: Operation, message: str) -> Diagnostic:
    """A note at the location of `op`, to be attached to a remark or warning about another op."""
    return Diagnostic(Severity.NOTE, message, location_of(op))


@contextmanager
def handling(handler: Handler) -> Generator[None]:
    """Makes `handler` receive the diagnostics of the body, in place of the outer handler."""
    token = _handler.set(handler)
    try:
        yield
    finally:
        _handler.reset(token)


@contextmanager
def collect() -> Generator[list[Diagnostic]]:
    """The diagnostics of the body, as a list that grows while it runs."""
    found: list[Diagnostic] = []
    with handling(found.append):
        yield found


def collect_remarks() -> AbstractContextManager[list[Diagnostic]]:
    """A context manager whose value is the list of the remarks and warnings that passes emit in its body.

        with li.collect_remarks() as remarks:
            li.optimize(module)
        for remark in remarks:
            print(remark)                # file:line:col: remark: ...

    The list grows while the body runs. A `Diagnostic` has `severity`, `message`, `location` and `notes`. Errors are
    raised, not collected.
    """
    return collect()


def name_of_op(op: Operation) -> str:
    """The name of `op` in the text of a program; of an unregistered op, the one it has there."""
    return op.op_name.data if isinstance(op, UnregisteredOp) else op.name


def location_of(op: Operation) -> Location | None:
    """The place in the source of `op`, or of the closest op around it that has one; None where none has.

    An op that a rewrite made may have no location of its own; then the one of its function is reported.
    """
    current: Operation | None = op
    while current is not None:
        if (location := _file_location(current.location)) is not None:
            return location
        block: Block | None = current.parent
        current = None if block is None else block.parent_op()
    return None


def _file_location(location: Attribute) -> Location | None:
    """The first place inside a location attribute, which may nest others."""
    match location:
        case FileLineColLoc():
            return Location(location.filename.data, location.line.data, location.column.data)
        case NameLoc():
            inner = _file_location(location.location)
            return inner if inner is not None and inner.line else Location(location.desc.data)
        case CallSiteLoc():
            return _file_location(location.callee) or _file_location(location.caller)
        case FusedLoc():
            parts = cast("ArrayAttr[Attribute]", location.locations)
            return next((place for part in parts if (place := _file_location(part)) is not None), None)
        case _:
            return None
