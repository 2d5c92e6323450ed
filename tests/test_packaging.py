"""Distributions hold what they should, and every way to install them works.

`passes/` and `backends/` are at the top of the tree and inside the package `layout_ir`: the tests compare what is
built with the tree, and import from installations of each kind.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import numpy
import pytest
import xdsl

import layout_ir
from layout_ir.registry import PASSES
from tests.processes import run_python

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
MAPPED = {"passes": "layout_ir/passes", "backends": "layout_ir/backends"}


def tree() -> dict[str, Path]:
    """Path inside the package -> real file, for every file that must be installed."""
    found: dict[str, Path] = {}
    for top in ("layout_ir", *MAPPED):
        # os.walk does not follow links, so that nothing is met twice.
        for folder, _, names in os.walk(ROOT / top):
            for name in names:
                path = Path(folder) / name
                if path.suffix in (".py", ".html", ".css", ".js", ".json") or name == "py.typed":
                    inside = path.relative_to(ROOT).as_posix()
                    found[inside.replace(top, MAPPED.get(top, top), 1)] = path
    return found


def packages(files: dict[str, Path]) -> set[str]:
    return {str(Path(name).parent).replace("/", ".") for name in files}


def build(kind: str, source: Path, out: Path) -> Path:
    """Builds a wheel or an sdist of `source` with the declared backend, as a build frontend would."""
    pytest.importorskip("setuptools", minversion="77", reason="the build backend is not installed here")
    out.mkdir(exist_ok=True)
    code = f"from setuptools import build_meta; print(build_meta.build_{kind}({str(out)!r}))"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=source, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return out / run.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout: building leaves things behind."""
    target = tmp_path_factory.mktemp("copy") / "layout-ir"
    ignored = shutil.ignore_patterns(
        ".git", ".venv", "build", "dist", "*.egg-info", "__pycache__", ".*_cache", "Output"
    )
    shutil.copytree(ROOT, target, symlinks=True, ignore=ignored)
    return target


@pytest.fixture(scope="module")
def wheel(copy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", copy, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sdist(copy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("sdist", copy, tmp_path_factory.mktemp("sdist"))


# The tree --------------------------------------------------------------------------------------------------------


def test_the_list_of_packages_is_the_tree():
    assert packages(tree()) == set(PROJECT["tool"]["setuptools"]["packages"])


def test_every_package_has_an_init_file():
    files = tree()
    assert {f"{name.replace('.', '/')}/__init__.py" for name in packages(files)} <= files.keys()


def test_the_links_lead_to_the_real_folders():
    for real, link in MAPPED.items():
        assert os.readlink(ROOT / link) == f"../{real}"


@pytest.mark.parametrize("name", MAPPED)
def test_negative_the_folders_cannot_be_imported_under_a_second_name(name: str):
    run = run_python("-c", f"import {name}", check=False)
    assert f"ImportError: import this package as 'layout_ir.{name}', not as '{name}'" in run.stderr


CORE = {"xdsl", "numpy", "llvmlite"}

OPTIONAL = {
    "onnx": ("layout_ir/frontends/", "layout_ir/exits/onnx/", "layout_ir/backends/reference/node_operators/"),
    "google": ("layout_ir/frontends/",),
    "PIL": ("layout_ir/drawing/",),
    "fast_sugiyama": ("layout_ir/drawing/",),
    "lit": ("layout_ir/testing/",),
    "hypothesis": ("layout_ir/testing/",),
}
"""What the extras bring (`google` is the protobuf of onnx), and where it may be imported outright."""


def imports(path: Path) -> list[tuple[str, bool]]:
    """Top-level names that a file imports, and whether it does so as soon as it is loaded."""
    module = ast.parse(path.read_text())
    found: list[tuple[str, bool]] = []
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            found += [(alias.name.partition(".")[0], node in module.body) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.append((node.module.partition(".")[0], node in module.body))
    return found


def test_only_declared_packages_are_imported():
    declared = {re.split("[<>=~]", name)[0] for name in PROJECT["project"]["dependencies"]}
    assert declared == CORE
    # xDSL brings the other two.
    always = {*CORE, "layout_ir", "typing_extensions", "immutabledict", *sys.stdlib_module_names}
    for name, path in tree().items():
        if path.suffix == ".py":
            for root, at_once in imports(path):
                here = name.startswith(OPTIONAL.get(root, ("-",)))
                # Inside a function a package may be asked for that need not be there.
                elsewhere = not at_once and root in {*OPTIONAL, "torch"}
                assert root in always or here or elsewhere, f"{name} imports {root}"


def test_every_console_script_has_its_function():
    for target in PROJECT["project"]["scripts"].values():
        module, _, function = target.partition(":")
        source = tree()[f"{module.replace('.', '/')}.py"]
        names = {
            node.name for node in ast.parse(source.read_text()).body if isinstance(node, ast.FunctionDef)
        }
        assert function in names


# Distributions ---------------------------------------------------------------------------------------------------


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}


def test_the_wheel_holds_the_tree_and_nothing_else(wheel: Path):
    assert contents(wheel) == {name: path.read_bytes() for name, path in tree().items()}


def test_the_wheel_carries_its_licence_and_entry_points(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        metadata = {
            Path(name).name: archive.read(name).decode() for name in archive.namelist() if "dist-info" in name
        }
    assert "Apache License" in metadata["LICENSE"]
    assert "License-Expression: Apache-2.0" in metadata["METADATA"]
    assert "Requires-Dist: xdsl<0.76,>=0.73.0" in metadata["METADATA"]
    assert f"Version: {layout_ir.__version__}" in metadata["METADATA"]
    assert "layout-opt = layout_ir.tools.layout_opt:main" in metadata["entry_points.txt"]
    assert "layout_ir = layout_ir.universe:LAYOUT_UNIVERSE" in metadata["entry_points.txt"]


def test_the_sdist_holds_each_source_once_and_the_tests(sdist: Path):
    with tarfile.open(sdist) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    assert len(names) == len(set(names))
    expected = {path.relative_to(ROOT).as_posix() for path in tree().values()}
    assert expected <= set(names)
    assert not [name for name in names if name.startswith(tuple(f"{link}/" for link in MAPPED.values()))]
    for name in (
        "LICENSE",
        "CHANGELOG.md",
        "README.md",
        "SECURITY.md",
        "tests/test_packaging.py",
        "filecheck/lit.cfg.py",
    ):
        assert name in names
    assert not [name for name in names if "__pycache__" in name or name.endswith(".pyc")]


def test_the_sdist_builds_the_same_wheel(sdist: Path, wheel: Path, tmp_path: Path):
    with tarfile.open(sdist) as archive:
        archive.extraction_filter = getattr(
            tarfile, "data_filter", None
        )  # the first releases of 3.11 have none
        archive.extractall(tmp_path)
    (source,) = tmp_path.iterdir()
    assert contents(build("wheel", source, tmp_path / "out")) == contents(wheel)


def test_a_checkout_without_links_builds_the_same_wheel(copy: Path, wheel: Path, tmp_path: Path):
    # Where the file system has no links, git writes a file with the target's name instead.
    source = tmp_path / "source"
    shutil.copytree(copy, source, symlinks=True, ignore=shutil.ignore_patterns("build", "*.egg-info"))
    for link in MAPPED.values():
        target = os.readlink(source / link)
        (source / link).unlink()
        (source / link).write_text(target)
    assert contents(build("wheel", source, tmp_path / "out")) == contents(wheel)


# Installations ---------------------------------------------------------------------------------------------------

PROGRAM = "%a = nn.constant dense<1.0> : tensor<2xf32>\n%b = nn.relu %a : tensor<2xf32>\n"

PROBE = """\
import layout_ir.backends.reference, layout_ir.dialects.nn, layout_ir.passes.strip, sys
print(layout_ir.__file__, layout_ir.passes.strip.__file__)
"""


REFUSED = """\
func.func @f(%x: tensor<?x8xf32>) -> tensor<?x8xf32, #layout.any> {
  %y = layout.reorder %x : tensor<?x8xf32> -> tensor<?x8xf32, #layout.any>
  func.return %y : tensor<?x8xf32, #layout.any>
}
"""

REMAINING = """\
func.func @f(%x: tensor<2x8x3x3xf32>) -> tensor<2x8x3x3xf32, #layout.tag<nChw8c>> {
  %y = layout.reorder %x : tensor<2x8x3x3xf32> -> tensor<2x8x3x3xf32, #layout.tag<nChw8c>>
  func.return %y : tensor<2x8x3x3xf32, #layout.tag<nChw8c>>
}
"""


def needed(name: str, found: set[str]) -> set[str]:
    """`name` and the distributions that it needs without any extra."""
    if name not in found:
        found.add(name)
        for requirement in distribution(name).requires or ():
            if "extra ==" not in requirement:
                needed(re.split(r"[^A-Za-z0-9._-]", requirement)[0], found)
    return found


def test_the_stock_tool_beside_the_wheel_and_nothing_else(wheel: Path, tmp_path: Path):
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False, symlinks=True)
    (site,) = environment.glob("lib/python*/site-packages")
    found: set[str] = set()
    for name in ("xdsl", "numpy", "llvmlite"):
        needed(name, found)
    for name in found:
        for top in {file.parts[0] for file in distribution(name).files or () if ".." not in file.parts}:
            (site / top).symlink_to(Path(str(distribution(name).locate_file(top))))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)

    def xdsl_opt(*args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(environment / "bin" / "python"), "-m", "xdsl.tools.xdsl_opt", *args],
            cwd=tmp_path, env={}, input=stdin, capture_output=True, text=True, check=False,
        )  # fmt: skip

    said = "".join(xdsl_opt("--help").stdout.split())
    assert all(name in said for name in PASSES)
    chosen = xdsl_opt("-p", "layout-optimize{target=blocked8}", stdin=PROGRAM)
    assert chosen.returncode == 0, chosen.stderr
    assert "nn.relu" in chosen.stdout
    remark = xdsl_opt("-p", "layout-explain{target=blocked8}", stdin=REMAINING)
    assert remark.returncode == 0, remark.stderr
    assert "remark: " in remark.stderr and "nChw8c" in remark.stderr
    refused = xdsl_opt("-p", "layout-optimize", stdin=REFUSED)
    assert refused.returncode != 0
    assert "error: no layout can be chosen for tensor<?x8xf32" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.slow
@pytest.mark.parametrize("how", ["wheel", "editable", "strict", "compat"])
def test_an_installation_works(how: str, copy: Path, wheel: Path, tmp_path: Path):
    pytest.importorskip("pip", reason="needs pip to install with")
    source = tmp_path / "source"
    shutil.copytree(copy, source, symlinks=True, ignore=shutil.ignore_patterns("build", "*.egg-info"))
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False, symlinks=True)
    (site,) = environment.glob("lib/python*/site-packages")
    # Dependencies come from the environment that runs the tests; layout-ir itself must not.
    borrowed = {str(Path(module.__file__ or "").parents[1]) for module in (xdsl, numpy, pytest)}
    (site / "borrowed.pth").write_text("\n".join(borrowed))
    options = {
        "wheel": [str(wheel)],
        "editable": ["-e", str(source)],
        "strict": ["-e", str(source), "--config-settings", "editable_mode=strict"],
        "compat": ["-e", str(source), "--config-settings", "editable_mode=compat"],
    }[how]
    python = environment / "bin" / "python"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "-q",
        "--no-deps",
        "--no-build-isolation",
    ]
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}

    def run(*command: str, stdin: str = "") -> str:
        done = subprocess.run(
            command, cwd=tmp_path, env=clean, input=stdin, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run(*pip, *options)
    home = site if how == "wheel" else source
    for place in run(str(python), "-c", PROBE).split():
        assert Path(place).resolve().is_relative_to(home.resolve()), place
    program = run(str(environment / "bin" / "layout-opt"), stdin=PROGRAM)
    assert "nn.relu" in program
    stock = run(str(python), "-m", "xdsl.tools.xdsl_opt", "-p", "layout-strip", stdin=PROGRAM)
    assert "nn.relu" in stock
