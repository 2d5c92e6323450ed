"""Whole programs, optimized, as linalg: stock MLIR runs them and gets what the reference gets, or NumPy.

The rest of a tile that is not full neither traps nor is seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

import layout_ir as li
from layout_ir.api.program_text import parse_program
from layout_ir.dialects.layout import dtype_of
from layout_ir.dialects.layout.types import tensor_type
from layout_ir.errors import LayoutError
from layout_ir.passes.convert_to_linalg import convert_to_linalg
from layout_ir.passes.convert_to_loops import convert_to_loops
from layout_ir.passes.optimize_pipeline import optimize
from tests import networks
from tests.exits.linalg.agreement import Program, assert_agree, assert_close
from tests.exits.linalg.mlir_tools import execute, execute_all
from tests.exits.linalg.test_pack_ops import lower_pack
from tests.passes.programs import random_program
from tests.seeds import seeds

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.mlir"))


WAYS: dict[str, Callable[[ModuleOp], None]] = {
    "ops": convert_to_linalg,
    "pack": lambda module: convert_to_linalg(module, "pack"),
    "loops": convert_to_loops,
}


@pytest.mark.parametrize(
    ("path", "target"),
    [
        # Each example for half of the targets, each target with half of the examples.
        pytest.param(path, target, id=f"{path.stem}-{target}", marks=() if (k + n) % 2 else pytest.mark.deep)
        for k, path in enumerate(EXAMPLES)
        for n, target in enumerate(("blocked8", "blocked16", "channels-last", "onnx"))
    ],
)
def test_examples_compute_the_same(path: Path, target: str, tmp_path: Path):
    module = li.parse(path)
    optimize(module, target)
    main = next(op for op in module.walk() if isinstance(op, FuncOp) and op.sym_name.data == "main")
    rng = np.random.default_rng(0)
    types = [tensor_type(type) for type in main.function_type.inputs]
    assert all(dtype_of(type) == "f32" for type in types)
    inputs = [rng.standard_normal(type.get_shape()).astype(np.float32) for type in types]
    assert_agree({"example": (module, inputs)}, tmp_path)


@pytest.mark.parametrize("target", ["blocked8", "blocked16", "channels-last", "onednn"])
def test_random_programs_compute_the_same(target: str, tmp_path: Path):
    programs: dict[str, Program] = {}
    for seed in range(4):
        module, shape = random_program(700 + seed, 10)
        optimize(module, target)
        x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
        programs[f"seed_{seed}"] = module, [x]
    assert_agree(programs, tmp_path)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("target", ["blocked8", "channels-last", "onednn"])
@pytest.mark.parametrize("group", seeds(1, 4))
def test_random_programs_compute_the_same_in_every_form(group: int, target: str, way: str, tmp_path: Path):
    programs: dict[str, Program] = {}
    for seed in range(5 * group, 5 * group + 5):
        module, shape = random_program(7000 + seed, 12)
        optimize(module, target)
        x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
        programs[f"program_{seed}"] = module, [x]
    before = lower_pack(tmp_path) if way == "pack" else ()
    assert_agree(programs, tmp_path, convert=WAYS[way], before=before)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ("squeezenet", "zfnet512") else pytest.mark.deep)
        for name in networks.NAMES
    ],
)
def test_networks_compute_the_same(name: str, tmp_path: Path):
    pytest.importorskip("onnx", reason="needs the extra 'onnx'")
    module = li.from_onnx(networks.randomized(name, model=networks.shrunk(name, 64)))
    x = np.random.default_rng(1).standard_normal((1, 3, 64, 64)).astype(np.float32)
    want = li.run(module, [x], reorders="reference")
    optimize(module, "blocked8")
    for got, expected in zip(execute(li.to_mlir(module), [x], tmp_path), want, strict=True):
        scale = max(float(np.abs(expected).max()), 1.0)
        assert_close(got / scale, expected / scale, "f32", name)


def test_a_module_stays_as_it_is():
    module = li.parse(EXAMPLES[0])
    optimize(module, "blocked8")
    before = li.to_text(module)
    for form, reorders in (("linalg", "ops"), ("linalg", "pack"), ("linalg", "call"), ("loops", "ops")):
        li.to_mlir(module, form=form, reorders=reorders)  # pyright: ignore[reportArgumentType]
    assert li.to_text(module) == before


def test_negative_forms_and_reorders_that_are_not_known_are_errors():
    module = li.parse("func.func @main() { func.return }")
    for said, message in (
        ({"form": "llvm"}, "form = llvm is unknown, expected one of linalg, loops"),
        ({"reorders": "copy"}, "reorders = copy is unknown, expected one of ops, pack, call"),
        ({"form": "loops", "reorders": "pack"}, "reorders = pack is for linalg"),
    ):
        with pytest.raises(LayoutError, match=message):
            li.to_mlir(module, **said)  # pyright: ignore[reportArgumentType]


# --- Partial tiles ---

ELEMENTWISE = """
func.func @{name}(%x: tensor<2x5x32x{T}>, %p_e: tensor<2x5x32x{T}>) -> (tensor<60x5x{T}>, tensor<2x5x32x{T}>) {{
  %u_e = tensor.empty() : tensor<60x5x{T}>
  %u = linalg.unpack %x inner_dims_pos = [0] inner_tiles = [32] into %u_e : tensor<2x5x32x{T}> -> tensor<60x5x{T}>
  %e = tensor.empty() : tensor<60x5x{T}>
  %y = linalg.generic {{indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>],
      iterator_types = ["parallel", "parallel"]}} ins(%u : tensor<60x5x{T}>) outs(%e : tensor<60x5x{T}>) {{
  ^bb0(%in: {T}, %out: {T}):
    %c = arith.constant {constant} : {T}
    {body}
    linalg.yield %r : {T}
  }} -> tensor<60x5x{T}>
  %z = arith.constant {zero} : {T}
  %p = linalg.pack %y padding_value(%z : {T}) inner_dims_pos = [0] inner_tiles = [32] into %p_e
    : tensor<60x5x{T}> -> tensor<2x5x32x{T}>
  func.return %y, %p : tensor<60x5x{T}>, tensor<2x5x32x{T}>
}}
"""

REDUCED = """
func.func @{name}(%x: tensor<2x5x32x{T}>) -> tensor<5x{T}> {{
  %u_e = tensor.empty() : tensor<60x5x{T}>
  %u = linalg.unpack %x inner_dims_pos = [0] inner_tiles = [32] into %u_e : tensor<2x5x32x{T}> -> tensor<60x5x{T}>
  %e = tensor.empty() : tensor<5x{T}>
  %s = arith.constant {constant} : {T}
  %i = linalg.fill ins(%s : {T}) outs(%e : tensor<5x{T}>) -> tensor<5x{T}>
  %y = linalg.generic {{indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (b)>],
      iterator_types = ["reduction", "parallel"]}} ins(%u : tensor<60x5x{T}>) outs(%i : tensor<5x{T}>) {{
  ^bb0(%in: {T}, %out: {T}):
    {body}
    linalg.yield %r : {T}
  }} -> tensor<5x{T}>
  func.return %y : tensor<5x{T}>
}}
"""


@dataclass(frozen=True)
class Case:
    """A scalar body, what it computes of the elements outside of the rest of the tiles, and what lies in that rest."""

    dtype: str
    constant: str
    body: str
    compute: Callable[[Any], Any]
    rest: float
    elements: Callable[[np.random.Generator, tuple[int, ...]], Any]
    reduces: bool = False

    def text(self, name: str) -> str:
        """The function `name`."""
        zero = "0.0" if self.dtype == "f32" else "0"
        template = REDUCED if self.reduces else ELEMENTWISE
        return template.format(name=name, T=self.dtype, constant=self.constant, body=self.body, zero=zero)


def _positive(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return rng.uniform(1, 9, shape).astype(np.float32)


def _negative(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return -_positive(rng, shape)


def _integers(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return rng.integers(1, 20, shape).astype(np.int32)


CASES = {
    "a hundred divided by it": Case(
        "f32", "100.0", "%r = arith.divf %c, %in : f32", lambda x: 100 / x, 0.0, _positive),
    "remainders": Case("i32", "100", "%r = arith.remsi %c, %in : i32", lambda x: 100 % x, 0, _integers),
    "unsigned quotients": Case("i32", "100", "%r = arith.divui %c, %in : i32", lambda x: 100 // x, 0, _integers),
    "remainders of it": Case("i32", "7", "%r = arith.remsi %in, %c : i32", lambda x: x % 7, -(2**31), _integers),
    "shifts by it": Case("i32", "3", "%r = arith.shli %c, %in : i32", lambda x: 3 << x, 77, _integers),
    "arithmetic shifts by it": Case(
        "i32", "-99999", "%r = arith.shrsi %c, %in : i32", lambda x: -99999 >> x, -1, _integers),
    "logarithms": Case("f32", "2.0", "%l = math.log %in : f32\n%r = arith.addf %l, %c : f32",
                       lambda x: np.log(x) + 2, -1.0, _positive),
    "the largest of negative ones": Case(
        "f32", "0xFF800000", "%r = arith.maximumf %in, %out : f32", lambda x: x.max(0), 0.0, _negative, True),
    "the largest of negative ones, in the rest nan": Case(
        "f32", "0xFF800000", "%r = arith.maximumf %in, %out : f32", lambda x: x.max(0), np.nan, _negative, True),
    "the smallest": Case("i32", "2147483647", "%r = arith.minsi %in, %out : i32",
                         lambda x: x.min(0), -5, _integers, True),
    "the sum of logarithms": Case("f32", "0.0", "%l = math.log %in : f32\n%r = arith.addf %l, %out : f32",
                                  lambda x: np.log(x).sum(0), 0.0, _positive, True),
    "the sum of quotients": Case("i32", "0", "%h = arith.constant 100 : i32\n%q = arith.divsi %h, %in : i32\n"
                                 "%r = arith.addi %q, %out : i32", lambda x: (100 // x).sum(0), 0, _integers, True),
}  # fmt: skip


def _packed(x: Any, rest: float) -> Any:
    """60x5 as 2x5x32, `rest` behind the 60."""
    whole = np.concatenate([x, np.full((4, 5), rest, x.dtype)])
    return np.ascontiguousarray(whole.reshape(2, 32, 5).swapaxes(1, 2))


def _name(case: str) -> str:
    return "case_" + "".join(letter if letter.isalpha() else "_" for letter in case)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("target", ["channels-last", "blocked8"])
def test_the_rest_of_a_tile_neither_traps_nor_is_seen(target: str, way: str, tmp_path: Path):
    rng = np.random.default_rng(0)
    elements = {name: case.elements(rng, (60, 5)) for name, case in CASES.items()}
    module = parse_program("".join(case.text(_name(name)) for name, case in CASES.items()), "cases.mlir")
    li.open_layouts(module)
    li.optimize(module, target)
    WAYS[way](module)
    module.verify()
    calls = {
        _name(name): [_packed(elements[name], case.rest)]
        + ([] if case.reduces else [np.zeros((2, 5, 32), elements[name].dtype)])
        for name, case in CASES.items()
    }
    got = execute_all(module, calls, tmp_path, before=lower_pack(tmp_path) if way == "pack" else ())
    for name, case in CASES.items():
        want = np.asarray(case.compute(elements[name])).astype(elements[name].dtype)
        np.testing.assert_allclose(got[_name(name)][0], want, rtol=1e-5, atol=1e-5, err_msg=name)
        if not case.reduces:
            np.testing.assert_allclose(
                got[_name(name)][1], _packed(want, 0), rtol=1e-5, atol=1e-5, err_msg=name
            )


TWO_OPERANDS = """
func.func @{name}(%x: tensor<2x5x32xi32>, %v: tensor<{shape}xi32>, %p_e: tensor<2x5x32xi32>) -> tensor<2x5x32xi32> {{
  %u_e = tensor.empty() : tensor<60x5xi32>
  %u = linalg.unpack %x inner_dims_pos = [0] inner_tiles = [32] into %u_e : tensor<2x5x32xi32> -> tensor<60x5xi32>
  %e = tensor.empty() : tensor<60x5xi32>
  %y = linalg.generic {{indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> ({dims})>,
      affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}}
      ins(%u, %v : tensor<60x5xi32>, tensor<{shape}xi32>) outs(%e : tensor<60x5xi32>) {{
  ^bb0(%in: i32, %by: i32, %out: i32):
    %r = arith.remsi %in, %by : i32
    linalg.yield %r : i32
  }} -> tensor<60x5xi32>
  %z = arith.constant 0 : i32
  %p = linalg.pack %y padding_value(%z : i32) inner_dims_pos = [0] inner_tiles = [32] into %p_e
    : tensor<60x5xi32> -> tensor<2x5x32xi32>
  func.return %p : tensor<2x5x32xi32>
}}
"""


def test_a_divisor_that_gets_pads_for_its_tiles_traps_in_none_of_them(tmp_path: Path):
    rng = np.random.default_rng(0)
    shapes = {"whole": ("60x5", "a, b"), "rows": ("60", "a"), "columns": ("5", "b")}
    text = "".join(TWO_OPERANDS.format(name=name, shape=s, dims=d) for name, (s, d) in shapes.items())
    module = parse_program(text, "divisors.mlir")
    li.open_layouts(module)
    li.optimize(module, "blocked8")
    convert_to_linalg(module)
    x = _integers(rng, (60, 5))
    divisors = {name: _integers(rng, (60, 5)) for name in shapes}
    divisors["rows"], divisors["columns"] = divisors["rows"][:, 0], divisors["columns"][0]
    outputs = np.zeros((2, 5, 32), np.int32)
    calls = {name: [_packed(x, 0), np.ascontiguousarray(by), outputs] for name, by in divisors.items()}
    got = execute_all(module, calls, tmp_path)
    for name, by in divisors.items():
        want = x % (by[:, None] if name == "rows" else by)
        np.testing.assert_array_equal(got[name][0], _packed(want, 0), name)
