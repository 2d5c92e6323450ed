"""Which notation a text is in, where nobody says.

Every notation tries to read the text. Where those that can all mean the same layout, that is the answer; where they
differ the text is ambiguous, and the error says what each of them reads. Where none can, the error is that of the
notation whose texts begin so; of several, of the one that got furthest.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.algebra.scan import shorten
from layout_ir.algebra.tag import names_for
from layout_ir.errors import LayoutError
from layout_ir.notations import NOTATIONS, Subject


@dataclass(frozen=True, slots=True)
class Reading:
    """What a text means in `notation`: `subject`, with its dims in the order of the array's indices."""

    notation: str
    subject: Subject

    def means(self, other: Reading) -> bool:
        """Whether both put every element at the same address; what pads hold and names of dims are left out."""
        a, b = self.subject, other.subject
        if isinstance(a, Layout) and isinstance(b, Layout):
            return a.shape == b.shape and a.same_map(replace(b, names=a.names, pad=a.pad))
        if isinstance(a, Format) and isinstance(b, Format):
            return a.rank == b.rank and a == replace(b, names=a.names, pad=a.pad)
        return False


def readings(
    text: str, shape: Sequence[int] | None = None, dtype: str | None = None
) -> tuple[list[Reading], dict[str, LayoutError]]:
    """What `text` means in each notation that can read it, and the error of each other one.

    Extents are those of an array as each notation has them. Bytes are counted in elements of `dtype`, else of the type
    that the text states, else of f32.
    """
    found: list[Reading] = []
    errors: dict[str, LayoutError] = {}
    for name, notation in NOTATIONS.items():
        try:
            element = dtype or notation.element_type(text) or "f32"
            found.append(Reading(name, _read(name, text, shape, element)))
        except LayoutError as error:
            errors[name] = error
    return found, errors


def _read(name: str, text: str, shape: Sequence[int] | None, dtype: str | None) -> Subject:
    notation = NOTATIONS[name]
    order = notation.shape_order(text)
    if order is None:
        return notation.parse(text, shape, dtype)
    names = notation.parse(text, None, dtype).names
    if shape is None or sorted(order) != sorted(names) or len(shape) != len(names):
        return notation.parse(text, shape, dtype)
    layout = notation.parse(text, [shape[order.index(name)] for name in names], dtype)
    assert isinstance(layout, Layout)
    return layout.permute([names.index(name) for name in order])


def guess(text: str, shape: Sequence[int] | None = None, dtype: str | None = None) -> str:
    """The notation of `text`. Raises LayoutError where there is none, and where several read different layouts."""
    found, errors = readings(text, shape, dtype)
    if not found:
        raise _closest(text, errors)
    groups: list[list[Reading]] = []
    for reading in found:
        group = next((group for group in groups if group[0].means(reading)), None)
        if group is None:
            groups.append([reading])
        else:
            group.append(reading)
    if len(groups) == 1:
        return found[0].notation
    meanings = "; ".join(
        f"{', '.join(reading.notation for reading in group)} {'reads' if len(group) == 1 else 'read'} "
        f"{_shown(group[0].subject)}"
        for group in groups
    )
    first, second = groups[0][0].notation, groups[1][0].notation
    raise LayoutError(f"{shorten(text)} is ambiguous: {meanings}: say --from {first} or --from {second}")


def _shown(subject: Subject) -> str:
    """A layout whose dims are called by their places, since that is how two of them are compared."""
    names = names_for(subject.rank)
    return str(replace(subject, names=names)) if isinstance(subject, Format) else str(subject)


def _closest(text: str, errors: dict[str, LayoutError]) -> LayoutError:
    """The error to report for a text that no notation can read."""
    meant = [
        error
        for name, error in errors.items()
        if NOTATIONS[name].beginning and re.match(NOTATIONS[name].beginning, text.lstrip())
    ]
    if not meant:
        known = ", ".join(NOTATIONS)
        return LayoutError(
            f"{shorten(text)} is neither a tag nor a format, nor of a notation known here: {known}"
        )
    # One that read the text to its end has errors without a span.
    return max(meant, key=lambda error: len(text) if error.span is None else error.span[0])
