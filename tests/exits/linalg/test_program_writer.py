"""Every op computes as linalg, and as loops, what the reference computes, in every kind of format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from layout_ir.algebra.format import Format
from layout_ir.api.program_text import parse_program
from layout_ir.diagnostics import LocatedError, PassError
from layout_ir.dialects import nn
from layout_ir.dialects.layout import PermuteOp, ReorderOp, ReshapeOp
from layout_ir.dialects.layout.view_ops import SliceOp
from layout_ir.exits.linalg.program_writer import FORMS, write_program
from layout_ir.passes.convert_to_linalg import convert_to_linalg
from layout_ir.passes.convert_to_loops import convert_to_loops
from layout_ir.passes.convert_to_physical import convert_to_physical
from tests.exits.linalg.agreement import Program, assert_agree
from tests.exits.linalg.mlir_tools import mlir_opt
from tests.passes.test_convert_to_physical import FORMATS, OPS, SHAPE, op_program
from tests.programs import parse
from tests.seeds import seeds

WAYS: dict[str, Callable[[ModuleOp], None]] = {"linalg": convert_to_linalg, "loops": convert_to_loops}


def programs_of(name: str) -> dict[str, Program]:
    """An op in every format in which it has a physical form."""
    pad, make = OPS[name]
    result: dict[str, Program] = {}
    for number, factors in enumerate(FORMATS):
        fmt = Format.parse(f"(n, c, h, w) : {factors}, pad = {pad}")
        module = op_program(make, fmt, Random(number), np.random.default_rng(number))
        try:
            convert_to_physical(module.clone())
        except PassError:
            continue
        x = np.random.default_rng(99).standard_normal(SHAPE).astype(np.float32)
        result[f"format_{number}"] = module, [x]
    return result


@pytest.mark.parametrize("name", [name for name in OPS if not name.startswith("grouped")])
@pytest.mark.parametrize("part", seeds(1, 4))
def test_every_op_computes_the_same_as_linalg(name: str, part: int, tmp_path: Path):
    programs = programs_of(name)
    assert len(programs) >= 5
    assert_agree(dict(list(programs.items())[part::4]), tmp_path)


@pytest.mark.parametrize("name", [name for name in OPS if not name.startswith("grouped")])
def test_every_op_computes_the_same_as_loops(name: str, tmp_path: Path):
    programs = dict(list(programs_of(name).items())[:1])
    assert_agree(programs, tmp_path, convert=convert_to_loops)


def test_every_op_has_a_form():
    without = {nn.ConstantOp, nn.OpaqueOp}
    assert set(FORMS) == {*nn.NN.operations, PermuteOp, ReorderOp, ReshapeOp, SliceOp} - without


TYPED = """
func.func @main(%x: tensor<2x6x5x4x{T}>, %v: tensor<3x5x{T}>) -> ({results}) {{
  %max = nn.reduce_max %x axes = [1, 3] : (tensor<2x6x5x4x{T}>) -> tensor<2x1x5x1x{T}>
  %min = nn.reduce_min %x axes = [0] keepdims = false : (tensor<2x6x5x4x{T}>) -> tensor<6x5x4x{T}>
  %slice = nn.slice %x starts = [1, 5, 0, 3] sizes = [1, 3, 5, 2] steps = [1, -2, 1, -3]
    : (tensor<2x6x5x4x{T}>) -> tensor<1x3x5x2x{T}>
  %pad = nn.pad %x pads = [0, 1, 0, -1, 0, 2, -2, 0] value = 3.0 : (tensor<2x6x5x4x{T}>) -> tensor<2x9x3x3x{T}>
  %wrap = nn.pad %x pads = [0, 0, 2, 0, 0, 0, 1, 0] mode = wrap : (tensor<2x6x5x4x{T}>) -> tensor<2x6x8x4x{T}>
  %edge = nn.pad %x pads = [0, 0, 0, 1, 0, 0, 0, 2] mode = edge : (tensor<2x6x5x4x{T}>) -> tensor<2x6x5x7x{T}>
  %cat = nn.concat %x, %x axis = 2 : (tensor<2x6x5x4x{T}>, tensor<2x6x5x4x{T}>) -> tensor<2x6x10x4x{T}>
  %tile = nn.tile %v repeats = [2, 3] : (tensor<3x5x{T}>) -> tensor<6x15x{T}>
  %up = nn.resize %x scales = [1.0, 1.0, 2.0, 1.5] : (tensor<2x6x5x4x{T}>) -> tensor<2x6x10x6x{T}>
  %expand = nn.expand %v shape = [2, 3, 5] : (tensor<3x5x{T}>) -> tensor<2x3x5x{T}>
  %best = nn.arg_max %x axis = 1 select_last = true : (tensor<2x6x5x4x{T}>) -> tensor<2x1x5x4xi64>
  %turned = layout.permute %v perm = [1, 0] : tensor<3x5x{T}> -> tensor<5x3x{T}>
  %flat = layout.reshape %x : tensor<2x6x5x4x{T}> -> tensor<12x20x{T}>
  func.return {values} : {results}
}}
"""


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f64", "i8", "ui8", "i32", "i64"])
def test_ops_that_move_elements_take_every_type(dtype: str, tmp_path: Path):
    shapes = {
        "max": "2x1x5x1", "min": "6x5x4", "slice": "1x3x5x2", "pad": "2x9x3x3", "wrap": "2x6x8x4", "edge": "2x6x5x7",
        "cat": "2x6x10x4", "tile": "6x15", "up": "2x6x10x6", "expand": "2x3x5", "turned": "5x3", "flat": "12x20",
    }  # fmt: skip
    results = [f"tensor<{shape}x{dtype}>" for shape in shapes.values()]
    text = TYPED.format(
        T=dtype,
        results=", ".join([*results, "tensor<2x1x5x4xi64>"]),
        values=", ".join(f"%{name}" for name in (*shapes, "best")),
    )
    from tests.exits.linalg.test_elementwise_forms import elements

    inputs = [elements(dtype, shape, seed) for seed, shape in enumerate(((2, 6, 5, 4), (3, 5)))]
    assert_agree({"moves": (parse(text), inputs)}, tmp_path)
    assert_agree({"moves": (parse(text), inputs)}, tmp_path, convert=convert_to_loops)


ARITHMETIC = """
func.func @main(%x: tensor<2x8x5x4x{T}>, %a: tensor<3x7x{T}>, %b: tensor<2x7x5x{T}>, %k: tensor<12x2x3x3x{T}>)
    -> ({results}) {{
  %sum = nn.reduce_sum %x axes = [1] : (tensor<2x8x5x4x{T}>) -> tensor<2x1x5x4x{T}>
  %square = nn.reduce_sum_square %x axes = [2, 3] keepdims = false : (tensor<2x8x5x4x{T}>) -> tensor<2x8x{T}>
  %mean = nn.reduce_mean %x axes = [3] : (tensor<2x8x5x4x{T}>) -> tensor<2x8x5x1x{T}>
  %running = nn.cum_sum %x axis = 2 : (tensor<2x8x5x4x{T}>) -> tensor<2x8x5x4x{T}>
  %product = nn.matmul %a, %b : (tensor<3x7x{T}>, tensor<2x7x5x{T}>) -> tensor<2x3x5x{T}>
  {floats}
  func.return {values} : {results}
}}
"""
FLOATS = """
  %conv = nn.conv %x, %k strides = [2, 1] pads = [1, 1, 1, 1] group = 4
    : (tensor<2x8x5x4x{T}>, tensor<12x2x3x3x{T}>) -> tensor<2x12x3x4x{T}>
  %best = nn.max_pool %x kernel = [3, 2] pads = [1, 0, 1, 0] : (tensor<2x8x5x4x{T}>) -> tensor<2x8x5x3x{T}>
  %soft = nn.softmax %x axis = 1 : tensor<2x8x5x4x{T}>
"""


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f64", "i32", "i64"])
def test_arithmetic_takes_every_type(dtype: str, tmp_path: Path):
    from tests.exits.linalg.test_elementwise_forms import elements

    shapes = {
        "sum": "2x1x5x4", "square": "2x8", "mean": "2x8x5x1", "running": "2x8x5x4", "product": "2x3x5",
    }  # fmt: skip
    is_float = "f" in dtype
    if is_float:
        shapes |= {"conv": "2x12x3x4", "best": "2x8x5x3", "soft": "2x8x5x4"}
    text = ARITHMETIC.format(
        T=dtype,
        floats=FLOATS.format(T=dtype) if is_float else "",
        results=", ".join(f"tensor<{shape}x{dtype}>" for shape in shapes.values()),
        values=", ".join(f"%{name}" for name in shapes),
    )
    inputs = [
        elements(dtype, shape, seed)
        for seed, shape in enumerate(((2, 8, 5, 4), (3, 7), (2, 7, 5), (12, 2, 3, 3)))
    ]
    assert_agree({"arithmetic": (parse(text), inputs)}, tmp_path)


# --- Pads ---

FILLED = """
#x = #layout.format<(n, c, h, w) : [{factors}]>
#y = #layout.format<(n, c, h, w) : [{factors}], pad = {pad}>
func.func @main(%x: tensor<2x17x5x4x{T}, #x>) -> tensor<2x17x5x4x{T}, #y> {{
  %y = layout.fill_pads %x : tensor<2x17x5x4x{T}, #x> -> tensor<2x17x5x4x{T}, #y>
  func.return %y : tensor<2x17x5x4x{T}, #y>
}}
"""


@pytest.mark.parametrize("convert", WAYS.values(), ids=WAYS)
def test_fills_write_pads_and_nothing_else(convert: Callable[[ModuleOp], None], tmp_path: Path):
    from tests.exits.linalg.test_elementwise_forms import elements

    programs: dict[str, Program] = {}
    for number, factors in enumerate(("n, c, h, w, c:8", "c, h, w, n:4, c:2, c:3", "n, c:32, h:8, w")):
        for dtype, pad in (("f32", "-inf"), ("bf16", "1.0"), ("ui8", "255"), ("i64", "-7"), ("i1", "1")):
            text = FILLED.format(factors=factors, pad=pad, T=dtype)
            x = (
                elements("i32", (2, 17, 5, 4), number) > 0
                if dtype == "i1"
                else elements(dtype, (2, 17, 5, 4), number)
            )
            programs[f"fill_{number}_{dtype}"] = parse(text), [x]
    assert_agree(programs, tmp_path, convert=convert, exact=True)
    module = next(iter(programs.values()))[0]
    convert_to_linalg(module)
    assert not [op for op in module.walk() if op.name in ("linalg.transpose", "tensor.pad")]


READERS = """
#x = #layout.tag<nChw8c>
#w = #layout.tag<OIhw8i8o>
!X = tensor<1x20x6x6xf32, #x>
!W = tensor<20x20x1x1xf32, #w>
func.func @main(%x: !X, %w: !W) -> tensor<1x20x6x6xf32> {{
  %a = nn.conv %x, %w : (!X, !W) -> !X
  %b = nn.relu %a : !X
  {reader}
  %z = layout.reorder %{last} : !X -> tensor<1x20x6x6xf32>
  func.return %z : tensor<1x20x6x6xf32>
}}
"""


def inserted(reader: str, last: str) -> int:
    """How many slices are written in the program."""
    module = parse(READERS.format(reader=reader, last=last))
    convert_to_linalg(module, "pack")
    return sum(op.name == "tensor.insert_slice" for op in module.walk())


def test_pads_are_filled_once_for_all_who_read_them():
    reader = (
        "%c = nn.conv %b, %w : (!X, !W) -> !X\n%d = nn.conv %b, %w : (!X, !W) -> !X\n%e = nn.add %c, %d : !X"
    )
    assert inserted(reader, "e") == 1


def test_negative_pads_that_nobody_reads_are_not_filled():
    assert inserted("", "b") == 0
    assert inserted("%c = nn.sqrt %b : !X", "c") == 0


# --- What does not go out -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("convert", WAYS.values(), ids=WAYS)
def test_negative_a_layout_that_is_still_to_be_chosen_is_an_error_that_names_the_op(
    convert: Callable[[ModuleOp], None],
):
    module = parse(
        "func.func @main(%x: tensor<2x3xf32, #layout.any>) -> tensor<2x3xf32, #layout.any> {\n"
        "%y = nn.relu %x : tensor<2x3xf32, #layout.any>\nfunc.return %y : tensor<2x3xf32, #layout.any> }"
    )
    with pytest.raises(LocatedError, match=r"func\.func .* is still to be chosen"):
        convert(module)


def test_negative_an_encoding_of_another_dialect_is_never_dropped():
    module = parse(
        'func.func @main(%x: tensor<2x3xf32, "theirs">) -> tensor<2x3xf32, "theirs"> {\n'
        '%y = arith.addf %x, %x : tensor<2x3xf32, "theirs">\nfunc.return %y : tensor<2x3xf32, "theirs"> }'
    )
    with pytest.raises(LocatedError, match=r"func\.func has a value .* bufferization would drop"):
        write_program(module)


def test_negative_a_program_that_is_not_physical_is_an_error_that_names_the_op():
    module = parse(
        "func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {\n"
        "%y = layout.cast %x : tensor<2x3xf32> -> tensor<2x3xf32, #layout.tag<ab>>\n"
        "%z = layout.cast %y : tensor<2x3xf32, #layout.tag<ab>> -> tensor<2x3xf32>\n"
        "func.return %z : tensor<2x3xf32> }"
    )
    with pytest.raises(LocatedError, match=r"layout\.cast has .* bufferization would drop"):
        write_program(module)


def test_negative_values_that_were_left_out_cannot_go_out():
    module = parse(
        "func.func @main() -> tensor<4x4xf32> {\n"
        "%w = nn.constant dense_resource<__elided__> : tensor<4x4xf32>\nfunc.return %w : tensor<4x4xf32> }"
    )
    with pytest.raises(LocatedError, match=r"nn\.constant were left out"):
        write_program(module)


GROUPED = """
#x = #layout.{x}
#w = #layout.{w}
func.func @main(%x: tensor<2x16x5x4xf32, #x>, %w: tensor<32x8x3x2xf32, #w>) -> tensor<2x32x5x3xf32, #x> {{
  %y = nn.conv %x, %w group = 2 pads = [1, 0, 1, 0]
    : (tensor<2x16x5x4xf32, #x>, tensor<32x8x3x2xf32, #w>) -> tensor<2x32x5x3xf32, #x>
  func.return %y : tensor<2x32x5x3xf32, #x>
}}
"""


@pytest.mark.parametrize("convert", WAYS.values(), ids=WAYS)
def test_groups_of_channels_in_blocks_and_channels_last(convert: Callable[[ModuleOp], None], tmp_path: Path):
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in ((2, 16, 5, 4), (32, 8, 3, 2))]
    formats = {
        "last": ("tag<nhwc>", "tag<hwio>"),
        "blocks": ("tag<nChw8c>", "tag<OIhw8i8o>"),
        "halves": ("tag<nChw4c>", "tag<OIhw4i4o>"),
    }
    programs: dict[str, Program] = {
        name: (parse(GROUPED.format(x=x, w=w)), inputs) for name, (x, w) in formats.items()
    }
    assert_agree(programs, tmp_path, convert=convert)


def test_negative_groups_that_cut_through_blocks_are_an_error_that_names_the_op():
    module = parse(GROUPED.format(x="tag<nChw16c>", w="tag<hwio>"))
    convert_to_linalg(module)  # 16 channels are one block of two groups of 8: whole digits
    text = GROUPED.format(x="tag<nChw8c>", w="tag<hwio>")
    text = text.replace("2x16x5", "2x24x5").replace("32x8x3x2", "32x12x3x2")
    with pytest.raises(
        PassError, match=r"nn\.conv has no physical form: parts of 12 in dim 1 cut through its blocks"
    ):
        convert_to_linalg(parse(text))


TURNED = """
#x = #layout.format<(a, b, c) : [{source}]>
#y = #layout.format<(a, b, c) : [{result}]>
func.func @main(%x: tensor<13x20x3xf32, #x>) -> tensor<3x13x20xf32, #y> {{
  %y = tosa.transpose %x {{perms = array<i32: 2, 0, 1>}} : (tensor<13x20x3xf32, #x>) -> tensor<3x13x20xf32, #y>
  func.return %y : tensor<3x13x20xf32, #y>
}}
"""


def test_a_transposition_of_tosa_names_the_digits_anew_and_moves_those_that_lie_apart(tmp_path: Path):
    x = np.random.default_rng(0).standard_normal((13, 20, 3)).astype(np.float32)
    ways = {
        "nothing_moves": ("a, b, c", "b, c, a"),
        "nor_in_blocks": ("a, b, c, b:8", "b, c, a, c:8"),
        "moves": ("a, b, c", "c, a, b"),
        "from_blocks_to_others": ("a, b, c, a:4, b:8", "a, c, b, c:5"),
    }
    programs: dict[str, Program] = {}
    for name, (source, result) in ways.items():
        module = parse_program(TURNED.format(source=source, result=result), "turned.mlir")
        programs[name] = module, [x]
        converted = module.clone()
        convert_to_linalg(converted)
        moves = any(op.name == "linalg.transpose" for op in converted.walk())
        assert moves == (name in ("moves", "from_blocks_to_others"))
    assert_agree(programs, tmp_path, exact=True)


def test_reshapes_from_and_to_scalars_are_programs_of_stock_mlir():
    module = parse(
        """
        func.func @main(%x: tensor<1xf32>, %y: tensor<1x1xf32>, %z: tensor<f32>)
            -> (tensor<f32>, tensor<f32>, tensor<1xf32>, tensor<1x1xf32>) {
          %a = layout.reshape %x : tensor<1xf32> -> tensor<f32>
          %b = layout.reshape %y : tensor<1x1xf32> -> tensor<f32>
          %c = layout.reshape %z : tensor<f32> -> tensor<1xf32>
          %d = layout.reshape %z : tensor<f32> -> tensor<1x1xf32>
          func.return %a, %b, %c, %d : tensor<f32>, tensor<f32>, tensor<1xf32>, tensor<1x1xf32>
        }
        """
    )
    for convert in WAYS.values():
        written = module.clone()
        convert(written)
        assert mlir_opt(str(written)).count("_shape %arg") == 4


@pytest.mark.parametrize("way", WAYS)
def test_tensors_without_elements_are_programs_of_stock_mlir(way: str):
    """Which refuses slices that begin at the end of a dim, also where they have no elements."""
    module = parse(
        """
        #blocked = #layout.format<(a, b) : [a, b, b:8], pad = zero>
        func.func @main(%x: tensor<2x3xf32>, %y: tensor<2x0xf32>, %z: tensor<0x3xf32>)
            -> (tensor<2x0xf32>, tensor<2x3xf32>, tensor<0x3xf32, #blocked>) {
          %a = nn.slice %x starts = [0, 3] sizes = [2, 0] steps = [1, 1] : (tensor<2x3xf32>) -> tensor<2x0xf32>
          %b = nn.concat %a, %y axis = 1 : (tensor<2x0xf32>, tensor<2x0xf32>) -> tensor<2x0xf32>
          %c = nn.concat %x, %b axis = 1 : (tensor<2x3xf32>, tensor<2x0xf32>) -> tensor<2x3xf32>
          %d = layout.reorder %z : tensor<0x3xf32> -> tensor<0x3xf32, #blocked>
          func.return %b, %c, %d : tensor<2x0xf32>, tensor<2x3xf32>, tensor<0x3xf32, #blocked>
        }
        """
    )
    WAYS[way](module)
    mlir_opt(str(module))
