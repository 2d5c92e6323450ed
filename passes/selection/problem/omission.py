"""What a selection problem leaves out, so that nobody takes its optimum for that of the program."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation


@dataclass(frozen=True, slots=True)
class Omission:
    """Something that the program leaves open and the problem does not state: at which op, and in words."""

    op: Operation
    what: str
