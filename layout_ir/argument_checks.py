"""What many public calls take, checked in one place: programs, numbers of threads, limits of time."""

from __future__ import annotations

import math
from numbers import Integral

from layout_ir.errors import LayoutError


def check_program(module: object) -> None:
    """Raises LayoutError where `module` is no ModuleOp of xDSL."""
    from xdsl.dialects.builtin import ModuleOp  # problems without programs do without xDSL

    if not isinstance(module, ModuleOp):
        raise LayoutError(f"a program is a ModuleOp of xDSL, not of type {type(module).__name__}")


def check_threads(threads: object) -> None:
    """Raises LayoutError where `threads` is no whole number from 1 on."""
    if isinstance(threads, bool) or not isinstance(threads, Integral) or int(threads) < 1:
        raise LayoutError(f"threads = {threads!r} is no number of threads: expected a whole number from 1 on")


def check_seconds(name: str, seconds: object, *, finite: bool = False) -> None:
    """Raises LayoutError where `seconds`, the argument called `name`, is no number from 0 on.

    Infinity is such a number, unless it has to be `finite`.
    """
    wrong = isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0
    if wrong or (finite and seconds == math.inf):
        raise LayoutError(f"{name} = {seconds!r} is no number of seconds from 0 on")
