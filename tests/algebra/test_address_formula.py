"""A formula evaluated at every index is the address there, in each language that it is written in."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.errors import LayoutError
from tests.layouts import indices, random_format, random_layout, random_shape, rngs

KINDS: dict[str, Layout] = {
    "plain": Format.from_tag("nhwc").bind((2, 5, 4, 3)),
    "blocked": Format.from_tag("nChw8c").bind((2, 17, 5, 4)),
    "blocked twice": Format.from_tag("OIhw4i8o2i").bind((17, 9, 3, 2)),
    "halo": Format.parse("(a, b) : [a, b, a:4], lo = [1, 3]").bind((10, 7)),
    "halo in a block": Format.parse("(a, b) : [a, b, a:4, b:8], lo = [1, 13], pad = zero").bind((10, 7)),
    "strided": Format.parse("(a, b) : [a*-40, b*3], offset = 500").bind((11, 7)),
    "broadcast": Format.parse("(a, b) : [a*0, b]").bind((11, 7)),
    "swizzled": Format.parse("(a, b) : [a, b], swizzle = (3, 2, 3)").bind((16, 64)),
    "swizzled from bit 0": Format.parse("(a, b) : [a, b], swizzle = (2, 0, 4)").bind((16, 16)),
    "chunks": Format.parse("(n, h, w, c) : [n, h, w, c | h:8, w:4, c:8]").bind((2, 9, 9, 17)),
    "chunks that continue": Format.parse("(a, b) : [b, a | a:8]").bind((17, 3)),
    "chunks, swizzled": Format.parse("(a, b) : [a, b | a:4, b:8], swizzle = (2, 1, 2)").bind((9, 17)),
    "chunks from an offset": Format.parse("(a, b) : [a, b | a:4, b:8], offset = 5").bind((9, 17)),
    "scalar": Format.parse("() : [], offset = 3").bind(()),
    "empty": Format.from_tag("nChw8c").bind((2, 0, 5, 4)),
}


def in_python(layout: Layout, formula: str) -> list[int]:
    """The values of a Python formula at every index, in row-major order."""
    code = compile(formula, "formula", "eval")
    return [eval(code, dict(zip(layout.names, index, strict=True))) for index in indices(layout.shape)]


def expected(layout: Layout) -> list[int]:
    return layout.addresses().ravel().tolist()


@pytest.mark.parametrize("name", KINDS)
def test_in_python_it_is_the_address_at_every_index(name: str):
    layout = KINDS[name]
    assert in_python(layout, layout.expression(syntax="python")) == expected(layout)


@settings(max_examples=300)
@given(rngs)
def test_whatever_the_layout(rng: Random):
    layout = random_layout(rng, limit=150)
    assert in_python(layout, layout.expression(syntax="python")) == expected(layout)


@settings(max_examples=100)
@given(rngs)
def test_chunks_are_split_as_the_address_is(rng: Random):
    rank = rng.randint(1, 3)
    layout = random_format(rng, rank, strided=True, halo=True, chunked=True).bind(
        random_shape(rng, rank, 150)
    )
    if not layout.chunk_rank or layout.first_address < 0:
        return
    chunk, inside = (in_python(layout, f) for f in layout.chunk_expression(syntax="python"))
    assert list(zip(chunk, inside, strict=True)) == [layout.chunk_address(i) for i in indices(layout.shape)]


CHUNKED = [name for name in KINDS if name.startswith("chunks")]


@pytest.mark.parametrize("name", CHUNKED)
def test_chunk_and_place_inside_are_those_of_the_layout(name: str):
    layout = KINDS[name]
    chunk, inside = (in_python(layout, f) for f in layout.chunk_expression(syntax="python"))
    assert list(zip(chunk, inside, strict=True)) == [layout.chunk_address(i) for i in indices(layout.shape)]


def test_it_is_short():
    assert KINDS["blocked"].expression() == "n * 480 + c / 8 * 160 + h * 32 + w * 8 + c % 8"
    assert KINDS["strided"].expression(("i", "j"), "python") == "i * -40 + j * 3 + 500"
    assert KINDS["chunks"].chunk_expression()[1] == "h % 8 * 32 + w % 4 * 8 + c % 8"
    # A block that nothing reaches beyond, blocks that continue each other, and a dim of one index say nothing.
    assert Format.from_tag("nChw8c").bind((1, 8, 5, 4)).expression() == "h * 32 + w * 8 + c"
    assert Format.parse("(a) : [a, a:4, a:2]").bind((100,)).expression() == "a"
    # A halo that is a whole number of blocks is a constant.
    assert Format.parse("(a, b) : [a, b, a:4], lo = [8, 0]").bind((10, 2)).expression() == (
        "a / 4 * 8 + b * 4 + a % 4 + 16"
    )


def test_an_index_may_be_an_expression():
    layout = Format.from_tag("nChw8c").bind((2, 17, 5, 4))
    formula = layout.expression(("n", "c", "oh * 2 + kh - 1", "i[0]"), "python")
    assert formula == "n * 480 + c // 8 * 160 + (oh * 2 + kh - 1) * 32 + i[0] * 8 + c % 8"
    assert eval(formula, {"n": 1, "c": 9, "oh": 2, "kh": 1, "i": [3]}) == layout.address((1, 9, 4, 3))


LAYOUTS = [*KINDS.values(), *(random_layout(Random(seed), limit=60) for seed in range(40))]


def test_in_c_it_is_the_address_at_every_index(tmp_path: Path):
    if (compiler := shutil.which("gcc") or shutil.which("cc")) is None:
        pytest.skip("no C compiler")
    lines = ["#include <stdint.h>"]
    for number, layout in enumerate(LAYOUTS):
        arguments = ", ".join(f"int64_t {name}" for name in layout.names) or "void"
        # Each index is used, so that the compiler warns of nothing but the formula.
        used = " ".join(f"(void){name};" for name in layout.names)
        lines.append(f"int64_t f{number}({arguments}) {{ {used} return {layout.expression()}; }}")
    (tmp_path / "f.c").write_text("\n".join(lines) + "\n")
    library = tmp_path / "f.so"
    subprocess.run(
        [compiler, "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", tmp_path / "f.c", "-o", library],
        check=True,
    )
    loaded = ctypes.CDLL(str(library))
    for number, layout in enumerate(LAYOUTS):
        function = loaded[f"f{number}"]
        function.argtypes, function.restype = [ctypes.c_int64] * layout.rank, ctypes.c_int64
        assert [function(*index) for index in indices(layout.shape)] == expected(layout), layout


def test_in_llvm_it_is_the_address_at_every_index():
    binding = pytest.importorskip("llvmlite.binding")
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    text = ""
    for number, layout in enumerate(LAYOUTS):
        arguments = ", ".join(f"i64 %{name}" for name in layout.names)
        body = layout.expression(syntax="llvm", result="at")
        text += f"define i64 @f{number}({arguments}) {{\n{body}\nret i64 %at\n}}\n"
    machine = binding.Target.from_default_triple().create_target_machine()
    engine = binding.create_mcjit_compiler(binding.parse_assembly(text), machine)
    engine.finalize_object()
    for number, layout in enumerate(LAYOUTS):
        kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * layout.rank)
        function = kind(engine.get_function_address(f"f{number}"))
        assert [function(*index) for index in indices(layout.shape)] == expected(layout), layout


def test_two_formulas_of_llvm_fit_into_one_function():
    binding = pytest.importorskip("llvmlite.binding")
    chunk, inside = KINDS["chunks"].chunk_expression(syntax="llvm")
    other = KINDS["chunks"].expression(syntax="llvm", result="flat")
    body = f"{chunk}\n{inside}\n{other}\n%sum = add i64 %address.chunk, %address.inside"
    binding.parse_assembly(
        f"define i64 @f(i64 %n, i64 %h, i64 %w, i64 %c) {{\n{body}\nret i64 %sum\n}}\n"
    ).verify()


def test_in_an_affine_map_it_is_the_address_at_every_index():
    tool = next((found for name in ("mlir-opt", "mlir-opt-22") if (found := shutil.which(name))), None)
    if tool is None:
        pytest.skip("no mlir-opt")
    layouts = [layout for layout in LAYOUTS if layout.nelems <= 1100]
    lines: list[str] = []
    for number, layout in enumerate(layouts):
        map_ = f"affine_map<({', '.join(layout.names)}) -> ({layout.expression(syntax='affine')})>"
        lines.append(f"func.func @f{number}() {{")
        for at, index in enumerate(indices(layout.shape)):
            constants = [f"%c{at}_{dim}" for dim in range(layout.rank)]
            lines += [
                f"{name} = arith.constant {x} : index" for name, x in zip(constants, index, strict=True)
            ]
            lines.append(f"%r{at} = affine.apply {map_}({', '.join(constants)})")
            lines.append(f'"test.use"(%r{at}) : (index) -> ()')
        lines.append("return\n}")
    run = subprocess.run(
        [tool, "--allow-unregistered-dialect", "--canonicalize", "-"],
        input="\n".join(lines), capture_output=True, text=True, check=True,
    )  # fmt: skip
    functions = run.stdout.split("func.func ")[1:]
    assert len(functions) == len(layouts)
    for text, layout in zip(functions, layouts, strict=True):
        constants = dict(re.findall(r"%(\S+) = arith.constant (-?\d+) : index", text))
        found = [int(constants[use]) for use in re.findall(r'"test.use"\(%(\S+)\)', text)]
        assert found == expected(layout), layout


@pytest.mark.parametrize(
    ("name", "syntax"),
    [
        ("oh * 2 + kh", "c"),
        ("((size_t) i)", "c"),
        ("(unsigned long) i", "c"),
        ("at[i][j + 1]", "c"),
        ("f(x, y)", "c"),
        ("i if i > 0 else 0", "python"),
        ("i mod 4", "affine"),
        ("%0", "llvm"),
        ("7", "llvm"),
        ("arg0.i", "llvm"),
    ],
)
def test_an_index_may_be_an_expression_of_the_language(name: str, syntax: Any):
    assert name.strip("()") in KINDS["blocked"].expression((name, "b", "c", "d"), syntax)


@pytest.mark.parametrize(
    ("names", "syntax", "message"),
    [
        (("a",), "c", r"rank mismatch between index names \(a\) and shape \(2, 17, 5, 4\): 1 != 4"),
        (None, "rust", "unknown syntax 'rust': there are c, python, affine, llvm"),
        (("a", "", "c", "d"), "c", "'' is no index"),
        (("a", "b\n", "c", "d"), "c", r"'b\\n' is no index"),
        (("a", 5, "c", "d"), "c", "5 is no index"),
        (("a b", "b", "c", "d"), "c", "'a b' is no index: expected a name or an expression of c"),
        (("a b", "b", "c", "d"), "python", "'a b' is no index"),
        (("a mod", "b c", "c", "d"), "affine", "'b c' is no index"),
        (("(a", "b", "c", "d"), "c", r"'\(a' is no index"),
        (("a)", "b", "c", "d"), "c", r"'a\)' is no index"),
        (("a; b", "b", "c", "d"), "c", "'a; b' is no index"),
        (("oh * 2", "b", "c", "d"), "llvm", r"'oh \* 2' is no index: expected a name"),
    ],
)
def test_negative_wrong_names_and_languages_are_said(names: tuple[str] | None, syntax: str, message: str):
    with pytest.raises(LayoutError, match=message):
        KINDS["blocked"].expression(names, syntax)  # pyright: ignore[reportArgumentType]


def test_negative_a_layout_without_chunks_has_no_formula_of_them():
    with pytest.raises(LayoutError, match="has no chunks"):
        KINDS["blocked"].chunk_expression()


def test_negative_another_layout_has_another_formula():
    first, second = (Format.from_tag(tag).bind((2, 17, 5, 4)) for tag in ("nChw8c", "nChw16c"))
    values = in_python(first, second.expression(syntax="python"))
    assert values != expected(first) and np.array_equal(values, second.addresses().ravel())
