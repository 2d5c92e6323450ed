"""The base class of all passes: errors and remarks that name a place, whichever tool runs them.

A pass states its work as `rewrite`. `LayoutPass.apply` is the one place where an exception that nobody foresaw becomes
an error that names the pass and the op it looked at, and where the stock tools of xDSL, which listen to no remarks and
print errors as Python tracebacks, get both as text.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType, TracebackType

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from layout_ir.diagnostics import (
    Diagnostic,
    LocatedError,
    PassError,
    Severity,
    handling,
    listening,
    unforeseen_in_pass,
    visited_op,
)
from layout_ir.errors import LayoutError, UnforeseenError, wants_traceback


class LayoutPass(ModulePass):
    """A pass that says what is wrong, and where, whichever tool runs it."""

    @abstractmethod
    def rewrite(self, module: ModuleOp) -> None:
        """Does the work, in place. Raises LayoutError, or PassError with a place, for what the user can mend."""

    def check_options(self) -> None:
        """Raises LayoutError where an option has a value that is wrong for every program. `layout-opt` asks before it
        reads one, and names the place in the pipeline; what runs the pass need not."""
        return

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Runs the pass. Raises PassError (or what other errors of xDSL and of files the pass raises)."""
        with readable_in_stock_tools(), errors_of_pass(self.name, op):
            self.rewrite(op)


@contextmanager
def readable_in_stock_tools() -> Generator[None]:
    """Let remarks and errors of the body reach the user as text, where one of xDSL's own tools runs it."""
    if listening() or not _is_run_by_stock_tool():
        yield
        return
    with handling(_print):
        try:
            yield
        except LayoutError:
            sys.excepthook = _print_uncaught
            raise


@contextmanager
def errors_of_pass(name: str, module: ModuleOp) -> Generator[None]:
    """Raise what the pass `name` raises on `module` as a PassError; errors of files and other passes pass through."""
    try:
        yield
    except (PassFailedException, OSError):
        raise
    except LayoutError as error:
        op = visited_op(error) if isinstance(error, UnforeseenError) else module
        found = PassError(str(error), op)
        if isinstance(error, LocatedError) and error.location is not None:
            found.location = error.location
        raise found from error
    except Exception as error:
        raise unforeseen_in_pass(name, error) from error


def _is_run_by_stock_tool() -> bool:
    """Whether a command line tool of xDSL, or one derived from it, is among the callers."""
    driver = sys.modules.get("xdsl.xdsl_opt_main")
    frame: FrameType | None = sys._getframe()  # pyright: ignore[reportPrivateUsage]
    while driver is not None and frame is not None:
        if isinstance(frame.f_locals.get("self"), driver.xDSLOptMain):
            return True
        frame = frame.f_back
    return False


def _print(diagnostic: Diagnostic) -> None:
    for each in (diagnostic, *diagnostic.notes):
        print(each, file=sys.stderr)


def _print_uncaught(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """`sys.excepthook` of a tool that would print the traceback of one of our errors: prints the error."""
    if isinstance(error, LayoutError) and not wants_traceback():
        _print(Diagnostic(Severity.ERROR, str(error), getattr(error, "location", None)))
    else:
        sys.__excepthook__(kind, error, traceback)
