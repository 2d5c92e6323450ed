"""Functions of MLIR's own tests come in, go through layout-open and layout-optimize, and mlir-opt takes what comes out.

They are data of a measurement, which is not kept here: a file beside the checkout has them, and where it is missing,
or no mlir-opt 22 is installed, nothing is measured. Each function is a text and the name of its file.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
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
from tests.oracles.mlir_text import generic_form, mlir_opt

CASES = Path(__file__).parents[2] / "shared" / "cases" / "upstream_mlir_functions.json"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CASES.exists(), reason=f"no {CASES}"),
    pytest.mark.skipif(mlir_opt() is None, reason="no mlir-opt-22: install mlir-22-tools"),
]


@cache
def functions() -> tuple[str, ...]:
    """The texts that mlir-opt takes."""
    texts = [entry["text"] for entry in json.loads(CASES.read_text())["functions"]]
    return tuple(text for text in texts if _is_taken(text))


def _is_taken(text: str) -> bool:
    try:
        generic_form(text, "--allow-unregistered-dialect")
    except ValueError:
        return False
    return True


def _static() -> Iterator[str]:
    """The functions of static tensors."""
    for text in functions():
        if "tensor<" in text and "?" not in text and "*x" not in text:
            yield text


def _share(texts: list[str], does: Callable[[str], object]) -> float:
    """The share of `texts` on which `does` raises nothing; prints the reasons of the others."""
    reasons: Counter[str] = Counter()
    for text in texts:
        try:
            does(text)
        except (LayoutError, ProgramError, ValueError, AssertionError) as error:
            reasons[str(error)[:150]] += 1
    for reason, count in reasons.most_common():
        print(count, reason)
    share = 1 - reasons.total() / len(texts)
    print(f"{share:.1%} of {len(texts)}")
    return share


def _generic(text: str) -> ModuleOp:
    generic = generic_form(text, "--allow-unregistered-dialect")
    return parse_program(generic, "generic.mlir", allow_unregistered=True)


def test_nine_of_ten_parse_in_custom_form():
    assert _share(list(functions()), lambda text: parse_program(text, "custom.mlir")) > 0.9


def test_ninety_nine_of_a_hundred_parse_in_generic_form():
    assert _share(list(functions()), _generic) > 0.99


def test_what_is_read_is_printed_as_mlir_reads_it():
    def round_trip(text: str) -> None:
        try:
            module = parse_program(text, "custom.mlir")
        except ProgramError:
            return
        expected = generic_form(text, "--allow-unregistered-dialect")
        assert generic_form(print_module(module), "--allow-unregistered-dialect") == expected, text

    assert _share(list(functions()), round_trip) > 0.99


def test_nineteen_of_twenty_static_ones_are_optimized_and_taken_by_mlir_opt():
    def there_and_back(text: str) -> None:
        try:
            module = parse_program(text, "custom.mlir")
        except ProgramError:
            module = _generic(text)
        open_layouts(module)
        assert verify_module(module) == []
        optimize(module, "blocked8")
        assert verify_module(module) == []
        # With encodings, which mlir-opt keeps as it keeps any attribute, and without.
        generic_form(print_module(module, generic=True), "--allow-unregistered-dialect")
        strip(module)
        generic_form(print_module(module), "--allow-unregistered-dialect")

    assert _share(list(_static()), there_and_back) > 0.95


def test_nineteen_of_twenty_static_ones_go_out_as_linalg_without_encodings():
    def out(text: str) -> None:
        try:
            module = parse_program(text, "custom.mlir")
        except ProgramError:
            module = _generic(text)
        open_layouts(module)
        optimize(module, "blocked8")
        convert_to_linalg(module)
        generic_form(print_module(module), "--allow-unregistered-dialect")

    assert _share(list(_static()), out) > 0.95
