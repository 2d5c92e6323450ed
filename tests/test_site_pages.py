"""The reference of the site: everything that is public has an entry, made from the code; every page is found."""

from __future__ import annotations

import importlib.util
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from layout_ir.registry import DIALECTS, PASSES, SUMMARIES
from layout_ir.tools.commands import COMMANDS

pytest.importorskip("onnx")
pytest.importorskip("lit")

ROOT = Path(__file__).parents[1]


def load_generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_pages", ROOT / "docs" / "site" / "site_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SITE = load_generator()
PAGES: dict[str, str] = SITE.reference_pages()
MODULES: dict[str, str] = SITE.MODULES


def headings(page: str) -> set[str]:
    return set(re.findall(r"^##+ (\S.*)$", PAGES[page], re.MULTILINE))


def test_every_pass_has_an_entry_with_its_options():
    assert headings("reference/passes.md") >= set(PASSES)
    assert "| `time_limit` | `float \\| int \\| None` | `None` |" in PAGES["reference/passes.md"]


def test_every_op_and_attribute_has_an_entry():
    found = headings("reference/dialects.md")
    for load in DIALECTS.values():
        dialect = load()
        assert found >= {op.name for op in dialect.operations}
        assert found >= {f"#{attribute.name}" for attribute in dialect.attributes}
    conv = PAGES["reference/dialects.md"].partition("### nn.conv\n")[2].partition("\n### ")[0]
    assert "`x`, `w`, `[b]`" in conv
    assert "`[strides]`" in conv


@pytest.mark.parametrize("page", MODULES)
def test_every_public_name_has_an_entry(page: str):
    module = import_module(MODULES[page])
    entries = set(re.findall(r"^::: \S*?(\w+)$|^## (\w+)$|^\| `(\w+)` \|", PAGES[page], re.MULTILINE))
    own = {"compile", "print"} if module is import_module("layout_ir") else set[str]()
    assert {name for names in entries for name in names} >= {*module.__all__, *own}


def test_every_command_has_an_entry():
    wanted = {"layout-opt", *(f"layout-ir {name.replace('_', '-')}" for name in COMMANDS)}
    assert headings("reference/commands.md") == wanted
    assert "--dtype TYPE" in PAGES["reference/commands.md"]


def test_operators_and_element_types_are_those_of_the_code():
    operators, types = PAGES["reference/onnx_operators.md"], PAGES["reference/element_types.md"]
    assert "| `Conv` | yes | yes | yes | yes |" in operators
    assert "| `Acos` |  |  | yes | yes |" in operators
    assert re.search(r"^\| `ui4` \| `uint4`, `u4` \| 4 \|", types, re.MULTILINE)


def test_every_page_is_in_the_navigation():
    text = (ROOT / "docs" / "site" / "mkdocs.yml").read_text(encoding="utf-8")
    listed = set(re.findall(r"^ +- .*: (\S+\.md)$", text, re.MULTILINE))
    assert listed == {"index.md", *PAGES, *(path.name for path in (ROOT / "docs").glob("*.md"))}


def test_negative_what_says_nothing_has_no_entry(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(SUMMARIES, "layout-strip")
    with pytest.raises(LookupError, match="layout-strip has no summary"):
        SITE.passes_page()
    monkeypatch.setattr(DIALECTS["nn"]().operations.__iter__().__next__(), "__doc__", None)
    with pytest.raises(LookupError, match=r"nn\.\w+ has no docstring"):
        SITE.dialects_page()
    from layout_ir import extend

    monkeypatch.setattr(extend.register_op, "__doc__", None)
    with pytest.raises(LookupError, match="register_op has no docstring"):
        SITE.module_page("layout_ir.extend")
