"""Notations that are finite lists of names: a table of Formats, looked up by what a layout is.

Printing goes by canonical digits: a Layout has every name whose Format, bound to its shape, stores it the same way.
The name of its own recipe comes first where it has one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.errors import LayoutError
from layout_ir.notations.notation import Notation, Subject, read_behind


class NamedNotation(Notation):
    """A notation with one Format per name (several, of different ranks, where a name serves several ranks)."""

    needs_shape: ClassVar[bool] = False
    qualifier: ClassVar[str] = ""
    """A regular expression for what stands in front of a name in programs, such as a namespace."""

    def table(self, dtype: str | None) -> Mapping[str, tuple[Format, ...]]:
        """The Formats of each name for elements of `dtype`."""
        raise NotImplementedError

    def lookup(self, name: str, rank: int | None, dtype: str | None) -> Format:
        """The Format called `name`; the first of its list if `rank` is None. Raises LayoutError."""
        table = self.table(dtype)
        if name not in table:
            raise LayoutError(
                f"{self.name} knows no '{name[:40]}': its names are {', '.join(table)}", (0, len(name))
            )
        formats = table[name]
        for format in formats:
            if rank is None or format.rank == rank:
                return format
        ranks = " or ".join(str(f.rank) for f in formats)
        raise LayoutError(f"{self.name} name '{name}' is for tensors of rank {ranks}, not {rank}")

    def names_of(self, subject: Subject, dtype: str | None = None) -> tuple[str, ...]:
        """Every name of `subject`: of its own recipe and dim names first, then of its recipe, then of its digits."""
        called: list[str] = []
        own: list[str] = []
        same: list[str] = []
        for name, formats in self.table(dtype).items():
            for format in formats:
                if format.rank != subject.rank:
                    continue
                bare = replace(format, pad="undef")
                written = subject if isinstance(subject, Format) else subject.format
                if bare == replace(written, pad="undef"):
                    (called if format.names == subject.names else own).append(name)
                elif isinstance(subject, Layout):
                    try:
                        bound = bare.bind(subject.shape)
                    except LayoutError:
                        continue
                    if bound.same_store(replace(subject, pad="undef")):
                        same.append(name)
        return tuple(dict.fromkeys([*called, *own, *same]))

    def _parse(self, text: str, shape: tuple[int, ...] | None, dtype: str | None) -> Subject:
        rank = None if shape is None else len(shape)
        return read_behind(text, self.qualifier, lambda name: self.lookup(name, rank, dtype))

    def _print(self, subject: Subject, dtype: str | None) -> str:
        found = self.names_of(subject, dtype)
        if not found:
            names = [
                n for n, formats in self.table(dtype).items() if any(f.rank == subject.rank for f in formats)
            ]
            known = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
            raise self.refuse(
                subject, f"it is none of {known}" if names else f"it has no names for rank {subject.rank}"
            )
        return found[0]
