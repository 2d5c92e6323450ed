"""The modules of this package as files, and what each of them imports."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = "layout_ir"


def _module_files() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for top in (PACKAGE, "passes", "backends"):
        for folder, _, names in os.walk(ROOT / top):  # which does not follow links
            for name in names:
                parts = (Path(folder) / name).relative_to(ROOT).with_suffix("").parts
                parts = parts if top == PACKAGE else (PACKAGE, *parts)
                if name.endswith(".py"):
                    found[".".join(parts).removesuffix(".__init__")] = Path(folder) / name
    return found


FILES = _module_files()
"""Name of every module -> its file; `passes` and `backends` are found where they really are."""


def imports(tree: ast.AST) -> Iterator[str]:
    """The modules of this package that are imported anywhere in `tree`: in functions and for types as well."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == PACKAGE)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name the whole path"
            module = node.module or ""
            if module.split(".")[0] == PACKAGE:
                for alias in node.names:
                    name = f"{module}.{alias.name}"
                    yield name if name in FILES else module


@cache
def imported(module: str) -> frozenset[str]:
    """The modules that a module imports. Its file is read when a test asks, not where one is collected."""
    tree = ast.parse(FILES[module].read_text(encoding="utf-8"))
    return frozenset(imports(tree)) - {module}
