"""What other xDSL tools see of this package."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from xdsl.ir import Dialect
from xdsl.passes import ModulePass, get_pass_option_infos
from xdsl.universe import XDSL_UNIVERSE, Universe

from layout_ir import registry
from layout_ir.universe import LAYOUT_UNIVERSE
from tests.processes import run_python

ROOT = Path(__file__).parents[1]

PROGRAM = """\
func.func @f(%x: tensor<2x8x3x3xf32>) -> tensor<2x8x3x3xf32, #layout.tag<nChw8c>> {
  %a = nn.relu %x : tensor<2x8x3x3xf32>
  %y = layout.reorder %a : tensor<2x8x3x3xf32> -> tensor<2x8x3x3xf32, #layout.tag<nChw8c>>
  func.return %y : tensor<2x8x3x3xf32, #layout.tag<nChw8c>>
}
"""

PLAIN = """\
func.func @f(%x: i32) -> i32 {
  %y = arith.addi %x, %x : i32
  func.return %y : i32
}
"""


def installed(site: Path, name: str, universe: str) -> None:
    """Makes the folder `site`, once on the path, one where a package counts as installed that has this universe."""
    metadata = site / f"{name}-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
    (metadata / "entry_points.txt").write_text(f"[xdsl.universe]\n{name} = {universe}\n")


UNIVERSE: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][
    "xdsl.universe"
]["layout_ir"]


def stock_tool(*path: Path, args: Sequence[str] = (), stdin: str = PLAIN) -> subprocess.CompletedProcess[str]:
    """A run of `xdsl-opt` with these folders on the path."""
    return subprocess.run(
        [sys.executable, "-m", "xdsl.tools.xdsl_opt", *args],
        cwd=path[0],
        env={"PYTHONPATH": ":".join(map(str, path))},
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def xdsl_opt(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The stock tool, in an environment where this checkout counts as installed."""
    site = tmp_path_factory.mktemp("site")
    installed(site, "layout_ir", UNIVERSE)

    def run(*args: str, stdin: str) -> subprocess.CompletedProcess[str]:
        return stock_tool(site, ROOT, args=args, stdin=stdin)

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
    assert registry.SUMMARIES.keys() == registry.PASSES.keys()


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
    ours = run_python("-m", "layout_ir.tools.layout_opt", stdin=PROGRAM)
    assert ours.stdout.startswith("#nChw8c = ")
    run = xdsl_opt(stdin=ours.stdout)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == xdsl_opt(stdin=PROGRAM).stdout.strip()


# Beside others -------------------------------------------------------------------------------------------------------


THEIRS = """\
from xdsl.ir import Dialect
from xdsl.universe import Universe
UNIVERSE = Universe(all_dialects={"nn": lambda: Dialect("nn", [])}, all_passes={"layout-strip": lambda: None})
"""


def test_names_that_another_package_has_are_left_to_it(tmp_path: Path):
    installed(tmp_path, "layout_ir", UNIVERSE)
    installed(tmp_path, "theirs", "theirs:UNIVERSE")
    (tmp_path / "theirs.py").write_text(THEIRS)
    run = stock_tool(tmp_path, ROOT, args=["-p", "layout-fold-reorders"])
    assert run.returncode == 0, run.stderr
    assert "arith.addi" in run.stdout
    assert "theirs has a dialect 'nn' too: that of layout-ir is left out" in run.stderr
    assert "theirs has a pass 'layout-strip' too" in run.stderr
    run = stock_tool(tmp_path, ROOT, stdin=PROGRAM)
    assert "nn.relu is not registered" in run.stderr


def test_two_universes_that_look_at_each_other_end(tmp_path: Path):
    installed(tmp_path, "layout_ir", UNIVERSE)
    installed(tmp_path, "theirs", "theirs:UNIVERSE")
    (tmp_path / "theirs.py").write_text(
        "from layout_ir.universe import LayoutUniverse\nUNIVERSE = LayoutUniverse()\n"
    )
    run = stock_tool(tmp_path, ROOT)
    assert run.returncode == 0, run.stderr


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """An environment with a copy of the package, for a test to break."""
    installed(tmp_path, "layout_ir", UNIVERSE)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "layout_ir", tmp_path / "layout_ir", ignore=ignored)
    return tmp_path


def fails(message: str) -> str:
    return f"raise ImportError({message!r})\n"


WAYS: dict[str, tuple[dict[str, str], str]] = {
    "NumPy is missing": ({"numpy.py": fails("No module named 'numpy'")}, "No module named 'numpy'"),
    "NumPy is of a wrong release": ({"numpy/__init__.py": "__version__ = '0.1'\n"}, "numpy"),
    "llvmlite is missing": ({"llvmlite.py": fails("No module named 'llvmlite'")}, ""),
    "a module has a syntax error": ({"layout_ir/passes/optimize_pipeline.py": "def (:\n"}, "invalid syntax"),
    "the registry raises": (
        {"layout_ir/registry.py": "1 / 0\n"},
        "no passes of layout-ir: ZeroDivisionError",
    ),
    "xDSL is older and lacks a module": (
        {"sitecustomize.py": "import sys\nsys.modules['xdsl.dialects.linalg.abstract_ops'] = None\n"},
        "xdsl.dialects.linalg.abstract_ops",
    ),
}
"""Per way to break the installation: files that are replaced, and what who asks for our pass is told."""


@pytest.mark.parametrize("way", WAYS)
def test_a_broken_installation_does_not_break_the_stock_tool(broken: Path, way: str):
    files, message = WAYS[way]
    for name, text in files.items():
        (broken / name).parent.mkdir(exist_ok=True)
        (broken / name).write_text(text)
    run = stock_tool(broken, args=["-p", "canonicalize,cse"])
    assert run.returncode == 0, run.stderr
    assert "arith.addi" in run.stdout
    run = stock_tool(broken, args=["-p", "layout-optimize"])
    # Choosing layouts compiles nothing, and so does without llvmlite.
    assert (run.returncode == 0) == (not message), run.stderr
    assert message in run.stderr


def test_a_broken_installation_does_not_break_the_help(broken: Path):
    (broken / "numpy.py").write_text(fails("No module named 'numpy'"))
    run = stock_tool(broken, args=["--help"])
    assert run.returncode == 0, run.stderr
    assert "canonicalize" in run.stdout and "layout-strip" in run.stdout


@pytest.mark.parametrize("way", ["an error in the package itself", "an entry point that names nothing"])
def test_negative_what_python_loads_before_any_code_of_ours_stops_the_stock_tool(broken: Path, way: str):
    """As for every package with this entry point: xDSL loads it without a handler. The error names the package."""
    if way == "an error in the package itself":
        (broken / "layout_ir" / "__init__.py").write_text("1 / 0\n")
    else:
        entries = broken / "layout_ir-0.1.0.dist-info" / "entry_points.txt"
        entries.write_text(entries.read_text().replace("LAYOUT_UNIVERSE", "NOWHERE"))
    run = stock_tool(broken)
    assert run.returncode == 1
    assert "layout_ir" in run.stderr
