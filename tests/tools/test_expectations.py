"""Expected diagnostics: each must come, and no other."""

from __future__ import annotations

import pytest

from layout_ir.diagnostics import Diagnostic, Location, Severity
from layout_ir.tools.expectations import check_diagnostics


def at(line: int, message: str = "it is wrong", severity: Severity = Severity.ERROR) -> Diagnostic:
    return Diagnostic(severity, message, Location("f", line, 3))


def complaints(text: str, *diagnostics: Diagnostic) -> list[str]:
    return [f"{wrong.location}: {wrong.message}" for wrong in check_diagnostics(text, "f", diagnostics)]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("op // expected-error {{is wrong}}", 1),
        ("// expected-error@+1 {{is wrong}}\nop", 2),
        ("// expected-error @+2{{is wrong}}\n\nop", 3),
        ("op\n\n// expected-error@-2 {{is wrong}}", 1),
        ("op\n// expected-error@above {{is wrong}}", 1),
        ("// expected-error@below {{is wrong}}\nop", 2),
        ("op // expected-error-re {{it {{[a-z]+}} wro{{(n|m)}}g}}", 1),
        ("op // expected-error {{is wrong}}  ", 1),
    ],
)
def test_an_expectation_is_met_on_its_line_and_on_no_other(text: str, line: int):
    assert complaints(text, at(line)) == []
    for other in (line - 1, line + 1):
        assert len(complaints(text, at(other))) == 2


def test_above_and_below_skip_other_expectations():
    below = "// expected-error@below {{is wrong}}\n// expected-error@below {{is odd}}\nop"
    assert complaints(below, at(3), at(3, "is odd")) == []
    above = "op\n// expected-error@above {{is wrong}}\n// expected-error@above {{is odd}}"
    assert complaints(above, at(1), at(1, "is odd")) == []


@pytest.mark.parametrize("severity", list(Severity))
def test_the_severity_must_be_the_expected_one(severity: Severity):
    text = f"op // expected-{severity.value} {{{{is wrong}}}}"
    for other in Severity:
        assert len(complaints(text, at(1, severity=other))) == (0 if other is severity else 2)


def test_a_missing_diagnostic_is_reported_where_it_was_expected():
    assert complaints("op\n  // expected-error@+1 {{is wrong}}\n") == [
        'f:2:6: expected error "is wrong" was not produced'
    ]


def test_an_unexpected_diagnostic_is_reported_where_it_is():
    assert complaints("op", at(1)) == ["f:1:3: unexpected error: it is wrong"]


def test_one_expectation_stands_for_one_diagnostic():
    text = "op // expected-error {{is wrong}}"
    assert complaints(text, at(1), at(1)) == ["f:1:3: unexpected error: it is wrong"]
    twice = "// expected-error@+2 {{is wrong}}\n// expected-error@+1 {{is wrong}}\nop"
    assert complaints(twice, at(3), at(3)) == []
    assert len(complaints(twice, at(3))) == 1


def test_the_text_is_literal():
    assert complaints("op // expected-error {{a.b (c)*}}", at(1, "x a.b (c)* y")) == []
    assert len(complaints("op // expected-error {{a.b}}", at(1, "axb"))) == 2
    assert len(complaints("op // expected-error-re {{a.b{{x+}}}}", at(1, "azbxx"))) == 2


def test_a_diagnostic_without_a_place_must_be_expected_as_such():
    text = "// expected-error@unknown {{is wrong}}"
    assert complaints(text, Diagnostic(Severity.ERROR, "it is wrong")) == []
    assert complaints(text, Diagnostic(Severity.ERROR, "it is wrong", Location("f"))) == []
    assert complaints(text, Diagnostic(Severity.ERROR, "it is wrong", Location("g", 4, 1))) == []
    assert len(complaints(text, at(1))) == 2


def test_notes_must_be_expected_too():
    noted = Diagnostic(
        Severity.ERROR, "it is wrong", Location("f", 1, 1), (at(2, "see here", Severity.NOTE),)
    )
    text = "op // expected-error {{is wrong}}\nother"
    assert complaints(text, noted) == ["f:2:3: unexpected note: see here"]
    assert complaints(text + " // expected-note {{see here}}", noted) == []


@pytest.mark.parametrize(
    "comment",
    [
        "expected-error {single}",
        "expected-error@+x {{text}}",
        "expected-error",
        "expected-error {{text}} and more",
        "expected-error-re {{bad {{(}} expression}}",
    ],
)
def test_a_comment_that_is_nearly_an_expectation_is_an_error(comment: str):
    (complaint,) = complaints(f"op\n// {comment}")
    assert complaint.startswith("f:2:")
    assert "malformed expectation" in complaint


def test_negative_text_that_is_no_comment_is_no_expectation():
    assert complaints('"test.op"() {a = "expected-error"} : () -> ()') == []
