"""Follows a page of documentation as its reader does: from top to bottom, in one folder, in one session of Python.

    python          runs in the session; with >>>, each example shows what it should
    text            is what the block before it printed; ... stands for anything
    console         commands behind $, each with what it prints, if that is shown; one that fails begins with its error
    sh              commands
    mlir            a program that parses
    json            a value that parses
    title="FILE"    any of these is written to that file instead; blocks of one title follow each other in it

The folder has `examples/`, and a `model.onnx` for commands on a model of one's own. Once the page writes a
pyproject.toml, what that names as entry points is installed, and so is this package.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import traceback
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import layout_ir as li

ROOT = Path(__file__).parents[1]
PROGRAMS = {
    "python": "",
    "pytest": "-m pytest -p no:cacheprovider",
    "lit": '-c "from lit.main import main; main()"',
    "layout-ir": "-m layout_ir.tools.layout_ir",
    "layout-opt": "-m layout_ir.tools.layout_opt",
    "xdsl-opt": "-m xdsl.tools.xdsl_opt",
}
"""The programs of an environment in which this package is installed, by the arguments of Python that run them."""
NEEDED = ("cc", "gcc", "mlir-opt", "mlir-opt-22", "mlir-runner")
"""Programs that a machine may not have: a page that runs them is read up to there."""
SET_UP = re.compile(r"python3 -m venv \.venv && \.venv/bin/pip install -q -e '[^']+' && ")
"""The beginning of a command that sets up an environment of its own: what comes behind it is run in this one."""


class Block(NamedTuple):
    """A fenced block of code."""

    language: str
    title: str
    text: str
    line: int
    """That of its first line of code in the page, from 1."""


def blocks_of(page: str) -> list[Block]:
    """The fenced blocks of a text in Markdown, in order."""
    fence = re.compile(r'^```(\w*)(?: title="(.*?)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
    return [Block(m[1], m[2] or "", m[3], page.count("\n", 0, m.start()) + 2) for m in fence.finditer(page)]


class PageReader:
    """A reader of one page, in an empty folder."""

    def __init__(self, name: str, folder: Path):
        self.name = name
        self.folder = folder
        self.printed: str | None = None
        """What the last block printed; None before anything ran."""
        self.written: set[str] = set()
        self._session: dict[str, Any] = {}
        (folder / "examples").symlink_to(ROOT / "examples")
        (folder / "bin").mkdir()
        (folder / "site").mkdir()
        for program, arguments in PROGRAMS.items():
            path = folder / "bin" / program
            path.write_text(f"#!/bin/sh\nexec '{sys.executable}' {arguments} \"$@\"\n")
            path.chmod(0o755)
        for program in ("mlir-opt", "mlir-runner"):
            if shutil.which(program) is None and (found := shutil.which(f"{program}-22")):
                (folder / "bin" / program).symlink_to(found)

    def follow(self, block: Block) -> None:
        """Does what the block says. Fails, naming its line, where that does not work or prints something else."""
        place = f"{self.name}:{block.line}"
        if block.title:
            self._write(block)
        elif block.language == "python" and ">>> " in block.text:
            self._run_examples(block)
        elif block.language == "python":
            self._run_python(block, place)
        elif block.language == "text":
            assert self.printed is not None, f"{place}: nothing was printed before"
            assert matches(block.text, self.printed), f"{place}: {self.printed}"
        elif block.language == "console":
            for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
                command, _, shown = part.partition("\n")
                self.printed = self._run_commands(command, place, fails="error:" in shown.partition("\n")[0])
                assert not shown or matches(shown, self.printed), f"{place}: {command}\n{self.printed}"
        elif block.language == "sh":
            self.printed = self._run_commands(block.text, place)
        elif block.language == "mlir":
            li.parse(block.text, allow_unregistered=True)
        elif block.language == "json":
            json.loads(block.text)
        else:
            pytest.fail(f"{place}: a block of language '{block.language}' is not run by anything")

    def _write(self, block: Block) -> None:
        path = self.folder / block.title
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_text() + "\n\n" if block.title in self.written else ""
        path.write_text(before + block.text)
        self.written.add(block.title)
        if block.title == "pyproject.toml":
            for project in (path, ROOT / "pyproject.toml"):
                self._install(tomllib.loads(project.read_text())["project"])

    def _install(self, project: dict[str, Any]) -> None:
        """What an installation adds to an environment, for those who look for entry points in it."""
        version = project.get("version", li.__version__)
        metadata = self.folder / "site" / f"{project['name'].replace('-', '_')}-{version}.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {version}\n"
        )
        lines: list[str] = []
        for group, entries in project["entry-points"].items():
            lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
        (metadata / "entry_points.txt").write_text("\n".join(lines))

    def _run_examples(self, block: Block) -> None:
        test = doctest.DocTestParser().get_doctest(
            block.text, self._session, self.name, self.name, block.line - 1
        )
        report: list[str] = []
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
        runner.run(test, out=report.append, clear_globs=False)
        self._session.update(test.globs)
        assert runner.summarize(verbose=False).failed == 0, "".join(report)

    def _run_python(self, block: Block, place: str) -> None:
        code = compile("\n" * (block.line - 1) + block.text, self.name, "exec")
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.chdir(self.folder):
            try:
                exec(code, self._session)
            except Exception:
                pytest.fail(f"{place}: {traceback.format_exc()}")
        self.printed = out.getvalue()

    def _run_commands(self, commands: str, place: str, *, fails: bool = False) -> str:
        """What the commands print, errors too, in the folder and the environment of the page."""
        commands = SET_UP.sub("", commands).replace(".venv/bin/", "")
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        for program in NEEDED:
            if re.search(rf"(^|\| ){program}\b(?!-)", commands, re.MULTILINE) and not shutil.which(
                program, path=path
            ):
                pytest.skip(f"no {program}: the rest of {self.name} needs it")
        paths = [self.folder, ROOT, self.folder / "site"]
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            cwd=self.folder,
            env={**os.environ, "PATH": path, "PYTHONPATH": ":".join(map(str, paths)), "COLUMNS": "80"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert (done.returncode != 0) == fails, f"{place}: {commands}\n{done.stdout[-2000:]}"
        assert "warning:" not in done.stdout, f"{place}: {commands}\n{done.stdout[-2000:]}"
        return done.stdout


def matches(shown: str, printed: str) -> bool:
    """Whether a page may show `shown` where `printed` was printed; ... stands for anything."""
    pattern = re.escape(shown.rstrip("\n")).replace(re.escape("..."), ".*")
    return re.fullmatch(pattern, printed.rstrip("\n"), re.DOTALL) is not None
