"""One layout in every notation: what each says, or why it cannot."""

from __future__ import annotations

from dataclasses import dataclass

from layout_ir.algebra.format import Format
from layout_ir.errors import LayoutError
from layout_ir.notations import NOTATIONS, Subject


@dataclass(frozen=True, slots=True)
class Saying:
    """The `text` of a layout in `notation`, or None and the `reason`."""

    notation: str
    text: str | None
    reason: str = ""


def say_all(subject: Subject, dtype: str | None, indexed: Subject | None = None) -> list[Saying]:
    """`subject` in every notation, in the order of the registry.

    `indexed` is the same with its dims in the order of the array's indices, for notations that speak of those.
    """
    result: list[Saying] = []
    named = subject
    for name, notation in NOTATIONS.items():
        subject = named if indexed is None or not notation.by_index else indexed
        try:
            result.append(Saying(name, notation.print(subject, dtype)))
        except LayoutError as error:
            if isinstance(subject, Format) and notation.needs_shape:
                result.append(Saying(name, None, "its numbers depend on the shape: give one"))
            else:
                # The reader knows what cannot be said, and in which notation.
                reason = str(error).removeprefix(f"{name} cannot say {subject}: ")
                result.append(Saying(name, None, reason))
    return result


def say_lines(sayings: list[Saying]) -> list[str]:
    """Both kinds as two lists for a reader."""
    width = max((len(saying.notation) for saying in sayings), default=0)
    lines = [f"{s.notation:{width}}  {s.text}" for s in sayings if s.text is not None]
    refused = [f"{s.notation:{width}}  {s.reason}" for s in sayings if s.text is None]
    return lines + (["", "not in", *refused] if refused else [])
