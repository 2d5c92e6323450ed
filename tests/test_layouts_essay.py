"""docs/layouts.md: the worked table agrees with the layout. That its code runs, tests/test_pages.py sees."""

from __future__ import annotations

import re
from pathlib import Path

import layout_ir as li

TEXT = (Path(__file__).parents[1] / "docs" / "layouts.md").read_text(encoding="utf-8")


def test_the_table_agrees_with_the_layout():
    """The worked table, number by number."""
    rows = re.findall(r"^\| `([\w:]+)` \| (\d+)[^|]*\| (\d+)[^|]*\|[^|]*\| (\d+) · (\d+) \|$", TEXT, re.M)
    layout = li.Format.from_tag("nChw8c").bind((1, 10, 2, 2))
    assert [(int(size), int(stride)) for _, size, stride, _, _ in rows] == [
        (f.count, f.stride) for f in layout.factors
    ]
    assert all(stride == again for _, _, stride, _, again in rows)
    assert (
        sum(int(digit) * int(stride) for _, _, stride, digit, _ in rows) == layout.address((0, 9, 1, 0)) == 49
    )
