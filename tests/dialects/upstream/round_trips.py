"""What stock `mlir-opt` prints is read, and what we print it reads back as the same program."""

from __future__ import annotations

from layout_ir.api.program_text import parse_program, to_text
from tests.exits.linalg.mlir_tools import mlir_opt

GENERIC = "--mlir-print-op-generic"


def check_round_trip(text: str) -> None:
    """Asserts it of the custom and of the generic forms of `text`, a program that `mlir-opt` takes."""
    generic = mlir_opt(text, GENERIC)
    for written in (mlir_opt(text), generic):
        ours = to_text(parse_program(written, "program.mlir"))
        assert mlir_opt(ours, GENERIC) == generic, ours
