"""Subcommands of `layout-ir`, one module each.

A module offers `add_parser(subparsers)`, which describes its arguments and sets `run` to a function from the parsed
arguments to the exit status. Nothing heavy is imported before `run` is called, so that `--help` answers at once.
"""

from __future__ import annotations

COMMANDS = (
    "optimize",
    "run",
    "explain",
    "convert",
    "draw",
    "explain_reorder",
    "explain_model",
    "compile_reorder",
    "compile_reorders",
    "bench",
    "calibrate",
    "verify_certificate",
)
"""Module names, in the order of the help text."""


class TextError(Exception):
    """A text of the command line is wrong at the offsets `span`, None for all of it.

    The tool prints the message, and the text with a caret below that place.
    """

    def __init__(self, message: str, text: str, span: tuple[int, int] | None):
        super().__init__(message)
        self.text = text
        self.span = span
