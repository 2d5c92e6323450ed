"""What other xDSL tools see of this package."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from xdsl.ir import Dialect
from xdsl.passes import ModulePass, get_pass_option_infos
from xdsl.universe import XDSL_UNIVERSE, Universe

from layout_ir import registry
from layout_ir.universe import LAYOUT_UNIVERSE

ROOT = Path(__file__).parents[1]

PROGRAM = """\
func.func @f(%x: tensor<2x8x3x3xf32>) -> tensor<2x8x3x3xf32, #layout.tag<nChw8c>> {
  %a = nn.relu %x : tensor<2x8x3x3xf32>
  %y = layout.reorder %a : tensor<2x8x3x3xf32> -> tensor<2x8x3x3xf32, #layout.tag<nChw8c>>
  func.return %y : tensor<2x8x3x3xf32, #layout.tag<nChw8c>>
}
"""


@pytest.fixture(scope="module")
def xdsl_opt(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The stock tool, in an environment where this checkout counts as installed."""
    # What an installation adds, as far as entry points go: a folder with metadata on the path.
    site = tmp_path_factory.mktemp("site")
    metadata = site / "layout_ir-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: layout-ir\nVersion: 0.1.0\n")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [f"{name} = {value}" for name, value in project["entry-points"]["xdsl.universe"].items()]
    (metadata / "entry_points.txt").write_text("\n".join(["[xdsl.universe]", *lines, ""]))

    def run(*args: str, stdin: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "xdsl.tools.xdsl_opt", *args],
            cwd=site,
            env={"PYTHONPATH": f"{site}:{ROOT}"},
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_the_universe_is_the_registry():
    assert isinstance(LAYOUT_UNIVERSE, Universe)
    assert LAYOUT_UNIVERSE.all_dialects == registry.DIALECTS
    assert LAYOUT_UNIVERSE.all_passes == registry.PASSES
    assert LAYOUT_UNIVERSE.all_targets == registry.TARGETS


def test_no_name_is_taken_by_xdsl():
    # A clash would stop every xDSL tool of the environment.
    assert not LAYOUT_UNIVERSE.all_dialects.keys() & XDSL_UNIVERSE.all_dialects.keys()
    assert not LAYOUT_UNIVERSE.all_passes.keys() & XDSL_UNIVERSE.all_passes.keys()
    assert not LAYOUT_UNIVERSE.all_targets.keys() & XDSL_UNIVERSE.all_targets.keys()


@pytest.mark.parametrize("name", registry.DIALECTS)
def test_a_dialect_is_found_under_its_name(name: str):
    dialect = registry.DIALECTS[name]()
    assert isinstance(dialect, Dialect)
    assert dialect.name == name
    assert all(op.name.startswith(f"{name}.") for op in dialect.operations)


@pytest.mark.parametrize("name", registry.PASSES)
def test_a_pass_is_found_under_its_name_and_needs_no_options(name: str):
    kind = registry.PASSES[name]()
    assert issubclass(kind, ModulePass)
    assert kind.name == name
    assert kind() == kind()
    assert all(
        info.default_value is not None or "None" in info.expected_type for info in get_pass_option_infos(kind)
    )


def test_targets_are_found_under_their_names():
    for name, factory in registry.TARGETS.items():
        assert factory().name == name


def test_every_pass_has_a_line_of_help():
    assert list(registry.SUMMARIES) == list(registry.PASSES)


def test_the_stock_tool_reads_our_dialects(xdsl_opt: Any):
    run = xdsl_opt(stdin=PROGRAM)
    assert run.returncode == 0, run.stderr
    assert "nn.relu" in run.stdout
    assert "#layout.format<(n, c, h, w) : [n, c, h, w, c:8], pad = zero>" in run.stdout


@pytest.mark.parametrize("name", registry.PASSES)
def test_the_stock_tool_runs_our_passes(xdsl_opt: Any, name: str):
    run = xdsl_opt("-p", name, stdin=PROGRAM)
    assert run.returncode == 0, run.stderr
    assert ("layout.reorder" in run.stdout) == (name != "layout-strip" and not name.startswith("convert-"))


def test_the_stock_tool_reads_what_layout_opt_prints(xdsl_opt: Any):
    ours = subprocess.run(
        [sys.executable, "-m", "layout_ir.tools.layout_opt"],
        cwd=ROOT, input=PROGRAM, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ours.stdout.startswith("#nChw8c = ")
    run = xdsl_opt(stdin=ours.stdout)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == xdsl_opt(stdin=PROGRAM).stdout.strip()
