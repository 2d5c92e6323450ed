"""How passes talk to people: diagnostics with a place in the source.

A pass that finds a program impossible raises `PassError(message, op)`. A pass that declines to do something, or
has something to explain, says so with `remark(op, message)` or `warning(op, message)` and goes on. Who listens is
not its business: the tools print, tests collect, and without a listener nothing happens.

    with collect() as found:
        LayoutFoldReordersPass().apply(ctx, module)
    assert [d.message for d in found] == ["reorder stays: its result has two uses"]

Listeners are kept in a context variable, so that threads and nested runs do not hear each other.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
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


class Severity(Enum):
    """How bad it is; the value is the word that is printed."""

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
    """None when no place in a source is known."""
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
    """An exception that nobody foresaw, while something was done with an op."""

    def __init__(self, subject: str, cause: BaseException, op: Operation | None = None):
        super().__init__(subject, cause)
        self.location = None if op is None else location_of(op)
        if self.location is not None:
            self.add_note(f"at {self.location}")  # for those who see Python's own message


class UnforeseenPassError(UnforeseenOpError, PassError):
    """An exception that nobody foresaw, inside a pass; names the op that was looked at, and its place."""


def unforeseen_in_pass(name: str, error: Exception) -> UnforeseenPassError:
    """What to raise for an `error` that nobody foresaw in the pass `name`."""
    op = visited_op(error)
    at = "" if op is None else f" at '{name_of_op(op)}' op"
    return UnforeseenPassError(f"pass '{name}' failed{at}", error, op)


def visited_op(error: BaseException) -> Operation | None:
    """The op that was looked at when `error` was raised: that of the innermost function that has one as a variable.

    Passes walk programs in a hundred places; asking the frames that the error left costs nothing before there is one.
    An op inside a function says more than the function, and that more than the module; one that is being made and has
    no place yet says least.
    """
    frames = [frame.f_locals for frame, _ in traceback.walk_tb(error.__traceback__)]
    found = [value for names in reversed(frames) for value in _ops(names)]
    found.sort(key=lambda op: (location_of(op) is None, isinstance(op, ModuleOp), isinstance(op, FuncOp)))
    return found[0] if found else None


def _ops(names: dict[str, object]) -> list[Operation]:
    """The ops among the variables of a function, the one called `op` first."""
    return [
        value
        for _, value in sorted(names.items(), key=lambda item: item[0] != "op")
        if isinstance(value, Operation)
    ]


def emit(diagnostic: Diagnostic) -> None:
    """Hand `diagnostic` to the innermost listener; without one it is dropped."""
    if (handler := _handler.get()) is not None:
        handler(diagnostic)


def listening() -> bool:
    """Whether anyone would hear a diagnostic: lets a pass skip the work of wording an expensive one."""
    return _handler.get() is not None


def remark(op: Operation, message: str, *notes: Diagnostic) -> None:
    """Tell the listener something about `op` that is worth knowing and is no problem."""
    emit(Diagnostic(Severity.REMARK, message, location_of(op), notes))


def warning(op: Operation, message: str, *notes: Diagnostic) -> None:
    """Tell the listener that something about `op` is probably not meant."""
    emit(Diagnostic(Severity.WARNING, message, location_of(op), notes))


def note(op: Operation, message: str) -> Diagnostic:
    """A note about `op`, to be passed along with a remark or warning about another op."""
    return Diagnostic(Severity.NOTE, message, location_of(op))


@contextmanager
def handling(handler: Handler) -> Generator[None]:
    """Send the diagnostics of the body to `handler` instead of the outer listener."""
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


def name_of_op(op: Operation) -> str:
    """The name of `op` as a program spells it, that of an unregistered op too."""
    return op.op_name.data if isinstance(op, UnregisteredOp) else op.name


def location_of(op: Operation) -> Location | None:
    """The place in the source of `op`, or of the closest op around it that has one.

    Ops made by a rewrite often have no place of their own; the function they are in is better than nothing.
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
            return _file_location(location.location) or Location(location.desc.data)
        case CallSiteLoc():
            return _file_location(location.callee) or _file_location(location.caller)
        case FusedLoc():
            parts = cast("ArrayAttr[Attribute]", location.locations)
            return next((place for part in parts if (place := _file_location(part)) is not None), None)
        case _:
            return None
