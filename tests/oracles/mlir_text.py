"""The stock mlir-opt as a reader of texts: what it makes of a program, in the generic form.

Two programs that it prints alike are one program. Skipped where it is not installed.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from functools import cache, lru_cache

from xdsl.dialects.builtin import ModuleOp

from layout_ir.api.program_text import parse_program
from layout_ir.printing import print_module

_SPLIT = "\n// -----\n"


@cache
def mlir_opt() -> str | None:
    """The path of mlir-opt 22; None where there is none."""
    return shutil.which("mlir-opt-22")


@lru_cache(maxsize=4096)
def generic_form(text: str, *options: str) -> str:
    """The program `text` as mlir-opt prints it. Raises ValueError with its first error where it refuses it."""
    command = mlir_opt()
    assert command is not None
    done = subprocess.run(
        [command, "--mlir-print-op-generic", *options],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ValueError(next((line for line in done.stderr.splitlines() if "error" in line), done.stderr))
    return done.stdout


def generic_forms(texts: Sequence[str], *options: str) -> list[str | None]:
    """Each program as mlir-opt prints it, None where it refuses it; no text holds a line `// -----`.

    One process for all, which takes longer to start than for a small program; where it dies, one for each half.
    """
    command = mlir_opt()
    assert command is not None
    done = subprocess.run(
        [command, "--mlir-print-op-generic", "--split-input-file", *options],
        input=_SPLIT.join(texts),
        capture_output=True,
        text=True,
        check=False,
    )
    found = done.stdout.split(_SPLIT.lstrip("\n"))
    if done.returncode in (0, 1) and len(found) == len(texts):
        return [form.strip() or None for form in found]
    if len(texts) == 1:
        return [None]
    middle = len(texts) // 2
    return [*generic_forms(texts[:middle], *options), *generic_forms(texts[middle:], *options)]


def check_forms(text: str) -> ModuleOp:
    """Our module of `text`, whose custom and generic form mlir-opt takes for the program that `text` is to it; its own
    generic form is read by us as well."""
    module = parse_program(text, "program.mlir")
    expected = generic_form(text)
    printed = [print_module(module, generic=generic) for generic in (False, True)]
    printed.append(print_module(parse_program(expected, "generic.mlir")))
    for form, program in zip(generic_forms(printed), printed, strict=True):
        if form is None:
            generic_form(program)  # which says why it is refused
        assert form == expected.strip()
    return module
