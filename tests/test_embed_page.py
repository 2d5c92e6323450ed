"""docs/embed.md: every block is executed, and prints what the page shows."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import shutil
import subprocess
import traceback
from pathlib import Path
from typing import Any

import pytest

from layout_ir.tools import layout_ir, layout_opt

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "embed.md").read_text(encoding="utf-8")
BLOCKS = [
    (m.group(1), m.group(2), TEXT.count("\n", 0, m.start()) + 2)
    for m in re.finditer(r"^```(\w*)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
]
TOOLS = {"layout-ir": layout_ir.main, "layout-opt": layout_opt.main}


def test_every_block_is_of_a_kind_that_is_executed():
    assert {kind for kind, _, _ in BLOCKS} == {"python", "text", "console"}
    assert [kind for kind, _, _ in BLOCKS].count("python") >= 8


def test_the_page_runs_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("llvmlite")
    if shutil.which("cc") is None:
        pytest.skip("no C compiler (cc)")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    names: dict[str, Any] = {}
    printed = ""
    for kind, body, line in BLOCKS:
        if kind == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                try:
                    exec(compile("\n" * (line - 1) + body, "embed.md", "exec"), names)
                except Exception:
                    pytest.fail(f"embed.md:{line}: {traceback.format_exc()}")
            printed = out.getvalue()
        elif kind == "text":
            assert printed == body, f"embed.md:{line}"
        else:
            for command in re.findall(r"^\$ (.+)$", body, re.MULTILINE):
                run(command)


def run(command: str) -> None:
    """Runs a command of the page: our tools in this process, others where they are installed."""
    name, *args = shlex.split(command)
    if name in TOOLS:
        assert TOOLS[name](args) == 0, command
        return
    tool = next((found for option in (name, f"{name}-22") if (found := shutil.which(option))), None)
    if tool is None:
        pytest.skip(f"no {name}: the rest of the page needs it")
    assert subprocess.run([tool, *args], check=False).returncode == 0, command


def test_the_first_block_is_short():
    assert BLOCKS[0][0] == "python" and len(BLOCKS[0][1].splitlines()) <= 14


def test_the_tutorial_is_what_a_reader_types_in_an_hour():
    tutorial = TEXT.partition("## A compiler in a second hour")[2].partition("\n## ")[0]
    code = re.findall(r"^```python\n(.*?)^```$", tutorial, re.MULTILINE | re.DOTALL)
    lines = [line for block in code for line in block.splitlines() if line.strip()]
    assert 40 <= len(lines) <= 100


def test_links_lead_somewhere():
    for link in re.findall(r"\]\(([^)#]+)\)", TEXT):
        assert (ROOT / "docs" / link).exists(), link
