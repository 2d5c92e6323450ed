"""Starting is cheap: nothing heavy is imported before it is needed."""

from __future__ import annotations

import json

import pytest

from tests.processes import run_python

HEAVY = ("llvmlite", "numpy", "onnx", "onnxruntime", "torch")

PROGRAM = """\
func.func @f(%x: tensor<2x17x5x4xf32>) -> tensor<2x17x5x4xf32, #layout.tag<nChw8c>> {
  %k = nn.constant dense<1.0> : tensor<2x17x5x4xf32>
  %a = nn.add %x, %k : tensor<2x17x5x4xf32>
  %y = layout.reorder %a : tensor<2x17x5x4xf32> -> tensor<2x17x5x4xf32, #layout.tag<nChw8c>>
  func.return %y : tensor<2x17x5x4xf32, #layout.tag<nChw8c>>
}
"""


def loaded_after(code: str, stdin: str = "") -> set[str]:
    """Names of all modules that a fresh interpreter has loaded after `code`."""
    report = "\nimport json, sys\nprint('MODULES', json.dumps(sorted(sys.modules)), file=sys.stderr)"
    run = run_python("-c", code + report, stdin=stdin)
    return set(json.loads(run.stderr.rpartition("MODULES")[2]))


def packages(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


@pytest.mark.parametrize(
    "module", ["layout_ir", "layout_ir.registry", "layout_ir.algebra.format", "layout_ir.errors"]
)
def test_the_package_and_its_algebra_import_nothing(module: str):
    assert not packages(loaded_after(f"import {module}")) & {*HEAVY, "xdsl"}


def test_the_universe_imports_nothing_of_ours_but_the_registry_and_a_lock():
    # Every xDSL tool does this on every start.
    modules = loaded_after(
        "from xdsl.universe import Universe; Universe.get_multiverse()\n"
        "from layout_ir.universe import LAYOUT_UNIVERSE as u; u.all_dialects, u.all_passes, u.all_targets"
    )
    ours = {name for name in modules if name.partition(".")[0] == "layout_ir"}
    assert ours == {"layout_ir", "layout_ir.forking", "layout_ir.registry", "layout_ir.universe"}
    assert not packages(modules) & set(HEAVY)


@pytest.mark.parametrize(
    ("args", "stdin"),
    [
        (["--help"], ""),
        (["--version"], ""),
        ([], PROGRAM),
        (["-p", "cse,canonicalize"], PROGRAM),
        (["--verify-diagnostics"], "// expected-error@+1 {{expected}}\n}"),
    ],
    ids=lambda value: " ".join(value) or "print",  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
)
def test_layout_opt_reads_and_prints_without_anything_heavy(args: list[str], stdin: str):
    code = (
        "from layout_ir.tools.layout_opt import main\n"
        f"try: status = main({args!r})\n"
        "except SystemExit as exit: status = exit.code\n"
        "assert not status, status"
    )
    assert not packages(loaded_after(code, stdin)) & set(HEAVY)


def test_negative_what_is_heavy_is_noticed():
    pytest.importorskip("numpy")
    assert packages(loaded_after("import numpy")) & set(HEAVY) == {"numpy"}


def test_layout_ir_help_imports_nothing_heavy():
    pytest.importorskip("layout_ir.tools.layout_ir")
    code = (
        "from layout_ir.tools.layout_ir import main\n"
        "try: status = main(['--help'])\n"
        "except SystemExit as exit: status = exit.code\n"
        "assert not status, status"
    )
    assert not packages(loaded_after(code)) & set(HEAVY)


def test_selection_works_where_xdsl_is_not_installed():
    """The examples import nothing but `layout_ir.selection`; what that needs of the package must not need xDSL."""
    code = (
        "import runpy, sys\n"
        "for name in ('xdsl', 'onnx', 'llvmlite'): sys.modules[name] = None\n"
        "runpy.run_path('examples/three_kinds.py', run_name='__main__')\n"
        "for name in ('xdsl', 'onnx', 'llvmlite'): del sys.modules[name]\n"
    )
    modules = loaded_after(code)
    assert "layout_ir.selection.named_problem" in modules and "xdsl" not in packages(modules)


def test_negative_selection_imports_no_solver_before_it_is_used():
    assert not packages(loaded_after("import layout_ir.selection")) & {*HEAVY, "xdsl"}


def test_a_network_is_compiled_without_dialects_that_it_has_no_ops_of():
    pytest.importorskip("onnx")
    modules = loaded_after("import layout_ir.api.compilation, layout_ir.frontends.onnx.importer")
    assert "xdsl.dialects.func" in modules
    others = ("arith", "cf", "linalg", "scf", "tensor", "test", "tosa")
    assert not modules & {f"xdsl.dialects.{name}" for name in others}
