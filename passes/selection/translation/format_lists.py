"""The Formats that a value may have, as an immutable list that values share.

A network has few shapes, and values of one shape get the same Formats in the same order. So a list is never changed:
one Format more is another list, the same object for all values that add it to this one. Problems of a million values
then hold some dozens of lists, and what was found for one op holds for all ops whose values have the same lists.

Formats that are the same bytes at the shape are one format of the problem, so that a reorder between them costs
nothing and needs no rule.
"""

from __future__ import annotations

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.passes.selection.options.tensor_formats import bound_to

DERIVED_LIMIT = 96
"""Formats of a value beyond which no more are derived from those of its neighbours: views in loops would derive them
without end. Formats that an op asks for, a type states or a cost table names are taken beyond it. Networks have up to
four per value."""


class FormatList:
    """Formats of tensors of one shape, each with the layout it binds to. Made by `FormatLists` and by `adding`."""

    __slots__ = ("_keys", "_longer", "_numbers", "formats", "layouts", "shape")

    def __init__(self, shape: tuple[int, ...], formats: tuple[Format, ...], layouts: tuple[Layout, ...]):
        self.shape = shape
        self.formats = formats
        self.layouts = layouts
        self._keys = {_bytes(layout): number for number, layout in enumerate(layouts)}
        # By Format and names: equality of Formats ignores how their dims are called, what is printed does not.
        self._numbers: dict[tuple[Format, tuple[str, ...]], int | None] = {}
        self._longer: dict[tuple[Format, tuple[str, ...]], FormatList] = {}

    def number(self, fmt: Format) -> int | None:
        """The number of `fmt`; None where it does not fit the shape or is not in the list."""
        key = fmt, fmt.names
        if key not in self._numbers:
            layout = bound_to(fmt, self.shape)
            self._numbers[key] = None if layout is None else self._keys.get(_bytes(layout))
        return self._numbers[key]

    def adding(self, fmt: Format) -> FormatList:
        """The list with `fmt` at its end: this one where it is known or does not fit."""
        key = fmt, fmt.names
        longer = self._longer.get(key)
        if longer is None:
            longer = self
            layout = bound_to(fmt, self.shape)
            if layout is not None and self.number(fmt) is None:
                longer = FormatList(self.shape, (*self.formats, fmt), (*self.layouts, layout))
            self._longer[key] = longer
        return longer


def _bytes(layout: Layout) -> object:
    """Equal for layouts that are the same bytes."""
    return layout.canonical, layout.padded_shape, layout.chunk_size, layout.extent


class FormatLists:
    """The empty list of each shape, from which the others of that shape grow."""

    def __init__(self) -> None:
        self._empty: dict[tuple[int, ...], FormatList] = {}

    def of(self, shape: tuple[int, ...]) -> FormatList:
        """The empty list of tensors of `shape`, the same object each time."""
        if shape not in self._empty:
            self._empty[shape] = FormatList(shape, (), ())
        return self._empty[shape]
