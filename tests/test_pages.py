"""Pages of documentation: every block of code runs, every link leads somewhere, every name they use is public."""

from __future__ import annotations

import ast
import re
import shutil
from importlib import import_module
from pathlib import Path

import pytest

from tests.page_reader import ROOT, Block, PageReader, blocks_of, matches

PAGES = sorted(
    path.relative_to(ROOT).as_posix() for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))
)
TEXTS = {name: (ROOT / name).read_text(encoding="utf-8") for name in PAGES}
PUBLIC_MODULES = {
    f"layout_ir{name}" for name in ("", ".diagnostics", ".extend", ".ir", ".selection", ".testing")
}
"""The modules that docs/stability.md names."""
LONG = re.compile(r"tests\.examples\.beam")
"""Commands that take a minute."""
THIS = re.compile(r"pytest -q -n")
"""The command that runs these tests, among others; `.ci/run` takes it from the page."""
WALKS = ("docs/architecture.md",)
"""Pages of which tests/test_architecture.py follows the bare blocks and the diagrams."""


@pytest.fixture
def reader(tmp_path: Path) -> PageReader:
    return PageReader("page.md", tmp_path)


def model_file(path: Path) -> None:
    """A model of two convolutions in NHWC, each between Transposes."""
    onnx = pytest.importorskip("onnx")
    import numpy as np

    helper, rng = onnx.helper, np.random.default_rng(0)
    weights = [
        onnx.numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
        for name, shape in (("v", (16, 3, 3, 3)), ("w", (8, 16, 3, 3)))
    ]
    nodes = [
        helper.make_node("Transpose", ["data"], ["a"], perm=[0, 3, 1, 2]),
        helper.make_node("Conv", ["a", "v"], ["b"]),
        helper.make_node("Transpose", ["b"], ["c"], perm=[0, 2, 3, 1]),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("Transpose", ["d"], ["e"], perm=[0, 3, 1, 2]),
        helper.make_node("Conv", ["e", "w"], ["f"]),
        helper.make_node("Transpose", ["f"], ["y"], perm=[0, 2, 3, 1]),
    ]
    float32 = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("data", float32, (1, 20, 24, 3))],
        [helper.make_tensor_value_info("y", float32, (1, 16, 20, 8))],
        weights,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name == "README.md" else name for name in PAGES]
)
def test_the_page_runs_from_top_to_bottom(name: str, tmp_path: Path):
    blocks = [
        block
        for block in blocks_of(TEXTS[name])
        if not LONG.search(block.text) and not THIS.search(block.text)
    ]
    if not blocks:
        return
    pytest.importorskip("llvmlite")
    if '"gcc"' in TEXTS[name] and shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    if "model.onnx" in TEXTS[name]:
        model_file(tmp_path / "model.onnx")
    page = PageReader(name, tmp_path)
    for block in blocks:
        if not (name in WALKS and block.language in ("", "mermaid")):
            page.follow(block)


@pytest.mark.deep
@pytest.mark.parametrize("name", [name for name in PAGES if LONG.search(TEXTS[name])])
def test_commands_that_take_long_print_what_the_page_shows(name: str, tmp_path: Path):
    for block in blocks_of(TEXTS[name]):
        if LONG.search(block.text):
            PageReader(name, tmp_path).follow(block)


@pytest.mark.parametrize("name", PAGES)
def test_code_stands_in_fences(name: str):
    outside = re.sub(r"^```.*?^```$", "", TEXTS[name], flags=re.MULTILINE | re.DOTALL)
    assert not re.search(r"\n\n    \S", outside), "an indented block is run by nobody"
    assert "```" not in outside


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str):
    for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", TEXTS[name]):
        assert re.match(r"https?://", link) or ((ROOT / name).parent / link).exists(), link


@pytest.mark.parametrize("name", PAGES)
def test_pages_need_no_private_name(name: str):
    for block in blocks_of(TEXTS[name]):
        if block.language != "python":
            continue
        text = block.text
        if ">>> " in text:
            text = "\n".join(line[4:] for line in text.splitlines() if line.startswith((">>> ", "... ")))
        place = f"{name}:{block.line}"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    assert not alias.name.startswith("layout_ir.") or alias.name in PUBLIC_MODULES, place
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "layout_ir":
                assert node.module in PUBLIC_MODULES, place
                exported = import_module(node.module).__all__
                assert {alias.name for alias in node.names} <= set(exported), place
            if isinstance(node, ast.Attribute):
                assert not node.attr.startswith("_") or node.attr.endswith("__"), place
                if isinstance(node.value, ast.Name) and node.value.id in ("li", "extend"):
                    module = import_module({"li": "layout_ir"}.get(node.value.id, "layout_ir.extend"))
                    assert node.attr in {*module.__all__, "print", "compile", "__version__"}, place


# The reader itself ---------------------------------------------------------------------------------------------------


def follow(reader: PageReader, page: str) -> None:
    for block in blocks_of(page):
        reader.follow(block)


def test_a_page_that_says_what_happens_passes(reader: PageReader):
    follow(
        reader,
        '```python title="a.py"\nx = 1\n```\n```python title="a.py"\nprint(x + 1, "...")\n```\n'
        "```sh\npython a.py\n```\n```text\n2 ...\n```\n"
        "```console\n$ layout-ir convert nChw8c --to tvm\nNCHW8c\n```\n"
        "```python\ny = 3\n```\n```python\n>>> y\n3\n```\n",
    )


@pytest.mark.parametrize(
    "page",
    [
        "```python\nprint(1)\n```\n```text\n2\n```",
        "```text\nnothing ran\n```",
        "```python\n1 / 0\n```",
        "```python\n>>> 1 + 1\n3\n```",
        "```console\n$ layout-ir convert nChw8c --to tvm\nNCHW16c\n```",
        "```sh\nlayout-ir convert nChw8c --to nobody\n```",
        "```sh\nfalse | true\n```",
        "```mlir\nfunc.func @f( {\n```",
        "```json\n{,}\n```",
        "```fortran\nPRINT 1\n```",
    ],
)
def test_negative_a_page_that_is_wrong_fails(reader: PageReader, page: str):
    with pytest.raises((AssertionError, pytest.fail.Exception, ValueError)):
        follow(reader, page)


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a\n", "a", True),
        ("a ... c", "a b\n c", True),
        ("a", "a b", False),
        ("49", "48", False),
        (".", "x", False),
    ],
)
def test_what_is_shown_is_what_is_printed(shown: str, printed: str, same: bool):
    assert matches(shown, printed) is same


# What single pages promise -------------------------------------------------------------------------------------------


def lines_of(text: str) -> int:
    return len([line for line in text.splitlines() if line.strip()])


def test_what_begins_a_page_is_short():
    embed, selection = blocks_of(TEXTS["docs/embed.md"]), blocks_of(TEXTS["docs/selection.md"])
    assert lines_of(embed[0].text) <= 14
    assert lines_of(selection[0].text) <= 20
    readme = TEXTS["README.md"].partition("## Embed it")[2]
    assert lines_of(blocks_of(readme)[0].text) <= 10
    assert "## On the command line" in readme


def test_the_tutorial_is_what_a_reader_types_in_an_hour():
    tutorial = TEXTS["docs/embed.md"].partition("## A compiler in five steps")[2].partition("\n## ")[0]
    code = [block.text for block in blocks_of(tutorial) if block.language == "python"]
    assert 40 <= sum(map(lines_of, code)) <= 100


def test_what_is_shown_of_the_example_stands_in_it():
    example = ROOT / "examples" / "third_party_text_tests"
    shown = [block for block in blocks_of(TEXTS["docs/text_tests.md"]) if (example / block.title).is_file()]
    assert len(shown) == 2
    for block in shown:
        assert set(block.text.split("\n")) <= set((example / block.title).read_text().split("\n")), (
            block.title
        )


def test_names_of_the_modules_that_have_a_page_are_on_it():
    for module, page in (("layout_ir.testing", "docs/text_tests.md"), ("layout_ir", "docs/stability.md")):
        for name in import_module(module).__all__ if module != "layout_ir" else PUBLIC_MODULES:
            assert name in TEXTS[page], name


def test_negative_without_its_package_a_dialect_is_unknown(reader: PageReader):
    for block in blocks_of(TEXTS["docs/extend.md"]):
        if block.title == "net.mlir":
            reader.follow(block)
    unknown = "net.mlir:...error: ...there is no dialect 'npu'..."
    follow(reader, f"```console\n$ layout-ir optimize net.mlir --target npu\n{unknown}\n```")
    follow(
        reader,
        "```console\n$ echo 'builtin.module {}' | layout-opt -p 'layout-optimize{target=npu}'\n"
        "...error: ...unknown target 'npu'...\n```",
    )


def test_testing_needs_neither_lit_nor_hypothesis_until_it_is_used(reader: PageReader):
    reader.follow(
        Block(
            "console",
            "",
            '$ python -c "import sys, layout_ir.testing as t; t.assert_same_program; '
            "print({'lit', 'hypothesis'} & set(sys.modules))\"\nset()\n",
            1,
        )
    )
