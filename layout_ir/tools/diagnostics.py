"""Diagnostics as text, the way MLIR's tools print them.

    model.mlir:3:8: error: 'nn.conv' op rank mismatch between ...
      %0 = nn.conv %x, %w : ...
           ^

`Renderer` writes them to a stream; `from_exception` makes them out of what xDSL and this package raise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import IO

from xdsl.utils.exceptions import ArgSpecParseError, MultipleSpansParseError, ParseError
from xdsl.utils.lexer import Span

from layout_ir.diagnostics import Diagnostic, Location, Severity

_SNIPPET = 120
"""Characters of a source line that are shown on each side of the caret at most: lines with constants are long."""

_PIPELINE_PLACE = re.compile(r"^pass-pipeline:(\d+):(\d+)$")


class Renderer:
    """Writes diagnostics to `stream`, with the line of source they are about and a caret below it.

    `sources` maps file names to their whole text; for other files the place alone is printed.
    """

    def __init__(self, stream: IO[str], sources: Mapping[str, str] | None = None):
        self.stream = stream
        self.sources: dict[str, str] = dict(sources or {})
        self._lines: dict[str, list[str]] = {}

    def __call__(self, diagnostic: Diagnostic) -> None:
        place = f"{diagnostic.location}: " if diagnostic.location is not None else ""
        text = f"{place}{diagnostic.severity.value}: {diagnostic.message}\n"
        self.stream.write(text + self._snippet(diagnostic.location))
        for note in diagnostic.notes:
            self(note)

    def _snippet(self, location: Location | None) -> str:
        if location is None or location.file not in self.sources:
            return ""
        if location.file not in self._lines:
            self._lines[location.file] = self.sources[location.file].split("\n")
        lines = self._lines[location.file]
        if not 1 <= location.line <= len(lines):
            return ""
        line = lines[location.line - 1].rstrip("\r")
        caret = min(max(location.col - 1, 0), len(line))
        start = max(0, caret - _SNIPPET)
        before, after = line[start:caret], line[caret : caret + _SNIPPET]
        # Tabs stay tabs, so that the caret stands below its character however wide they are shown.
        indent = "".join("\t" if character == "\t" else " " for character in before)
        return f"{before}{after}\n{indent}^\n"


def one_line(error: BaseException) -> str:
    """The message of an exception without line breaks, which xDSL's verifiers use between cause and effect."""
    return "; ".join(line.strip() for line in str(error).splitlines()).replace(":;", ":")


def from_parse_error(error: ParseError) -> Diagnostic:
    """The diagnostic of a parse error, with a note for every further place it names."""
    notes: tuple[Diagnostic, ...] = ()
    if isinstance(error, MultipleSpansParseError):
        offset = error.span.line_offset
        notes = tuple(
            Diagnostic(Severity.NOTE, message or error.ref_text or "see here", _place(span, offset))
            for span, message in error.refs
        )
    return Diagnostic(Severity.ERROR, "; ".join(error.msg.split("\n")), _place(error.span), notes)


def from_spec_error(error: ArgSpecParseError, option: str) -> Diagnostic:
    """The diagnostic of a pipeline or target text that cannot be read; its place is inside option `option`.

    xDSL keeps the place and the reason in the message only: title, place, text, carets, reason.
    """
    lines = str(error).rstrip("\n").split("\n")
    for number, line in enumerate(lines):
        if match := _PIPELINE_PLACE.match(line):
            place = Location(option, int(match[1]), int(match[2]))
            return Diagnostic(Severity.ERROR, lines[-1].strip(), place)
        if number > 1:
            break
    return Diagnostic(Severity.ERROR, lines[-1].strip(), Location(option))


def _place(span: Span[str] | Span[bytes], line_offset: int = 0) -> Location:
    file, line, col = span.get_location()
    return Location(file, line + line_offset, col)
