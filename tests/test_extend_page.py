"""docs/extend.md, followed to the letter: its files written, its commands run, what they print compared."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import layout_ir

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "extend.md").read_text()
BLOCKS = re.findall(r'^```(\w+)(?: title="(.*?)")?\n(.*?)^```$', PAGE, re.MULTILINE | re.DOTALL)
"""(language, file, text) of each block of code, in order."""


def files() -> dict[str, str]:
    """The files that the page has a reader write."""
    found: dict[str, str] = {}
    for _, name, text in BLOCKS:
        if name:
            found[name] = f"{found[name]}\n\n{text}" if name in found else text
    return found


def commands() -> list[tuple[str, str | None, bool]]:
    """Each block of commands, what it is said to print, and whether the package is installed by then."""
    found: list[tuple[str, str | None, bool]] = []
    installed = False
    for (language, _, text), after in zip(BLOCKS, [*BLOCKS[1:], ("", "", "")], strict=True):
        installed |= language == "toml"
        if language == "sh":
            found.append((text, after[2] if after[0] == "text" else None, installed))
    return found


PROGRAMS = {
    "python": "",
    "layout-ir": "-m layout_ir.tools.layout_ir",
    "layout-opt": "-m layout_ir.tools.layout_opt",
    "xdsl-opt": "-m xdsl.tools.xdsl_opt",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the page; `site` in it has what installing its package and ours adds to an environment."""
    place = tmp_path_factory.mktemp("npu")
    for name, text in files().items():
        (place / name).write_text(text)
    project = tomllib.loads((place / "pyproject.toml").read_text())["project"]
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    described: dict[str, Any]
    for described in (project, {**ours, "version": layout_ir.__version__}):
        metadata = place / "site" / f"{described['name'].replace('-', '_')}-{described['version']}.dist-info"
        metadata.mkdir(parents=True)
        about = f"Name: {described['name']}\nVersion: {described['version']}\n"
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\n{about}")
        lines: list[str] = []
        for group, entries in described["entry-points"].items():
            lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
        (metadata / "entry_points.txt").write_text("\n".join(lines))
    (place / "bin").mkdir()
    for name, module in PROGRAMS.items():
        program = place / "bin" / name
        program.write_text(f"#!/bin/sh\nexec '{sys.executable}' {module} \"$@\"\n")
        program.chmod(0o755)
    return place


def run(folder: Path, command: str, installed: bool) -> subprocess.CompletedProcess[str]:
    """A command line in `folder`, whose package is installed or only beside it."""
    path = [str(folder), str(ROOT), *([str(folder / "site")] if installed else [])]
    programs = f"{folder / 'bin'}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-euc", command],
        cwd=folder,
        env={**os.environ, "PATH": programs, "PYTHONPATH": ":".join(path)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc builds what the page emits")
@pytest.mark.parametrize("number", range(len(commands())))
def test_the_commands_of_the_page_do_what_it_says(folder: Path, number: int):
    command, said, installed = commands()[number]
    done = run(folder, command, installed)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr
    if said is not None:
        assert done.stdout == said


def test_an_op_that_carries_its_options_is_chosen_by_them(folder: Path):
    (op,) = [text for language, name, text in BLOCKS if language == "mlir" and not name]
    program = (folder / "net.mlir").read_text()
    conv = next(line for line in program.splitlines() if "%a = npu.conv" in line)
    op = op.replace("%y", "%a").replace("%x,", "%x0,").replace("%w)", "%v0)")
    (folder / "carried.mlir").write_text(program.replace(conv, op))
    done = run(folder, "layout-opt carried.mlir -p 'layout-optimize{target=npu}'", installed=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count('layout.chosen = "conv_blocks"') == 2


def test_negative_without_the_package_its_names_are_unknown(folder: Path):
    done = run(folder, "layout-ir optimize net.mlir --target npu", installed=False)
    assert done.returncode == 1
    assert "there is no dialect 'npu'" in done.stderr
    done = run(
        folder, "echo 'builtin.module {}' | layout-opt -p 'layout-optimize{target=npu}'", installed=False
    )
    assert done.returncode == 1
    assert "unknown target 'npu'" in done.stderr


@pytest.mark.parametrize("name", [name for name in files() if name.endswith(".py")])
def test_the_page_needs_no_private_name(name: str):
    tree = ast.parse(files()[name])
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = (
                [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            )
            for module in modules:
                if module.partition(".")[0] == "layout_ir":
                    assert module in ("layout_ir", "layout_ir.extend", "layout_ir.ir")
        if isinstance(node, ast.ImportFrom) and node.module in ("layout_ir.extend", "layout_ir.ir"):
            exported = __import__(node.module, fromlist=["__all__"]).__all__
            assert {alias.name for alias in node.names} <= set(exported)
        if isinstance(node, ast.Attribute):
            assert not node.attr.startswith("_") or node.attr == "__init__"
            if isinstance(node.value, ast.Name) and node.value.id == "extend":
                assert node.attr in layout_ir.extend.__all__
            if isinstance(node.value, ast.Name) and node.value.id == "li":
                assert node.attr in {*layout_ir.__all__, "print"}
