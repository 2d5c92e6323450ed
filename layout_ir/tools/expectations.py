"""`--verify-diagnostics`: the diagnostics a program must give, written into the program.

    // expected-error@+1 {{rank mismatch between format (n, c) and shape 2x3x4: 2 != 3}}
    %0 = ...

A comment `expected-error`, `expected-warning`, `expected-remark` or `expected-note` stands for one diagnostic on
its own line, `@+N` or `@-N` lines away, on the next or previous line without such a comment (`@below`, `@above`)
or nowhere in the text (`@unknown`). The text in braces must be a part of the message; after `expected-error-re`
it is literal except for regular expressions in inner braces: `{{found {{[0-9]+}} reorders}}`.

Every expectation must be met and every diagnostic must be expected, each by its own partner: both a missing and
an unexpected one fail. A comment that looks like an expectation but cannot be read is an error as well: ignored, it
would make a test pass that checks nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from layout_ir.diagnostics import Diagnostic, Location, Severity

_EXPECTATION = re.compile(
    r"expected-(?P<kind>error|warning|remark|note)(?P<regex>-re)? *"
    r"(?:@(?P<where>[+-][0-9]+|above|below|unknown))? *\{\{(?P<text>.*)\}\}\s*$"
)
_LOOKS_LIKE_ONE = re.compile(r"//.*\bexpected-(?:error|warning|remark|note)\b")


@dataclass(frozen=True, slots=True)
class Expectation:
    """One `expected-...` comment."""

    severity: Severity
    text: str
    is_regex: bool
    line: int | None
    """The line the diagnostic must be on, from 1; None for one without a place."""
    location: Location
    """The place of the comment itself."""

    def meets(self, diagnostic: Diagnostic) -> bool:
        """Whether this is the diagnostic that was expected."""
        place = diagnostic.location
        line = None if place is None or place.line == 0 else place.line
        if line is not None and place is not None and place.file != self.location.file:
            line = None
        if diagnostic.severity is not self.severity or line != self.line:
            return False
        if self.is_regex:
            return re.search(_to_regex(self.text), diagnostic.message) is not None
        return self.text in diagnostic.message


def _to_regex(text: str) -> str:
    """`text` with everything escaped but what is in inner braces."""
    parts = re.split(r"\{\{(.*?)\}\}", text)
    return "".join(f"(?:{part})" if number % 2 else re.escape(part) for number, part in enumerate(parts))


def read_expectations(text: str, file: str) -> tuple[list[Expectation], list[Diagnostic]]:
    """The expectations in a program, and an error for each comment that cannot be read as one."""
    found: list[Expectation] = []
    errors: list[Diagnostic] = []
    lines = text.split("\n")
    marked = [_EXPECTATION.search(line) is not None for line in lines]
    for index, line in enumerate(lines):
        match = _EXPECTATION.search(line)
        if match is None:
            if loose := _LOOKS_LIKE_ONE.search(line):
                place = Location(file, index + 1, loose.start() + 1)
                message = "malformed expectation: write expected-error@+1 {{text}} and nothing after it"
                errors.append(Diagnostic(Severity.ERROR, message, place))
            continue
        place = Location(file, index + 1, match.start() + 1)
        if match["regex"]:
            try:
                re.compile(_to_regex(match["text"]))
            except re.error as error:
                message = f"malformed expectation: bad regular expression: {error}"
                errors.append(Diagnostic(Severity.ERROR, message, place))
                continue
        target = _target_line(match["where"], index, marked)
        severity = Severity(match["kind"])
        found.append(Expectation(severity, match["text"], bool(match["regex"]), target, place))
    return found, errors


def _target_line(where: str | None, index: int, marked: Sequence[bool]) -> int | None:
    """The line, from 1, that the designator `where` on line `index` (from 0) points to."""
    match where:
        case None:
            return index + 1
        case "unknown":
            return None
        case "above" | "below":
            step = -1 if where == "above" else 1
            index += step
            while 0 <= index < len(marked) and marked[index]:
                index += step
            return index + 1
        case _:
            return index + 1 + int(where)


def check_diagnostics(text: str, file: str, diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """An error for each diagnostic that `text` does not expect, and for each expectation that is not met.

    `text` is the program with its comments, and `file` the name by which the locations of `diagnostics` call it.
    """
    open_expectations, wrong = read_expectations(text, file)
    for diagnostic in _flatten(diagnostics):
        partner = next((e for e in open_expectations if e.meets(diagnostic)), None)
        if partner is not None:
            open_expectations.remove(partner)
        else:
            message = f"unexpected {diagnostic.severity.value}: {diagnostic.message}"
            wrong.append(Diagnostic(Severity.ERROR, message, diagnostic.location or Location(file)))
    for expectation in open_expectations:
        message = f'expected {expectation.severity.value} "{expectation.text}" was not produced'
        wrong.append(Diagnostic(Severity.ERROR, message, expectation.location))
    return wrong


def _flatten(diagnostics: Iterable[Diagnostic]) -> Iterable[Diagnostic]:
    for diagnostic in diagnostics:
        yield diagnostic
        yield from _flatten(diagnostic.notes)
