"""A line of source, or an argument, with a caret below the place of an error."""

from __future__ import annotations

_SNIPPET = 120
"""Characters of a source line that are shown on each side of the caret at most: lines with constants are long."""


def snippet(line: str, low: int, high: int) -> str:
    """The part of `line` around the offsets `low` to `high`; below it a caret at `low` and tildes up to `high`."""
    shown = line[max(0, low - _SNIPPET) : low + _SNIPPET]
    at = low - max(0, low - _SNIPPET)
    # Tabs stay tabs, so that the caret is below its character whatever their width; a control character is replaced by
    # one of width 1.
    indent = "".join("\t" if character == "\t" else " " for character in shown[:at])
    text = "".join(c if c.isprintable() or c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in shown)
    return f"{text}\n{indent}^{'~' * (min(high, low + _SNIPPET) - low - 1)}"
