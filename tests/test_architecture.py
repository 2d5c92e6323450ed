"""docs/architecture.md names the rooms that there are, and the walks in it are the ways that imports lead."""

from __future__ import annotations

import ast
import re
from functools import cache
from importlib import import_module
from typing import TypeGuard

import pytest

from tests.source_files import FILES, PACKAGE, ROOT, imported

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
ROOM = re.compile(r"(?:layout_ir|passes|backends)/(?:[a-z_]+/)*(?=[\s`|]|$)", re.MULTILINE)

SUPPORT = {"layout_ir"}
"""Rooms that every walk passes: errors, diagnostics, files."""


MODULES = {name: path.relative_to(ROOT) for name, path in FILES.items()}
"""The file of every module, by import name, as the page writes it."""


def reached(module: str) -> set[str]:
    """The rooms of all modules that a module comes to by imports."""
    seen, rest = {module}, [module]
    while rest:
        new = imported(rest.pop()) - {PACKAGE} - seen
        seen |= new
        rest += new
    return {str(path.parent) for path in map(MODULES.__getitem__, seen) if path.name != "__init__.py"}


def section(heading: str) -> str:
    """The text of the page behind a heading, up to the next."""
    return PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]


def named(text: str) -> set[str]:
    """The rooms that a text names."""
    return {match.rstrip("/") for match in ROOM.findall(text)}


def test_every_room_is_named_and_every_name_is_a_room():
    assert named(PAGE) <= {str(path.parent) for path in MODULES.values()}
    rooms = {str(path.parent) for path in MODULES.values() if path.name != "__init__.py"}
    assert {room for room in rooms - named(PAGE) if not room.startswith("layout_ir/tools/")} == set()


def test_the_walk_of_optimize_is_where_its_imports_lead():
    walk = named(section("`optimize(module, target)`")) | {"passes"}
    assert walk == reached("layout_ir.passes.optimize_pipeline") - SUPPORT


def test_the_walk_of_compile_reorder_is_where_its_imports_lead():
    walk = named(section("`compile_reorder(source, destination)`")) - {"backends/llvm/aot"}
    assert walk == reached("layout_ir.api.reorder_compilation") - SUPPORT


def rooms_of_the_tree(heading: str) -> list[str]:
    """The rooms of a walk, as the first block of its section lists them: one a line."""
    block = re.findall(r"```\n(.*?)```", section(heading), re.DOTALL)[0]
    return [room for line in block.splitlines() for room in named(line + " ")]


@pytest.mark.parametrize("heading", ["`optimize(module, target)`", "`compile_reorder(source, destination)`"])
def test_a_walk_passes_every_room_once_and_its_picture_shows_imports(heading: str):
    walk = rooms_of_the_tree(heading)
    assert sorted(set(walk)) == sorted(walk)
    arrows = re.findall(r"^  (\S+) --> (\S+)$", section(heading), re.MULTILINE)
    assert {room for arrow in arrows for room in arrow} == set(walk)
    for source, destination in arrows:
        assert destination in imported_rooms(source), f"nothing in {source} imports from {destination}"


@cache
def imported_rooms(room: str) -> set[str]:
    """The rooms that the files of a room import from."""
    files = [module for module, path in MODULES.items() if str(path.parent) == room]
    return {str(MODULES[name].parent) for module in files for name in imported(module)}


PARALLEL = {"onnx", "onednn", "megengine"}
"""Names of systems: one file per kind of thing that is said of them."""

DIALECTS = "layout_ir/dialects/"
"""Folders that have the same parts: attributes, ops, types."""

COMMANDS = "layout_ir/tools/commands/"
"""Files are named after commands of the command line, whatever else has that name."""


def test_no_file_name_stands_twice():
    places: dict[str, set[str]] = {}
    for path in MODULES.values():
        folder = str(path.parent) + "/"
        if path.stem != "__init__" and path.stem not in PARALLEL and folder != COMMANDS:
            places.setdefault(path.stem, set()).add(DIALECTS if folder.startswith(DIALECTS) else folder)
    assert {stem: folders for stem, folders in places.items() if len(folders) > 1} == {}


def test_what_another_file_calls_has_a_docstring():
    used: dict[str, set[str]] = {}
    trees = {name: ast.parse((ROOT / path).read_text(encoding="utf-8")) for name, path in MODULES.items()}
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Name | ast.Attribute):
                used.setdefault(node.id if isinstance(node, ast.Name) else node.attr, set()).add(name)
    bare = [
        f"{MODULES[name]}:{node.lineno}: {node.name}"
        for name, tree in trees.items()
        for scope in [tree, *(node for node in tree.body if is_public_class(node))]
        for node in scope.body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
        if not ast.get_docstring(node) and used.get(node.name, set()) - {name}
        if not (isinstance(scope, ast.ClassDef) and is_said_elsewhere(name, scope.name, node))
    ]
    assert bare == []


def is_public_class(node: ast.stmt) -> TypeGuard[ast.ClassDef]:
    """Whether a statement defines a class that other files may use."""
    return isinstance(node, ast.ClassDef) and not node.name.startswith("_")


def is_said_elsewhere(module: str, owner: str, function: ast.FunctionDef) -> bool:
    """Whether a base class, or the getter of a setter, says what a method does; xDSL speaks for its own hooks."""
    if any(ast.unparse(decorator).endswith((".setter", "overload")) for decorator in function.decorator_list):
        return True
    bases: tuple[type[object], ...] = getattr(import_module(module), owner).__mro__[1:]
    return any(
        not base.__module__.startswith("layout_ir") or bool(vars(base)[function.name].__doc__)
        for base in bases
        if function.name in vars(base)
    )


def test_the_glossary_is_in_order_and_names_files_that_exist():
    text = (
        (ROOT / "CONTRIBUTING.md")
        .read_text(encoding="utf-8")
        .partition("## Words\n")[2]
        .partition("\n## ")[0]
    )
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")][1:]
    words = [row[0] for row in rows]
    assert words and words == sorted(words, key=str.lower)
    files = {f"/{path.with_suffix('')}" for path in MODULES.values()}
    folders = {f"/{path.parent}/" for path in MODULES.values()}
    for row in rows:
        for place in re.findall(r"`([^`]+)`", row[2] if len(row) > 2 else ""):
            assert any(known.endswith(f"/{place}") for known in files | folders), f"{row[0]}: {place}"


def test_files_that_the_page_names_exist():
    for name in re.findall(
        r"`((?:layout_ir|passes|backends|tests|filecheck|benchmarks)/[\w/]+(?:\.py|/))`", PAGE
    ):
        assert (ROOT / name).exists(), name
