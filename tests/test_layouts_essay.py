"""docs/layouts.md: every example on the page is executed, and every link leads somewhere."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import pytest

from layout_ir.tools.layout_ir import main

PAGE = Path(__file__).parents[1] / "docs" / "layouts.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = [
    (m.group(1), m.group(2), m.start()) for m in re.finditer(r"^```(\w*)\n(.*?)^```$", TEXT, re.M | re.S)
]


def line_of(offset: int) -> int:
    return TEXT.count("\n", 0, offset) + 1


def commands() -> list[tuple[str, str]]:
    """Commands of the console blocks with the output that the page shows for each."""
    found: list[tuple[str, str]] = []
    for kind, body, _ in BLOCKS:
        if kind == "console":
            for part in re.split(r"^\$ ", body, flags=re.M)[1:]:
                command, _, output = part.partition("\n")
                found.append((command, output))
    return found


def test_every_block_is_of_a_kind_that_is_executed():
    assert {kind for kind, _, _ in BLOCKS} == {"python", "console"}
    assert len(BLOCKS) >= 10


def test_the_python_examples_hold():
    """All in one session, as a reader would type them."""
    parts = ["\n"] * (TEXT.count("\n") + 1)
    for kind, body, start in BLOCKS:
        if kind == "python":
            for k, line in enumerate(body.splitlines()):
                parts[line_of(start) + k] = line + "\n"
    test = doctest.DocTestParser().get_doctest("".join(parts), {}, "layouts.md", str(PAGE), 0)
    assert len(test.examples) >= 30
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
    runner.run(test, out=report.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)


@pytest.mark.parametrize(("command", "expected"), commands(), ids=lambda text: text.split("\n")[0][:60])
def test_the_commands_print_what_the_page_shows(
    capsys: pytest.CaptureFixture[str], command: str, expected: str
):
    name, *args = shlex.split(command)
    assert name == "layout-ir"
    main(args)
    out, err = capsys.readouterr()
    pattern = re.escape(expected.rstrip("\n")).replace(re.escape("..."), ".*")
    assert re.fullmatch(pattern, (out + err).rstrip("\n"), re.S), out + err


def test_negative_a_wrong_output_is_noticed():
    ((command, expected), *_) = commands()
    assert command.startswith("layout-ir explain")
    assert not re.fullmatch(
        re.escape(expected).replace(re.escape("..."), ".*"), expected.replace("49", "48"), re.S
    )


def test_links_and_pictures_exist():
    targets = re.findall(r"\]\(([^)#]+)\)", TEXT)
    assert sum(target.endswith(".svg") for target in targets) >= 4
    for target in targets:
        assert (PAGE.parent / target).exists(), target


def test_the_table_agrees_with_the_layout():
    """The worked table, number by number."""
    import layout_ir as li

    rows = re.findall(r"^\| `([\w:]+)` \| (\d+)[^|]*\| (\d+)[^|]*\|[^|]*\| (\d+) · (\d+) \|$", TEXT, re.M)
    layout = li.Format.from_tag("nChw8c").bind((1, 10, 2, 2))
    assert [(int(size), int(stride)) for _, size, stride, _, _ in rows] == [
        (f.count, f.stride) for f in layout.factors
    ]
    assert all(stride == again for _, _, stride, _, again in rows)
    assert (
        sum(int(digit) * int(stride) for _, _, stride, digit, _ in rows) == layout.address((0, 9, 1, 0)) == 49
    )
