"""Pages of the site that are no files of docs/: the README, other files that pages link to, and the reference.

MkDocs calls the `on_...` functions. The reference is made from the code each time, so nothing of it is copied by hand:
`reference_pages` raises LookupError for a pass, op, attribute or public name of which the code says nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import io
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

LINKED = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "LICENSE")
"""Files at the top of the tree that pages link to, and that the site has too, as it has all of examples/."""

STYLE = ".md-grid { max-width: 80rem; }\n"
"""Code is up to 110 columns wide."""

MODULES = {
    "reference/api.md": "layout_ir",
    "reference/ir.md": "layout_ir.ir",
    "reference/extend.md": "layout_ir.extend",
    "reference/selection.md": "layout_ir.selection",
    "reference/testing.md": "layout_ir.testing",
    "reference/diagnostics.md": "layout_ir.diagnostics",
}
"""The pages of public modules: every name in `__all__` has an entry."""


# What MkDocs calls ---------------------------------------------------------------------------------------------------


def on_config(config: Any) -> Any:
    """Has examples in docstrings, which begin with >>>, shown as code."""
    from markdown import Extension, Markdown
    from markdown.preprocessors import Preprocessor

    class Examples(Preprocessor, Extension):
        def run(self, lines: list[str]) -> list[str]:
            found: list[str] = []
            inside = False
            for line in lines:
                starts = line.startswith(">>> ") and not inside
                inside = bool(line.strip()) and (inside or starts)
                found += [""] * starts + [f"    {line}" if inside else line]
            return found

        def extendMarkdown(self, md: Markdown) -> None:
            md.preprocessors.register(self, "examples", 24)  # behind fences (25), which are code already

    config["markdown_extensions"].append(Examples())
    return config


def on_files(files: Any, config: Any) -> Any:
    """Adds the first page, the reference and the linked files to those of docs/."""
    from mkdocs.structure.files import File

    for name, text in {
        "index.md": (ROOT / "README.md").read_text(encoding="utf-8"),
        **reference_pages(),
    }.items():
        files.append(File.generated(config, name, content=text))
    files.append(File.generated(config, "site.css", content=STYLE))
    examples = (
        path.relative_to(ROOT)
        for path in sorted((ROOT / "examples").rglob("*"))
        if path.is_file() and not {"__pycache__", "build"} & set(path.parts)
    )
    for path in (*map(Path, LINKED), *examples):
        files.append(File.generated(config, path.as_posix(), abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """The page with its links as the site has them: `docs/` and what is beside it lie in one folder there."""
    source = page.file.src_uri
    if source in ("index.md", *LINKED):
        markdown = re.sub(r"\]\(docs/", "](", markdown)
    elif "/" not in source:
        markdown = re.sub(r"\]\(\.\./", "](", markdown)
    folders = r"\]\((examples/[\w/]+)\)"  # of a folder, the first file that says what is in it
    return re.sub(
        folders, lambda found: f"]({_first_file(found[1])})" if _is_folder(found[1]) else found[0], markdown
    )


def _is_folder(name: str) -> bool:
    return (ROOT / name).is_dir()


def _first_file(folder: str) -> str:
    files = sorted(path for path in (ROOT / folder).iterdir() if path.is_file())
    return files[0].relative_to(ROOT).as_posix()


# The reference -------------------------------------------------------------------------------------------------------


def reference_pages() -> dict[str, str]:
    """The pages of the reference: Markdown by file name. Raises LookupError for what the code does not describe."""
    return {
        **{name: module_page(module) for name, module in MODULES.items()},
        "reference/passes.md": passes_page(),
        "reference/dialects.md": dialects_page(),
        "reference/commands.md": commands_page(),
        "reference/onnx_operators.md": onnx_operators_page(),
        "reference/element_types.md": element_types_page(),
    }


def _described(subject: object, name: str) -> str:
    text = inspect.cleandoc(subject.__doc__ or "")  # its own, not that of a base class
    if not text or (dataclasses.is_dataclass(subject) and text.startswith(f"{name.rpartition('.')[2]}(")):
        raise LookupError(f"{name} has no docstring, and so no entry in the reference")
    return _markdown(text)


def _markdown(docstring: str) -> str:
    """A docstring as Markdown: what is indented is code, `<` outside of code is no tag, pages are links."""
    lines: list[str] = []
    for paragraph in re.split(r"\n\s*\n", docstring):
        if all(line.startswith("    ") for line in paragraph.splitlines()):
            lines.append(paragraph)
        elif all("   " in line for line in paragraph.splitlines()):  # columns
            lines.append(textwrap.indent(paragraph, "    "))
        else:
            text = re.sub(r"(`[^`]*`)|[<*]", lambda m: m[1] or "\\" + m[0], paragraph)
            lines.append(re.sub(r"`?docs/(\w+\.md)`?", r"[\1](../\1)", text))
    return "\n\n".join(lines)


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [tuple(head)]
    lines += [("---",) * len(lines[0])]
    lines += [tuple(cell.replace("|", "\\|").replace("\n", " ") for cell in row) for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def module_page(module_name: str) -> str:
    """The page of a public module: what it says of itself, and each of its names."""
    module = import_module(module_name)
    parts = [f"# {module_name}\n\n{_markdown(inspect.getdoc(module) or '')}"]
    constants: list[tuple[str, str]] = []
    for name in sorted({*module.__all__, *(["compile", "print"] if module_name == "layout_ir" else [])}):
        value = getattr(module, name)
        if inspect.ismodule(value):
            page = next(
                (page for page, known in MODULES.items() if known == value.__name__), "reference/dialects.md"
            )
            parts.append(f"## {name}\n\nA module: see [{value.__name__}]({page.removeprefix('reference/')}).")
        elif inspect.isclass(value) or inspect.isfunction(value):
            _described(value, f"{module_name}.{name}")
            parts.append(f"::: {value.__module__}.{value.__name__}")
        else:
            constants.append((f"`{name}`", f"`{value!r}`" if isinstance(value, str | int) else _kind(value)))
    if constants:
        parts.append(f"## Constants and types\n\n{_table(('name', 'is'), constants)}")
    return "\n\n".join(parts) + "\n"


def _kind(value: object) -> str:
    text = str(value)
    return f"`{text}`" if " at 0x" not in text else f"of type `{type(value).__name__}`"


def passes_page() -> str:
    """Every pass that `layout-opt` and other tools of xDSL have of this package, with its options."""
    from layout_ir.registry import PASSES, SUMMARIES

    rows: list[tuple[str, str]] = []
    entries: list[str] = []
    for name, load in PASSES.items():
        if name not in SUMMARIES:
            raise LookupError(
                f"{name} has no summary in layout_ir/registry.py, and so no entry in the reference"
            )
        rows.append((f"[`{name}`](#{name})", _markdown(SUMMARIES[name])))
        pass_class = load()
        module = _described(sys.modules[pass_class.__module__], name)
        entries.append(f"## {name}\n\n{_capital(module.removeprefix(f'{name}: '))}")
        if options := [field for field in dataclasses.fields(pass_class) if field.name != "name"]:
            names = {option.name for option in options}
            # Options that several passes share are described by the class that declares them.
            declared = [c for c in pass_class.__mro__ if names & set(vars(c).get("__annotations__", {}))]
            table = [(f"`{o.name}`", f"`{_type(o.type)}`", f"`{_default(o.default)}`") for o in options]
            entries.append(_table(("option", "type", "default"), table))
            entries += [_described(c, f"{name}, as {c.__name__},") for c in declared]
    return (
        "# Passes\n\n`layout-opt program.mlir -p 'layout-open,layout-optimize{target=avx2}'` runs passes in order. "
        "The stock `xdsl-opt` has them as well. An option that is left out has its default.\n\n"
        + "\n\n".join([_table(("pass", "does"), rows), *entries])
        + "\n"
    )


def _type(kind: object) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _default(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def dialects_page() -> str:
    """Every op and attribute of the dialects, with its operands, results and properties."""
    from layout_ir.registry import DIALECTS

    parts = ["# Dialects\n\nWhere a name stands in brackets, it may be left out; `...` is any number."]
    for name, load in DIALECTS.items():
        dialect = load()
        parts.append(f"## {name}")
        for attribute in sorted(dialect.attributes, key=lambda a: a.name):
            parts.append(f"### #{attribute.name}\n\n{_described(attribute, attribute.name)}")
        for op in sorted(dialect.operations, key=lambda o: o.name):
            definition = op.get_irdl_definition()
            rows = [
                (what, ", ".join(f"`{_optional(n, d)}`" for n, d in entries))
                for what, entries in (
                    ("operands", definition.operands),
                    ("results", definition.results),
                    ("regions", definition.regions),
                    ("properties", definition.properties.items()),
                )
                if entries
            ]
            parts.append(f"### {op.name}\n\n{_described(op, op.name)}\n\n{_table(('', ''), rows)}")
    return "\n\n".join(parts) + "\n"


def _optional(name: str, definition: object) -> str:
    kind = type(definition).__name__
    return f"[{name}]" if kind.startswith("Opt") else f"{name}..." if kind.startswith("Var") else name


def commands_page() -> str:
    """The help texts of the commands."""
    from layout_ir.tools import layout_ir, layout_opt
    from layout_ir.tools.commands import COMMANDS

    parts = [f"# Commands\n\n## layout-opt\n\n{_help(layout_opt.main)}"]
    for command in (name.replace("_", "-") for name in COMMANDS):
        parts.append(f"## layout-ir {command}\n\n{_help(layout_ir.main, command)}")
    return "\n\n".join(parts) + "\n"


def _help(main: Callable[[list[str]], int], *args: str) -> str:
    printed = io.StringIO()
    environment = mock.patch.dict(os.environ, {"COLUMNS": "100", "NO_COLOR": "1"})
    with environment, contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        main([*args, "--help"])
    return f"```text\n{printed.getvalue().rstrip()}\n```"


def onnx_operators_page() -> str:
    """The operators of ONNX: what reads them, writes them, and runs them in other orders of dims."""
    from layout_ir.exits.onnx.node_forms import FORMS
    from layout_ir.frontends.onnx.importer import TRANSLATIONS
    from layout_ir.passes.onnx.node_models.all_models import MODELS
    from layout_ir.passes.onnx.node_models.blocked_models import with_blocks

    blocked = with_blocks({}, 8)
    written: set[str] = set()
    for form in FORMS.values():
        while form is not None:
            written.add(form.op_type)
            form = form.otherwise

    def mark(yes: bool) -> str:
        return "yes" if yes else ""

    rows = [
        (
            f"`{name}`",
            mark(name in TRANSLATIONS),
            mark(name in written),
            mark(name in MODELS),
            mark(name in blocked),
        )
        for name in sorted({*TRANSLATIONS, *written, *MODELS, *blocked})
    ]
    head = (
        "operator",
        "becomes ops (`from_onnx`)",
        "stands for an op (`to_onnx`)",
        "runs in other orders (`optimize_onnx`)",
        "runs in blocks",
    )
    return (
        "# ONNX operators\n\n"
        "`li.from_onnx` reads any operator. One that is not listed, or is used in a way that has no translation, "
        "stays an opaque op: row-major on every side, kept as it came, and written as it came by `li.to_onnx`, "
        "which has forms of several nodes and of several ops besides. `li.optimize_onnx` leaves nodes that are not "
        "listed on the order of dims of the model. The last column is the target `ort-cpu-blocked`. Operators of "
        "another domain than the standard's have it in front.\n\n" + _table(head, rows) + "\n"
    )


def element_types_page() -> str:
    """The table of element types."""
    from layout_ir.elements.element_types import ELEMENT_TYPES

    rows = [
        (
            f"`{t.name}`", ", ".join(f"`{name}`" for name in t.spellings[1:]), str(t.bits), t.kind,
            f"`{t.storage}`",
        )
        for t in ELEMENT_TYPES
    ]  # fmt: skip
    head = ("type", "is read as well as", "bits in memory", "kind", "NumPy arrays of")
    return (
        "# Element types\n\n"
        "The names are those of MLIR. Elements of 4 bits share a byte. Where NumPy has no such type, arrays hold its "
        "bits.\n\n" + _table(head, rows) + "\n"
    )
