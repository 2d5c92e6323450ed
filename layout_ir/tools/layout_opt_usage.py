"""The arguments of `layout-opt`: its help text, and diagnostics for wrong arguments."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from inspect import signature
from textwrap import fill
from typing import Any, NoReturn

from xdsl.utils.arg_spec import PipelineLexer, SpecTokenKind, parse_spec
from xdsl.utils.exceptions import ArgSpecParseError

from layout_ir import registry
from layout_ir.diagnostics import Diagnostic, Location, Severity
from layout_ir.entry_points import multiverse
from layout_ir.rendering import did_you_mean, from_spec_error, one_line
from layout_ir.tools.process import print_usage

_DESCRIPTION = """\
Read a program (.mlir, .onnx, or standard input), run passes over it, print the result.
"""

_EPILOG = """\
examples:
  layout-opt model.mlir                                   check a program and print it
  layout-opt model.onnx -p layout-optimize                import, choose layouts, fold reorders
  layout-opt onnx:resnet50 -p 'layout-optimize{{target=avx2}}' --elide-constants=16
  layout-opt m.mlir -p 'layout-propagate{{target=avx2}},layout-fold-reorders,cse'
  layout-opt model.onnx --elide-constants=16 -o out.mlir  leave big constants out
  layout-opt m.mlir -p layout-optimize | layout-opt -p layout-strip
  layout-opt bad.mlir --split-input-file --verify-diagnostics

passes of layout-ir:
{ours}

passes of xDSL, usable as well:
{theirs}
"""


class Abort(Exception):
    """The tool cannot go on. `diagnostic` is the reason, `sources` has the texts its location may be in, by name."""

    def __init__(self, diagnostic: Diagnostic, sources: dict[str, str] | None = None):
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic
        self.sources = sources


def abort(
    message: str,
    location: Location | None = None,
    cause: BaseException | None = None,
    sources: dict[str, str] | None = None,
) -> NoReturn:
    """Raises `Abort` with an error at `location`; `sources` are the texts by file or option, for the caret."""
    raise Abort(Diagnostic(Severity.ERROR, message, location), sources) from cause


def improve_usage(
    arg_parser: argparse.ArgumentParser,
    targets: Mapping[str, Callable[..., Any]],
    frontends: Iterable[str],
    program: str,
    version: str,
) -> None:
    """Examples in the help text of `program`, long lists out of it, its `--version`, and diagnostics for wrong
    arguments."""
    arg_parser.prog = program
    arg_parser.description = _DESCRIPTION
    arg_parser.formatter_class = argparse.RawDescriptionHelpFormatter
    width = max(map(len, registry.SUMMARIES))
    ours = "\n".join(f"  {name:{width}}  {summary}" for name, summary in registry.SUMMARIES.items())
    theirs = ", ".join(sorted(set(multiverse().all_passes) - set(registry.PASSES)))
    theirs = fill(theirs, 118, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    arg_parser.epilog = _EPILOG.format(ours=ours, theirs=theirs)
    shorter = {
        "input_file": "path to the input, or onnx:NAME for a network that ships with the package onnx; "
        "- or nothing reads standard input",
        "passes": "passes to run, in order, with options in braces; see below",
        "output_file": "path to the output, which is replaced only when all went well",
        "verify_diagnostics": "check that exactly the diagnostics in expected-error, expected-warning and "
        "expected-remark comments appear, instead of printing them",
    }
    for action in arg_parser._actions:  # pyright: ignore[reportPrivateUsage]
        action.help = shorter.get(action.dest, action.help)
        if action.dest == "target":
            action.type = lambda text: _known_target(text, targets)
        if action.dest == "frontend":  # from xDSL 0.75 on a name and options, of which ours have none
            action.choices = list(frontends)
    # In xDSL 0.73 the option tells the version of xDSL's own tool, whichever tool it is.
    arg_parser._optionals.conflict_handler = "resolve"  # pyright: ignore[reportPrivateUsage]
    arg_parser.add_argument("-v", "--version", action="version", version=version)

    def error(message: str) -> NoReturn:
        abort(f"{message} ({program} --help lists the options)")

    arg_parser.error = error
    arg_parser._print_message = print_usage  # pyright: ignore[reportPrivateUsage]


def _known_target(text: str, targets: Mapping[str, Callable[..., Any]]) -> str:
    """`text`, checked. Raises `Abort` unless it names a target, with options that the target has."""
    try:
        spec = parse_spec(text)
    except ArgSpecParseError as error:
        raise Abort(from_spec_error(error, "-t"), {"-t": text}) from None
    check_repeated(text, "-t")
    name, place = spec.name, Location("-t", 1, 1)
    if name not in targets:
        hint = did_you_mean(name, targets) or f": expected one of {', '.join(targets)}"
        abort(f"unknown target '{name}'{hint}", place, sources={"-t": text})
    if spec.parameters and not signature(targets[name]).parameters:  # older targets are functions of a module
        try:
            targets[name]().from_spec(spec)
        except (ValueError, TypeError) as error:
            abort(f"target '{name}': {one_line(error)}", place, error, {"-t": text})
    return text


def check_repeated(text: str, option: str) -> None:
    """Raises `Abort` where a pass or target in `text`, the value of `option`, is given one of its options twice.

    xDSL would take the last and forget the others.
    """
    lexer = PipelineLexer(text)
    seen: set[str] = set()
    before = SpecTokenKind.EOF
    while (token := lexer.lex()).kind is not SpecTokenKind.EOF:
        if token.kind is SpecTokenKind.L_BRACE:
            seen = set()
        elif token.kind is SpecTokenKind.IDENT and before in (SpecTokenKind.L_BRACE, SpecTokenKind.SPACE):
            name = token.span.text.replace("-", "_")
            if name in seen:
                place = Location(option, 1, token.span.start + 1)
                abort(
                    f"option '{token.span.text}' is given twice: leave one out", place, sources={option: text}
                )
            seen.add(name)
        before = token.kind
