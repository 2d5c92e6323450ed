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
    "compile_reorder",
    "bench",
    "calibrate",
    "verify_certificate",
)
"""Module names, in the order of the help text."""


class TextError(Exception):
    """Something is wrong with a text from the command line; `span` is where in it.

    The message says what, and the tool prints the text with a caret below the place.
    """

    def __init__(self, message: str, text: str, span: tuple[int, int] | None):
        super().__init__(message)
        self.text = text
        self.span = span
