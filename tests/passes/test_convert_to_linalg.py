"""Whole programs, optimized, as linalg: stock MLIR runs them and gets what the reference gets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp

import layout_ir as li
from layout_ir.dialects.layout import dtype_of
from layout_ir.dialects.layout.types import tensor_type
from layout_ir.errors import LayoutError
from layout_ir.passes.optimize_pipeline import optimize
from tests import networks
from tests.exits.linalg.agreement import Program, assert_agree, assert_close
from tests.exits.linalg.mlir_tools import execute
from tests.passes.programs import random_program

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.mlir"))


@pytest.mark.parametrize("target", ["avx2", "avx512", "channels-last", "onnx"])
@pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_examples_compute_the_same(path: Path, target: str, tmp_path: Path):
    module = li.parse(path)
    optimize(module, target)
    main = next(op for op in module.walk() if isinstance(op, FuncOp) and op.sym_name.data == "main")
    rng = np.random.default_rng(0)
    types = [tensor_type(type) for type in main.function_type.inputs]
    assert all(dtype_of(type) == "f32" for type in types)
    inputs = [rng.standard_normal(type.get_shape()).astype(np.float32) for type in types]
    assert_agree({"example": (module, inputs)}, tmp_path)


@pytest.mark.parametrize("target", ["avx2", "avx512", "channels-last", "onednn"])
def test_random_programs_compute_the_same(target: str, tmp_path: Path):
    programs: dict[str, Program] = {}
    for seed in range(4):
        module, shape = random_program(700 + seed, 10)
        optimize(module, target)
        x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
        programs[f"seed_{seed}"] = module, [x]
    assert_agree(programs, tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ("squeezenet", "zfnet512") else pytest.mark.slow)
        for name in networks.NAMES
    ],
)
def test_networks_compute_the_same(name: str, tmp_path: Path):
    pytest.importorskip("onnx", reason="needs the extra 'onnx'")
    module = li.from_onnx(networks.randomized(name, model=networks.shrunk(name, 64)))
    x = np.random.default_rng(1).standard_normal((1, 3, 64, 64)).astype(np.float32)
    want = li.run(module, [x], reorders="reference")
    optimize(module, "avx2")
    for got, expected in zip(execute(li.to_mlir(module), [x], tmp_path), want, strict=True):
        scale = max(float(np.abs(expected).max()), 1.0)
        assert_close(got / scale, expected / scale, "f32", name)


def test_a_module_stays_as_it_is():
    module = li.parse(EXAMPLES[0])
    optimize(module, "avx2")
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
