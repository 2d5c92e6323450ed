"""docs/selection.md: every block of Python on the page runs and prints what stands behind it; links lead somewhere."""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "selection.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", TEXT, re.M | re.S)


def test_the_blocks_print_what_the_page_shows():
    """All in one session, as a reader would run them."""
    session: dict[str, Any] = {}
    pairs = [pair for pair in pairwise(BLOCKS) if pair[0][0] == "python"]
    assert len(pairs) >= 4 and {following for _, (following, _) in pairs} == {"text"}
    for (_, code), (_, shown) in pairs:
        printed = StringIO()
        with redirect_stdout(printed):
            exec(compile(code, str(PAGE), "exec"), session)
        assert printed.getvalue() == shown


def test_the_first_problem_takes_twenty_lines():
    first = BLOCKS[0][1]
    assert len([line for line in first.splitlines() if line.strip()]) <= 20


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#]+)\)", TEXT))
def test_links_lead_somewhere(target: str):
    assert (PAGE.parent / target).exists()


def test_the_page_uses_public_names_only():
    import layout_ir.selection as selection

    for names in re.findall(r"from layout_ir\.selection import (.+)", TEXT):
        assert set(names.split(", ")) <= set(selection.__all__)
