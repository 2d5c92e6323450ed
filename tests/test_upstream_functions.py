"""Functions of MLIR's own tests come in, go through layout-open and layout-optimize, and mlir-opt takes what comes out.

They are data of a measurement, which is not kept here: a file beside the checkout has them, and where it is missing,
or no mlir-opt 22 is installed, nothing is measured. Each function is a text and the name of its file.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, wraps
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from layout_ir.api.program_text import ProgramError, parse_program
from layout_ir.errors import LayoutError
from layout_ir.frontends.mlir.verify_module import verify_module
from layout_ir.passes.convert_to_linalg import convert_to_linalg
from layout_ir.passes.open_layouts import open_layouts
from layout_ir.passes.optimize_pipeline import optimize
from layout_ir.passes.strip import strip
from layout_ir.printing import print_module
from tests.oracles.mlir_text import generic_forms, mlir_opt

CASES = Path(__file__).parents[2] / "shared" / "cases" / "upstream_mlir_functions.json"

UNREGISTERED = "--allow-unregistered-dialect"

REFUSED = (LayoutError, ProgramError, ValueError, AssertionError)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CASES.exists(), reason=f"no {CASES}"),
    pytest.mark.skipif(mlir_opt() is None, reason="no mlir-opt-22: install mlir-22-tools"),
]


@cache
def functions() -> dict[str, str]:
    """The texts that mlir-opt takes, with their generic form."""
    texts = [entry["text"] for entry in json.loads(CASES.read_text())["functions"]]
    forms = generic_forms(texts, UNREGISTERED)
    return {text: form for text, form in zip(texts, forms, strict=True) if form is not None}


def _static() -> Iterator[str]:
    """The functions of static tensors."""
    for text in functions():
        if "tensor<" in text and "?" not in text and "*x" not in text:
            yield text


def _share(texts: Iterable[str], printed: Callable[[str], Sequence[str]], equal: bool = False) -> float:
    """The share of `texts` of which `printed` raises nothing and gives programs that mlir-opt takes, those that the
    texts are to it where they are to be `equal`. Prints how often there was which reason."""
    refused: dict[str, str] = {}
    programs: list[tuple[str, str]] = []
    asked = list(texts)
    for text in asked:
        try:
            programs += [(text, program) for program in printed(text)]
        except REFUSED as error:
            refused[text] = str(error)
    forms = generic_forms([program for _, program in programs], UNREGISTERED) if programs else []
    for (text, program), form in zip(programs, forms, strict=True):
        if form is None:
            refused.setdefault(text, f"mlir-opt refuses what is printed: {program}")
        elif equal and form != functions()[text]:
            refused.setdefault(text, f"another program is printed: {program}")
    for reason, count in Counter(refused.values()).most_common():
        print(count, reason[:150])
    share = 1 - len(refused) / len(asked)
    print(f"{share:.1%} of {len(asked)}")
    return share


def _once(made: Callable[[str], ModuleOp]) -> Callable[[str], ModuleOp]:
    """`made`, which is called once for each text by all tests: they get clones of its module, or its error again."""
    known: dict[str, ModuleOp | Exception] = {}

    @wraps(made)
    def module(text: str) -> ModuleOp:
        if text not in known:
            try:
                known[text] = made(text)
            except REFUSED as error:
                known[text] = error
        found = known[text]
        if isinstance(found, Exception):
            raise found
        return found.clone()

    return module


@_once
def _custom(text: str) -> ModuleOp:
    """Our module of the custom form."""
    return parse_program(text, "custom.mlir")


@_once
def _optimized(text: str) -> ModuleOp:
    """The module with layouts chosen, of the generic form where the custom one is refused."""
    module = _module(text)
    open_layouts(module)
    assert verify_module(module) == []
    optimize(module, "blocked8")
    assert verify_module(module) == []
    return module


def _module(text: str) -> ModuleOp:
    try:
        return _custom(text)
    except ProgramError:
        return parse_program(functions()[text], "generic.mlir", allow_unregistered=True)


def test_nine_of_ten_parse_in_custom_form():
    def parsed(text: str) -> Sequence[str]:
        _custom(text)
        return ()

    assert _share(functions(), parsed) > 0.9


def test_ninety_nine_of_a_hundred_parse_in_generic_form():
    def parsed(text: str) -> Sequence[str]:
        parse_program(functions()[text], "generic.mlir", allow_unregistered=True)
        return ()

    assert _share(functions(), parsed) > 0.99


def test_what_is_read_is_printed_as_mlir_reads_it():
    def round_trip(text: str) -> Sequence[str]:
        try:
            return (print_module(_custom(text)),)
        except ProgramError:
            return ()

    assert _share(functions(), round_trip, equal=True) > 0.99


def test_nineteen_of_twenty_static_ones_are_optimized_and_taken_by_mlir_opt():
    def there_and_back(text: str) -> Sequence[str]:
        module = _optimized(text)
        # With encodings, which mlir-opt keeps as it keeps any attribute, and without.
        with_encodings = print_module(module, generic=True)
        strip(module)
        return with_encodings, print_module(module)

    assert _share(_static(), there_and_back) > 0.95


def test_nineteen_of_twenty_static_ones_go_out_as_linalg_without_encodings():
    def out(text: str) -> Sequence[str]:
        module = _optimized(text)
        convert_to_linalg(module)
        return (print_module(module),)

    assert _share(_static(), out) > 0.95
