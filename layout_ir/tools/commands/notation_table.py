"""One layout in every notation: what each writes for it, or why it cannot."""

from __future__ import annotations

from dataclasses import dataclass

from layout_ir.algebra.format import Format
from layout_ir.errors import LayoutError
from layout_ir.notations import NOTATIONS, Subject


@dataclass(frozen=True, slots=True)
class Entry:
    """The `text` of a layout in `notation`; where there is none, None and the `reason`."""

    notation: str
    text: str | None
    reason: str = ""


def notation_table(subject: Subject, dtype: str | None, indexed: Subject | None = None) -> list[Entry]:
    """`subject` in every notation, in the order of `NOTATIONS`.

    `indexed` is the same layout with its dims in the order of the array's indices, for notations that count dims
    instead of naming them.
    """
    result: list[Entry] = []
    for name, notation in NOTATIONS.items():
        asked = subject if indexed is None or not notation.by_index else indexed
        try:
            result.append(Entry(name, notation.print(asked, dtype)))
        except LayoutError as error:
            if isinstance(asked, Format) and notation.needs_shape:
                result.append(Entry(name, None, "its numbers depend on the shape: give one"))
            else:
                # The table already names the notation and the layout.
                reason = str(error).removeprefix(f"{name} cannot say {asked}: ")
                result.append(Entry(name, None, reason))
    return result


def table_lines(table: list[Entry]) -> list[str]:
    """The table as lines of text: first the notations that have a text, then, under "not in", the reasons."""
    width = max((len(entry.notation) for entry in table), default=0)
    lines = [f"{entry.notation:{width}}  {entry.text}" for entry in table if entry.text is not None]
    refused = [f"{entry.notation:{width}}  {entry.reason}" for entry in table if entry.text is None]
    return lines + (["", "not in", *refused] if refused else [])
