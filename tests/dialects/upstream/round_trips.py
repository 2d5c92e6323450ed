"""What stock `mlir-opt` prints is read, and what we print it reads back as the same program."""

from __future__ import annotations

import pytest

from layout_ir.api.program_text import ProgramError, parse_program, to_text
from tests.exits.linalg.mlir_tools import mlir_opt

GENERIC = "--mlir-print-op-generic"


def check_round_trip(text: str) -> None:
    """Asserts it of the custom and of the generic forms of `text`, a program that `mlir-opt` takes."""
    generic = mlir_opt(text, GENERIC)
    for written in (mlir_opt(text), generic):
        ours = to_text(parse_program(written, "program.mlir"))
        assert mlir_opt(ours, GENERIC) == generic, ours


def check_error(arguments: str, ops: str, reason: str) -> None:
    """Asserts that a function of these arguments with these ops is refused with a message that `reason` matches."""
    with pytest.raises(ProgramError, match=reason):
        parse_program(f"func.func @f({arguments}) {{\n{ops}\nfunc.return\n}}", "program.mlir")
