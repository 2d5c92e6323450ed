"""With the definitions, stock mlir-opt reads programs of ours, verifies them, and gives back the same programs."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp

import layout_ir as li
from layout_ir.backends.llvm.lowering import lower
from layout_ir.dialects.layout.irdl_segments import MOST_RUNS
from layout_ir.exits.irdl.dialect_definitions import definitions
from layout_ir.registry import DIALECTS

ROOT = Path(__file__).parents[3]
TOOL = next((found for name in ("mlir-opt", "mlir-opt-22") if (found := shutil.which(name))), "")
EXAMPLES = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("*.mlir", "c_program/*.mlir")
    for path in (ROOT / "examples").glob(pattern)
)

TEXT_TESTS = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("dialects/[kln]*/*.mlir", "tools/constants.mlir")
    for path in (ROOT / "filecheck").glob(pattern)
    if "invalid" not in path.stem
)


@pytest.fixture(scope="module")
def dialects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the definitions of all dialects."""
    if not TOOL:
        pytest.skip("no mlir-opt")
    path = tmp_path_factory.mktemp("irdl") / "dialects.irdl"
    path.write_text(definitions([load() for load in DIALECTS.values()]))
    return path


def mlir_opt(dialects: Path, text: str, *args: str) -> subprocess.CompletedProcess[str]:
    command = [TOOL, f"--irdl-file={dialects}", *args]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def without_names(module: ModuleOp) -> str:
    """The text of a program; mlir-opt does not keep the names of values."""
    module = module.clone()
    for op in module.walk():
        for value in (
            *op.results,
            *(a for region in op.regions for block in region.blocks for a in block.args),
        ):
            value.name_hint = None
    return li.to_text(module)


def check(dialects: Path, module: ModuleOp) -> None:
    run = mlir_opt(dialects, li.to_text(module, for_irdl=True))
    assert run.returncode == 0, run.stderr
    assert without_names(li.parse(run.stdout)) == without_names(module)


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_comes_back_as_it_went_before_and_after_its_layouts_are_chosen(
    dialects: Path, example: str
):
    module = li.parse(ROOT / example)
    check(dialects, module)
    li.optimize(module, target="blocked8")
    check(dialects, module)
    lower(module, "haswell")
    check(dialects, module)


EVERY_ATTRIBUTE = """\
func.func @f(%x: tensor<2x17xf32, #layout.any>, %y: tensor<?x17xf32>, %o: tensor<4xf32, #layout.opaque<"w \\22 q", 64>>,
             %p: tensor<4xf32, #layout.opaque<"plain">>) {
  %a = nn.relu %x {layout.options = [#layout.option<ins = [#layout.format<(n, c) : [n, c, c:8], pad = -1.5>],
    outs = [#layout.tag<ab>], cost = 5, in_place = [0 -> 0]>]} : tensor<2x17xf32, #layout.any>
  %b = layout.reorder %y scale = [1.0, 0.05] zero_point = [0, 3] : tensor<?x17xf32> -> tensor<?x17xi8, #layout.tag<ba>>
  %k = nn.constant dense<[1.0, -0.0, 2.5]> : tensor<3xf32>
  func.return
}
"""


def test_every_attribute_of_ours_comes_back(dialects: Path):
    module = li.parse(EVERY_ATTRIBUTE)
    check(dialects, module)
    lower(module, "haswell")
    assert "kernel.dynamic" in li.to_text(module)
    check(dialects, module)


@pytest.mark.parametrize("name", TEXT_TESTS)
def test_the_programs_of_the_text_tests_come_back(dialects: Path, name: str):
    parts = re.split(r"^// -----.*$", (ROOT / name).read_text(), flags=re.MULTILINE)
    module = ModuleOp([])
    for part in parts:
        if "expected-error" not in part:
            module.body.block.add_ops(op.clone() for op in li.parse(part).ops)
    for k, op in enumerate(op for op in module.ops if isinstance(op, FuncOp)):
        op.sym_name = StringAttr(f"f{k}")  # names of several programs
    check(dialects, module)


def test_passes_of_mlir_run_on_our_ops(dialects: Path):
    text = """\
    func.func @main(%x: tensor<2x17xf32>, %c: i1) -> tensor<2x17xf32> {
      %a = nn.relu %x : tensor<2x17xf32>
      %dead = arith.constant 5 : index
      %b = nn.relu %a : tensor<2x17xf32>
      func.return %b : tensor<2x17xf32>
    }"""
    run = mlir_opt(dialects, li.to_text(li.parse(text), for_irdl=True), "--canonicalize")
    names = [op.name for op in li.parse(run.stdout).walk()]
    assert names == ["builtin.module", "func.func", "nn.relu", "nn.relu", "func.return"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("operands", '"nn.relu"() : () -> tensor<2xf32>', "expects exactly 1 operands, but got 0"),
        ("results", '%0 = "nn.relu"(%x) : (tensor<2xf32>) -> f32', "expected base type 'builtin.tensor'"),
        ("required", '%0 = "layout.permute"(%x) : (tensor<2xf32>) -> tensor<2xf32>', "attribute \"perm\" is expected"),
        ("kinds", '%0 = "layout.permute"(%x) {perm = 1} : (tensor<2xf32>) -> tensor<2xf32>', "builtin.dense_array"),
        ("ops", '"nn.rleu"(%x) : (tensor<2xf32>) -> ()', "unregistered operation 'nn.rleu'"),
        ("parameters", '"nn.relu"(%x) {a = #layout.format<1>} : (tensor<2xf32>) -> tensor<2xf32>', "builtin.string"),
    ],
)  # fmt: skip
def test_negative_mlir_verifies_what_the_definitions_say(dialects: Path, name: str, text: str, message: str):
    run = mlir_opt(dialects, f"func.func @f(%x: tensor<2xf32>) {{\n{text}\nreturn\n}}")
    assert run.returncode != 0 and message in run.stderr, (name, run.stderr)


def concat(extents: Sequence[int]) -> str:
    """A program that joins tensors of these extents."""
    types = [f"tensor<{extent}xf32>" for extent in extents]
    arguments = ", ".join(f"%x{k}: {type}" for k, type in enumerate(types))
    operands, result = ", ".join(f"%x{k}" for k in range(len(types))), f"tensor<{sum(extents)}xf32>"
    return f"""\
    func.func @f({arguments}) -> {result} {{
      %y = nn.concat {operands} axis = 0 : ({", ".join(types)}) -> {result}
      func.return %y : {result}
    }}"""


@pytest.mark.parametrize(
    "extents", [[2], [2, 2, 2], [2, 3], [2, 2, 3, 2], range(1, MOST_RUNS + 1), [2] * 100]
)
def test_operands_of_a_variadic_op_may_be_of_several_types(dialects: Path, extents: Sequence[int]):
    check(dialects, li.parse(concat(extents)))


def test_negative_operands_of_too_many_types_in_turn_are_refused_there(dialects: Path):
    run = mlir_opt(dialects, li.to_text(li.parse(concat(range(1, MOST_RUNS + 2))), for_irdl=True))
    assert run.returncode != 0 and f"must have {MOST_RUNS} elements, but got {MOST_RUNS + 1}" in run.stderr


def test_negative_a_variadic_operand_that_is_no_tensor_is_refused_there(dialects: Path):
    text = li.to_text(li.parse(concat([2, 3])), for_irdl=True)
    run = mlir_opt(dialects, text.replace("tensor<3xf32>", "f32"))
    assert run.returncode != 0 and "expected base type 'builtin.tensor'" in run.stderr


def test_where_nn_is_left_undefined_its_ops_are_read_as_unregistered(tmp_path: Path):
    if not TOOL:
        pytest.skip("no mlir-opt")
    path = tmp_path / "dialects.irdl"
    path.write_text(definitions([DIALECTS[name]() for name in ("layout", "kernel")]))
    module = li.parse(ROOT / "examples" / "unet.mlir")
    for _ in range(2):
        run = mlir_opt(path, li.to_text(module, for_irdl=True), "--allow-unregistered-dialect")
        assert run.returncode == 0, run.stderr
        assert without_names(li.parse(run.stdout)) == without_names(module)
        li.optimize(module, target="blocked8")


def test_every_op_and_attribute_is_defined():
    loaded = [load() for load in DIALECTS.values()]
    text = definitions(loaded)
    for dialect in loaded:
        for op in dialect.operations:
            assert f"irdl.operation @{op.name.partition('.')[2]}" in text
        for attribute in dialect.attributes:
            assert f"irdl.attribute @{attribute.name.partition('.')[2]}" in text


def test_xdsl_reads_the_definitions_too():
    module = li.parse(definitions([DIALECTS["layout"](), DIALECTS["nn"](), DIALECTS["kernel"]()]))
    assert sum(op.name == "irdl.operation" for op in module.walk()) == sum(
        len(list(load().operations)) for load in DIALECTS.values()
    )
