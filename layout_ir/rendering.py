"""Diagnostics as text, the way MLIR's tools print them.

    model.mlir:3:8: error: 'nn.conv' op rank mismatch between ...
      %0 = nn.conv %x, %w : ...
           ^

`Renderer` writes them to a stream; the `from_*` functions make them from exceptions of xDSL and of this package.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import IO

from xdsl.utils.exceptions import ArgSpecParseError, MultipleSpansParseError, ParseError
from xdsl.utils.lexer import Span

from layout_ir.diagnostics import Diagnostic, Location, Severity
from layout_ir.snippet import snippet

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
        self.stream.write(f"{diagnostic}\n{self._snippet(diagnostic.location)}")
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
        return f"{snippet(line, caret, caret + 1)}\n"


def from_error(error: Exception, file: str | None = None) -> Diagnostic:
    """The diagnostic of an error of this package, at the error's `location`, or else at `file` as a whole."""
    place = getattr(error, "location", None) or (None if file is None else Location(file))
    return Diagnostic(Severity.ERROR, one_line(error), place)


def one_line(error: BaseException) -> str:
    """The message of an exception in one line: xDSL's verifiers put line breaks between cause and effect."""
    return "; ".join(line.strip() for line in str(error).splitlines()).replace(":;", ":")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: ": did you mean ...?", or nothing where none is similar."""
    close = get_close_matches(name, list(known), n=3)
    return f": did you mean {' or '.join(repr(match) for match in close)}?" if close else ""


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
