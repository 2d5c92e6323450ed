"""docs/architecture.md names the rooms that there are, and the walks in it are the ways that imports lead."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
ROOM = re.compile(r"(?:layout_ir|passes|backends)/(?:[a-z_]+/)*(?=[\s`|]|$)", re.MULTILINE)

SUPPORT = {"layout_ir"}
"""Rooms that every walk passes: errors, diagnostics, files."""


@cache
def modules() -> dict[str, Path]:
    """The file of every module, by import name."""
    found: dict[str, Path] = {}
    for top in ("layout_ir", "passes", "backends"):
        for folder in (ROOT / top).rglob("*.py"):
            path = folder.relative_to(ROOT)
            if path.parts[:2] in (("layout_ir", "passes"), ("layout_ir", "backends")):
                continue  # the links
            parts = path.with_suffix("").parts
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            found[".".join(parts if top == "layout_ir" else ("layout_ir", *parts))] = path
    return found


@cache
def imported(module: str) -> set[str]:
    """The modules that a module imports, inside functions too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / modules()[module]).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {name if name in modules() else node.module for name in names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name in modules() and name != "layout_ir"}


def reached(module: str) -> set[str]:
    """The rooms of all modules that a module comes to by imports."""
    seen, rest = {module}, [module]
    while rest:
        new = imported(rest.pop()) - seen
        seen |= new
        rest += new
    return {str(path.parent) for path in map(modules().__getitem__, seen) if path.name != "__init__.py"}


def section(heading: str) -> str:
    """The text of the page behind a heading, up to the next."""
    return PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]


def named(text: str) -> set[str]:
    """The rooms that a text names."""
    return {match.rstrip("/") for match in ROOM.findall(text)}


def test_every_room_is_named_and_every_name_is_a_room():
    assert named(PAGE) <= {str(path.parent) for path in modules().values()}
    rooms = {str(path.parent) for path in modules().values() if path.name != "__init__.py"}
    assert {room for room in rooms - named(PAGE) if not room.startswith("layout_ir/tools/")} == set()


def test_the_walk_of_optimize_is_where_its_imports_lead():
    walk = named(section("`optimize(module, target)`")) | {"passes"}
    assert walk == reached("layout_ir.passes.optimize_pipeline") - SUPPORT


def test_the_walk_of_compile_reorder_is_where_its_imports_lead():
    walk = named(section("`compile_reorder(source, destination)`")) - {"backends/llvm/aot"}
    assert walk == reached("layout_ir.api.reordering") - SUPPORT


def test_files_that_the_page_names_exist():
    for name in re.findall(
        r"`((?:layout_ir|passes|backends|tests|filecheck|benchmarks)/[\w/]+(?:\.py|/))`", PAGE
    ):
        assert (ROOT / name).exists(), name
