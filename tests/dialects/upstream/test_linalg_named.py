"""Named linalg ops: forms, indexing maps and bodies are those of the stock mlir-opt."""

from __future__ import annotations

import re

import pytest
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation

from layout_ir.api.program_text import ProgramError, parse_program
from layout_ir.dialects.upstream.linalg_bodies import ELEMENTWISE_BODIES
from layout_ir.dialects.upstream.linalg_named import ROWS, Row
from tests.oracles.mlir_text import check_forms, generic_form, mlir_opt

needs_mlir = pytest.mark.skipif(mlir_opt() is None, reason="no mlir-opt-22: install mlir-22-tools")

EXTENTS = {
    "n": 2,
    "h": 3,
    "w": 4,
    "d": 2,
    "f": 5,
    "c": 3,
    "g": 2,
    "m": 3,
    "kh": 2,
    "kw": 3,
    "kd": 2,
    "k": 4,
    "b": 2,
}
TILES = {"m0": 2, "n0": 3, "k0": 2}
_EXTENTS = EXTENTS | TILES
STRIDES, DILATIONS = (2, 1, 3), (1, 2, 1)


def _type(row: Row, dims: str, element: str) -> str:
    """The type of an operand with these dims; windows reach as far as strides and dilations take them."""
    shape: list[int] = []
    steps = iter(zip(STRIDES, DILATIONS, strict=True) if row.windows else ((1, 1),) * 3)
    for dim in () if dims == "-" else dims.split():
        start, plus, inside = dim.partition("+")
        stride, dilation = next(steps) if plus else (1, 1)
        reach = (_EXTENTS[inside] - 1) * dilation if plus else 0
        shape.append((_EXTENTS[start] - 1) * stride + reach + 1)
    return f"tensor<{'x'.join(map(str, (*shape, element)))}>"


def _program(row: Row, element: str) -> str:
    types = [_type(row, dims, element) for dims in row.operands]
    if row.body == "fill_rng":
        return _applied(row.name, ["f64", "f64", "i32", types[-1]])
    types[:-1] = [t if dims != "-" else element for t, dims in zip(types, row.operands[:-1], strict=False)]
    attributes = ""
    if row.windows:
        of = f"tensor<{row.windows}xi64>"
        attributes = (
            f" {{dilations = dense<{list(DILATIONS[: row.windows])}> : {of}, "
            f"strides = dense<{list(STRIDES[: row.windows])}> : {of}}}"
        )
    return _applied(row.name + attributes, types)


def _applied(op: str, types: list[str]) -> str:
    arguments = ", ".join(f"%a{k} : {type}" for k, type in enumerate(types))
    ins = ", ".join(f"%a{k}" for k in range(len(types) - 1))
    return (
        f"func.func @f({arguments}) -> {types[-1]} {{\n"
        f"  %r = {op} ins({ins} : {', '.join(types[:-1])}) outs(%a{len(types) - 1} : {types[-1]}) -> {types[-1]}\n"
        f"  func.return %r : {types[-1]}\n}}\n"
    )


def _op(text: str, name: str) -> LinalgStructuredOperation:
    module = parse_program(text, "program.mlir")
    (op,) = (op for op in module.walk() if op.name == name)
    assert isinstance(op, LinalgStructuredOperation)
    return op


@needs_mlir
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_named_op_is_the_one_of_mlir(row: Row):
    element = "i32" if "unsigned" in row.name else "f32"
    text = _program(row, element)
    check_forms(text)
    # MLIR writes down the maps of an op beside it, or as its property.
    theirs = _op(generic_form(text), row.name)
    stated = theirs.attributes.get("linalg.memoized_indexing_maps") or theirs.properties.get("indexing_maps")
    assert stated is None or stated == _op(text, row.name).get_indexing_maps()


@needs_mlir
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_its_loops_are_those_that_mlir_makes_of_it(row: Row):
    element = "i32" if "unsigned" in row.name else "f32"
    text = _program(row, element)
    generalized = generic_form(text, "--linalg-generalize-named-ops")
    op, generic = _op(text, row.name), _op(generalized, "linalg.generic")
    assert generic.get_indexing_maps() == op.get_indexing_maps()
    assert generic.get_iterator_types() == op.get_iterator_types()
    if row.body != "fill_rng":  # whose constants this pass moves out; `check_forms` compares its body
        assert [each.name for each in generic.body.block.ops] == [each.name for each in op.body.block.ops]


@needs_mlir
@pytest.mark.parametrize("name", ["copy", *ELEMENTWISE_BODIES])
def test_an_elementwise_op_is_the_one_of_mlir(name: str):
    count = {
        "add": 2,
        "sub": 2,
        "mul": 2,
        "div": 2,
        "div_unsigned": 2,
        "max": 2,
        "min": 2,
        "powf": 2,
        "select": 3,
    }
    type = "tensor<4x8xi32>" if name == "div_unsigned" else "tensor<4x8xf32>"
    types = [type] * (count.get(name, 1) + 1)
    if name == "select":
        types[0] = "tensor<4x8xi1>"
    check_forms(_applied(f"linalg.{name}", types))


@needs_mlir
@pytest.mark.parametrize(
    ("op", "types"),
    [
        ("linalg.matmul {cast = #linalg.type_fn<cast_unsigned>}", ["4x8xi8", "8x6xi8", "4x6xi32"]),
        ("linalg.matmul", ["4x8xi8", "8x6xi8", "4x6xf32"]),
        ("linalg.matmul", ["4x8xf16", "8x6xf16", "4x6xf32"]),
        ("linalg.matmul", ["4x8xcomplex<f32>", "8x6xcomplex<f32>", "4x6xcomplex<f32>"]),
        ("linalg.conv_2d_nhwc_hwcf", ["1x9x9x3xf32", "3x3x3x5xf32", "1x7x7x5xf32"]),
        ("linalg.elementwise kind=#linalg.elementwise_kind<max_signed>", ["4xi32", "4xi32", "4xi32"]),
        ("linalg.fill {note = 1 : i64}", ["f32", "4xf32"]),
        (
            (
                "linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, "
                "affine_map<(m, n, k) -> (m, n)>]"
            ),
            ["4x8xf32", "6x8xf32", "4x6xf32"],
        ),
        (
            (
                "linalg.contract indexing_maps = [affine_map<(b, m, k) -> (b, m, k)>, affine_map<(b, m, k) -> (k, b)>, "
                "affine_map<(b, m, k) -> (m, b)>]"
            ),
            ["2x3x4xf32", "4x2xf32", "3x2xf32"],
        ),
        (
            (
                "linalg.elementwise kind=#linalg.elementwise_kind<add> indexing_maps = [affine_map<(i, j) -> (j)>, "
                "affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>]"
            ),
            ["8xf32", "8x4xf32", "4x8xf32"],
        ),
    ],
)
def test_conversions_and_maps_are_those_of_mlir(op: str, types: list[str]):
    check_forms(_applied(op, [type if type == "f32" else f"tensor<{type}>" for type in types]))


@pytest.mark.parametrize(
    ("op", "types", "message"),
    [
        ("linalg.exp", ["4xi32", "4xi32"], "exp is not defined on elements of i32"),
        (
            "linalg.pooling_nwc_max_unsigned",
            ["1x9x3xf32", "3xf32", "1x7x3xf32"],
            "not defined on elements of f32",
        ),
        ("linalg.matmul", ["4x8xf32", "7x6xf32", "4x6xf32"], "to be 8, but found 7"),
        ("linalg.elementwise", ["4xf32", "4xf32"], "kind = #linalg.elementwise_kind<...> is missing"),
        ("linalg.add", ["4xf32", "4xf32"], "add takes 2 operands, not 1"),
        (
            "linalg.pooling_nwc_max {strides = dense<0> : tensor<1xi64>}",
            ["1x9x3xf32", "3xf32", "1x7x3xf32"],
            "strides = [0], but linalg.pooling_nwc_max has 1 windows",
        ),
    ],
)
def test_negative_what_mlir_refuses_is_an_error_that_says_why(op: str, types: list[str], message: str):
    with pytest.raises(ProgramError, match=re.escape(message)):
        parse_program(_applied(op, [f"tensor<{type}>" for type in types]), "program.mlir")
