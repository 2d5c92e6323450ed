"""linalg.pack and linalg.unpack: what they mean against NumPy, what they say of memory, forms as in mlir-opt."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import layout_ir as li
from layout_ir.api.program_text import parse_program
from layout_ir.dialects.upstream.linalg_relayout import PackOp, RelayoutOp, UnPackOp
from layout_ir.errors import LayoutError
from tests.oracles.mlir_text import check_forms, mlir_opt

PAD = 7


@st.composite
def relayouts(draw: st.DrawFn) -> tuple[list[int], list[int], list[int], list[int]]:
    """(shape, tiled dims, tile sizes, outer order); extents are all different and greater than 1."""
    rank = draw(st.integers(1, 4))
    shape = draw(st.lists(st.integers(2, 9), min_size=rank, max_size=rank, unique=True))
    dims = draw(st.permutations(range(rank)))[: draw(st.integers(1, rank))]
    tiles = [draw(st.integers(2, 5)) for _ in dims]
    return shape, list(dims), tiles, list(draw(st.permutations(range(rank))))


def _packed_shape(shape: list[int], dims: list[int], tiles: list[int], order: list[int]) -> list[int]:
    outer = list(shape)
    for dim, tile in zip(dims, tiles, strict=True):
        outer[dim] = -(-outer[dim] // tile)
    return [outer[dim] for dim in order] + tiles


def _type(shape: list[int]) -> str:
    return f"tensor<{'x'.join(map(str, shape))}xi32>"


def _program(shape: list[int], dims: list[int], tiles: list[int], order: list[int]) -> str:
    """Packs an argument and unpacks the result; returns both."""
    here, there = _type(shape), _type(_packed_shape(shape, dims, tiles, order))
    how = f"outer_dims_perm = {order} inner_dims_pos = {dims} inner_tiles = {tiles} into"
    return f"""
func.func @f(%x : {here}) -> ({there}, {here}) {{
  %c = arith.constant {PAD} : i32
  %d = tensor.empty() : {there}
  %p = linalg.pack %x padding_value(%c : i32) {how} %d : {here} -> {there}
  %e = tensor.empty() : {here}
  %u = linalg.unpack %p {how} %e : {there} -> {here}
  func.return %p, %u : {there}, {here}
}}"""


def _packed(
    x: np.ndarray[Any, Any], dims: list[int], tiles: list[int], order: list[int]
) -> np.ndarray[Any, Any]:
    """The definition: element by element."""
    result = np.full(_packed_shape(list(x.shape), dims, tiles, order), PAD, x.dtype)
    for index in np.ndindex(*x.shape):
        outer = [i // dict(zip(dims, tiles, strict=True)).get(dim, 1) for dim, i in enumerate(index)]
        inner = [index[dim] % tile for dim, tile in zip(dims, tiles, strict=True)]
        result[(*(outer[dim] for dim in order), *inner)] = x[index]
    return result


@settings(max_examples=40, deadline=None)
@given(relayouts())
def test_the_reference_packs_and_unpacks_as_numpy_does(
    case: tuple[list[int], list[int], list[int], list[int]],
):
    shape, *how = case
    x = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    packed, unpacked = li.run(
        parse_program(_program(shape, *how), "program.mlir"), [x], entry="f", reorders="reference"
    )
    np.testing.assert_array_equal(packed, _packed(x, *how))
    np.testing.assert_array_equal(unpacked, x)


@settings(max_examples=15, deadline=None)
@given(relayouts())
def test_opened_and_optimized_it_computes_the_same(case: tuple[list[int], list[int], list[int], list[int]]):
    shape, *how = case
    x = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    module = parse_program(_program(shape, *how), "program.mlir")
    li.open_layouts(module)
    li.optimize(module, "blocked8")
    module.verify()
    packed, unpacked = li.run(module, [x], entry="f", reorders="reference")
    np.testing.assert_array_equal(packed, _packed(x, *how))
    np.testing.assert_array_equal(unpacked, x)


@settings(max_examples=40, deadline=None)
@given(relayouts())
def test_the_packed_format_says_where_each_element_is(
    case: tuple[list[int], list[int], list[int], list[int]],
):
    shape, *how = case
    module = parse_program(_program(shape, *how), "program.mlir")
    x = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    memory = _packed(x, *how).ravel()
    for op in module.walk():
        if isinstance(op, RelayoutOp):
            layout = op.packed_format().bind(tuple(shape))
            assert all(memory[layout.address(index)] == x[index] for index in np.ndindex(*shape))


@pytest.mark.skipif(mlir_opt() is None, reason="no mlir-opt-22: install mlir-22-tools")
@settings(max_examples=8, deadline=None)
@given(relayouts())
def test_its_forms_are_those_of_mlir(case: tuple[list[int], list[int], list[int], list[int]]):
    check_forms(_program(*case))


def test_ops_are_made_in_python():
    module = parse_program(_program([6, 5], [0], [4], [1, 0]), "program.mlir")
    pack = next(op for op in module.walk() if isinstance(op, PackOp))
    again = PackOp(pack.source, pack.dest, [0], [4], outer_dims_perm=[1, 0], padding_value=pack.padding_value)
    again.verify()
    assert again.is_structurally_equivalent(pack)
    back = UnPackOp(again.result, pack.source, [0], [4], outer_dims_perm=[1, 0])
    back.verify()
    assert back.packed_format() == again.packed_format() == li.Format.of("(a, b) : [b, a, a:4]")


def test_negative_a_dynamic_tile_has_no_format():
    module = parse_program(
        """
func.func @f(%x : tensor<?xf32>, %d : tensor<?x?xf32>, %t : index) -> tensor<?x?xf32> {
  %p = linalg.pack %x inner_dims_pos = [0] inner_tiles = [%t] into %d : tensor<?xf32> -> tensor<?x?xf32>
  func.return %p : tensor<?x?xf32>
}""",
        "program.mlir",
    )
    pack = next(op for op in module.walk() if isinstance(op, PackOp))
    with pytest.raises(LayoutError, match="tile of dynamic size"):
        pack.packed_format()
