"""oneDNN: format tags and blocking descriptors.

A tag (`nChw8c`, `aBcd8b`) is a recipe: an order of dims and a list of inner blocks. A blocking descriptor is what the
library makes of it: strides between whole blocks, and inner blocks that are dense and innermost by definition.
A descriptor says more than a tag (strides with holes, an offset, padded extents of its own choice), and less than a
Format: no blocks with holes, no digits whose memory order contradicts their significance, no negative strides, no
pads but zeros.

`BlockingDesc.of` first takes the factors as they stand, so that the descriptor of a tag is the library's own, number
by number; where they are no descriptor it goes by canonical digits. Two rules of the library are kept as they are,
because sizes and comparisons depend on them: strides of dims of extent 1 are numbers like others, and `get_size`
counts whole outermost strides, which is more than the last element needs.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar

from layout_ir.algebra.canonical import canonical_digits
from layout_ir.algebra.factors import Factor
from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.algebra.pads import PadPolicy
from layout_ir.algebra.tag import ALPHABET, name_of
from layout_ir.elements.element_types import bits_of, canonical_name
from layout_ir.errors import LayoutError
from layout_ir.notations.decomposition import layout_of
from layout_ir.notations.notation import Notation, Subject, read_behind

MAX_NDIMS = 12


@dataclass(frozen=True, slots=True)
class BlockingDesc:
    """The numbers of a blocked memory descriptor, as the library names them.

    `strides` (elements) lie between whole blocks of a dim; `inner_blks` and `inner_idxs` are sizes and dims of the
    inner blocks, outermost first. Raises LayoutError where the numbers are no descriptor.
    """

    dims: tuple[int, ...]
    padded_dims: tuple[int, ...]
    padded_offsets: tuple[int, ...]
    offset0: int
    strides: tuple[int, ...]
    inner_blks: tuple[int, ...] = ()
    inner_idxs: tuple[int, ...] = ()

    def __post_init__(self):
        n = len(self.dims)
        if not 1 <= n <= MAX_NDIMS:
            raise LayoutError(f"a oneDNN descriptor has 1 to {MAX_NDIMS} dims, not {n}")
        for what in ("padded_dims", "padded_offsets", "strides"):
            if len(getattr(self, what)) != n:
                raise LayoutError(f"rank mismatch between dims and {what}: {n} != {len(getattr(self, what))}")
        if len(self.inner_blks) != len(self.inner_idxs):
            raise LayoutError(
                f"inner_blks has {len(self.inner_blks)} entries, inner_idxs has {len(self.inner_idxs)}"
            )
        if len(self.inner_blks) > MAX_NDIMS:
            raise LayoutError(
                f"a oneDNN descriptor has at most {MAX_NDIMS} inner blocks, not {len(self.inner_blks)}"
            )
        for size, dim in zip(self.inner_blks, self.inner_idxs, strict=True):
            if size < 1 or not 0 <= dim < n:
                raise LayoutError(
                    f"inner block of {size} of dim {dim}: sizes start at 1, dims lie in [0, {n})"
                )
        for dim, block in enumerate(self.blocks):
            extent, padded, low = self.dims[dim], self.padded_dims[dim], self.padded_offsets[dim]
            if extent < 0 or low < 0 or padded < extent + low:
                raise LayoutError(
                    f"dim {dim} of extent {extent} does not lie at {low} in a padded extent of {padded}"
                )
            if padded % block:
                raise LayoutError(
                    f"padded extent {padded} of dim {dim} is no multiple of its blocks, which hold {block}"
                )

        self._check_strides()

    def _check_strides(self) -> None:
        """The library's rule: sorted by stride, each dim steps over all smaller ones; stride 0 broadcasts."""
        if 0 in self.padded_dims:
            return
        steps = [padded // block for padded, block in zip(self.padded_dims, self.blocks, strict=True)]
        reach = prod(self.inner_blks)
        for dim in sorted(range(len(steps)), key=lambda d: self.strides[d]):
            stride = self.strides[dim]
            if stride == 0 or steps[dim] == 1:
                continue
            if stride < 0:
                raise LayoutError(f"stride {stride} of dim {dim} is negative: oneDNN takes none")
            if stride < reach:
                raise LayoutError(
                    f"stride {stride} of dim {dim} steps into {reach} elements below it: oneDNN takes no overlaps"
                )
            reach = stride * steps[dim]

    @property
    def blocks(self) -> tuple[int, ...]:
        """Per dim, the product of its inner blocks."""
        result = [1] * len(self.dims)
        for size, dim in zip(self.inner_blks, self.inner_idxs, strict=True):
            result[dim] *= size
        return tuple(result)

    def get_size(self, dtype: str | int) -> int:
        """Bytes by the library's rule: the largest count of outermost steps times their stride, offset not counted.

        Rows of 4 elements 10 apart take 30 elements by this rule, although the last element is the 24th; a tensor
        whose strides are all 0 takes none.
        """
        if 0 in self.padded_dims:
            return 0
        most = 0
        for padded, block, stride in zip(self.padded_dims, self.blocks, self.strides, strict=True):
            steps = padded // block
            most = max(most, steps * stride if steps != 1 else 1)
        if most == 1 and self.inner_blks:
            most = prod(self.inner_blks)
        return -(-most * bits_of(dtype) // 8)

    @staticmethod
    def of(layout: Layout) -> BlockingDesc:
        """The descriptor of `layout`. Raises LayoutError with the reason where it has none."""
        if not 1 <= layout.rank <= MAX_NDIMS:
            raise LayoutError(
                f"onednn cannot say {layout}: it has 1 to {MAX_NDIMS} dims, this has {layout.rank}"
            )
        try:
            return _from_factors(layout) or _from_canonical(layout)
        except LayoutError as error:
            raise LayoutError(f"onednn cannot say {layout}: {error}") from None

    def layout(self, names: Sequence[str] | None = None, pad: PadPolicy = "zero") -> Layout:
        """What the descriptor says; `pad` is kept where there are pads."""
        steps = [1]
        for size in reversed(self.inner_blks):
            steps.append(steps[-1] * size)
        chains: list[list[tuple[int, int]]] = [
            [(p // b, s)] for p, b, s in zip(self.padded_dims, self.blocks, self.strides, strict=True)
        ]
        for at, (size, dim) in enumerate(zip(self.inner_blks, self.inner_idxs, strict=True)):
            chains[dim].append((size, steps[len(self.inner_blks) - 1 - at]))
        padded = self.padded_dims != self.dims
        return layout_of(
            self.dims,
            chains,
            offset=self.offset0,
            lo=self.padded_offsets,
            names=names,
            pad=pad if padded else "undef",
        )


def _from_factors(layout: Layout) -> BlockingDesc | None:
    """The descriptor whose outer parts are the coarsest factors of the dims, if the other factors are its tile."""
    outer: dict[int, int] = {}
    inner: list[tuple[int, int, int]] = []  # stride, size, dim
    for factor in layout.factors:
        if factor.dim not in outer:
            outer[factor.dim] = factor.stride
        elif factor.count != 1:
            inner.append((factor.stride, factor.count, factor.dim))
    return _assembled(layout, [outer[d] for d in range(layout.rank)], inner)


def _assembled(
    layout: Layout, strides: Sequence[int], inner: Sequence[tuple[int, int, int]]
) -> BlockingDesc | None:
    """The descriptor with the given inner digits (stride, size, dim, each dim coarse to fine), if they are a tile."""
    tile = dense_tile(inner)
    return None if tile is None else BlockingDesc(
        layout.shape, layout.padded_shape, layout.lo, layout.offset, tuple(strides),
        tuple(size for size, _ in tile), tuple(dim for _, dim in tile),
    )  # fmt: skip


def dense_tile(inner: Sequence[tuple[int, int, int]]) -> list[tuple[int, int]] | None:
    """Digits (stride, size, dim; each dim coarse to fine) as inner blocks (size, dim), outermost first.

    None where they leave holes, or where a coarse digit of a dim lies below a finer one.
    """
    running = 1
    for stride, size, _ in sorted(inner):
        if stride != running:
            return None
        running *= size
    for dim in {d for _, _, d in inner}:
        own = [stride for stride, _, d in inner if d == dim]
        if own != sorted(own, reverse=True):
            return None
    return [(size, dim) for _, size, dim in sorted(inner, reverse=True)]


def _from_canonical(layout: Layout) -> BlockingDesc:
    strides: list[int] = []
    inner: list[tuple[int, int, int]] = []
    whole: dict[int, tuple[int, int]] = {}  # stride -> (dim, extent) of dims that lie in one piece
    for dim, (digits, extent) in enumerate(zip(layout.digits, layout.padded_shape, strict=True)):
        terms = canonical_digits(digits, extent) or ((1, digits[0].stride if digits else 1),)
        strides.append(terms[-1][1])
        for (unit, stride), (above, _) in itertools.pairwise(terms):
            inner.append((stride, above // unit, dim))
        if len(terms) == 1 and extent > 1:
            whole[terms[0][1]] = (dim, extent)
    # A dim that lies whole between inner digits is one more inner block, with a single step outside.
    running = 1
    for stride, size, _ in sorted(inner):
        while stride != running and running in whole:
            dim, extent = whole.pop(running)
            inner.append((running, extent, dim))
            strides[dim] = running * extent
            running *= extent
        running *= size
    coarse_to_fine = _significance(layout, inner)
    found = _assembled(layout, strides, coarse_to_fine)
    if found is None:
        raise LayoutError(
            f"inner blocks are dense, innermost, and in memory order as significant as in the index, "
            f"but the inner digits (stride, size, dim) are {', '.join(map(str, sorted(inner, reverse=True)))}"
        )
    return found


def _significance(layout: Layout, inner: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """`inner` with the digits of each dim coarse to fine."""
    result: list[tuple[int, int, int]] = []
    for dim in range(layout.rank):
        result += reversed([entry for entry in inner if entry[2] == dim])
    return result


def tag_of(subject: Subject) -> str:
    """The tag of a layout or format in its own letters where they are those of a tag, otherwise in a, b, c.

    A Layout is read by its digits at its shape, so that strides written out have a tag too. Raises LayoutError.
    """
    if isinstance(subject, Format):
        for candidate in (
            subject,
            subject.with_names(ALPHABET[: subject.rank]) if subject.rank <= MAX_NDIMS else subject,
        ):
            if (name := name_of(candidate)) is not None:
                return name
        raise LayoutError(
            f"tag cannot say {subject}: a tag is one rest per dim, then inner blocks, without strides, sizes or phases"
        )
    written = subject.format
    if subject.chunk_rank == 0 and (name := name_of(written)) is not None:
        return name
    desc = BlockingDesc.of(subject)
    order = sorted(
        range(subject.rank), key=lambda d: (-desc.strides[d], desc.padded_dims[d] == desc.blocks[d], d)
    )
    factors = [Factor(d) for d in order]
    factors += [Factor(dim, size) for size, dim in zip(desc.inner_blks, desc.inner_idxs, strict=True)]
    found = Format(subject.names, tuple(factors), pad=subject.pad)
    if not _same_but_pads(found.bind(subject.shape), subject):
        raise LayoutError(
            f"tag cannot say {subject}: a tag is dense and pads to multiples of its blocks, but this has strides "
            f"{desc.strides} and padded extents {desc.padded_dims}"
        )
    return tag_of(found)


def _same_but_pads(a: Layout, b: Layout) -> bool:
    return replace(a, pad="undef").same_store(replace(b, pad="undef"))


_ENUMERATOR = r"(?:(?:dnnl::)?memory::)?format_tag::|dnnl_(?=[a-zA-Z]+)"
"""What stands in front of a tag where C++ or C names it."""
_VERBOSE = (
    r"(?:(?:src|dst|wei|bia|ws|diff_src|diff_dst|diff_wei|diff_bia)(?:_(?:layer|iter|proj|\d+))*[:_])?"
    r"(?P<dtype>[a-z]\w*):(?P<properties>[a-z0-9]*):blocked:(?P<tag>\w+)(?::(?P<strides>[0-9x]*))?(?::f\w+)?"
)
"""A memory descriptor as the library prints it with ONEDNN_VERBOSE, of releases before and after 3.3."""


class TagNotation(Notation):
    """`nChw8c`, `aBcd8b`: see `layout_ir.algebra.tag` for the grammar. Read, too, as C++ names them
    (`memory::format_tag::nChw8c`) and as the library prints a descriptor (`src:f32::blocked:aBcd8b::f0`)."""

    name: ClassVar[str] = "tag"
    beginning: ClassVar[str] = rf"{_ENUMERATOR}|[a-z_0-9]+(?::[a-z_0-9]+)?:[a-z0-9]*:blocked:"
    about: ClassVar[str] = "oneDNN format tags, letters or names of dims: nChw8c, aBcd8b"
    order: ClassVar[str] = (
        "the dims as oneDNN and PyTorch have them: n, c, h, w and o, i, h, w, or a, b, c; whatever the order in memory"
    )
    by_index: ClassVar[bool] = False
    example: ClassVar[str] = "nChw8c"
    pads: ClassVar[PadPolicy] = "zero"
    needs_shape: ClassVar[bool] = False

    def element_type(self, text: str) -> str | None:
        """The element type of a printed descriptor; None of a tag alone."""
        found = re.fullmatch(_VERBOSE, text.strip())
        return None if found is None else canonical_name(found["dtype"])

    def _parse(self, text: str, shape: tuple[int, ...] | None, dtype: str | None) -> Subject:
        found = re.fullmatch(_VERBOSE, text.strip())
        if found is None:
            return read_behind(text, _ENUMERATOR, Format.from_tag)
        if found["strides"]:
            raise LayoutError(
                f"tag text '{text.strip()[:60]}' states strides, {found['strides'][:40]}, which a tag has none of: "
                "give the numbers of the descriptor, --from onednn"
            )
        before = re.escape(found.string[: found.start("tag")])
        return read_behind(text, before, lambda _: Format.from_tag(found["tag"]))

    def _print(self, subject: Subject, dtype: str | None) -> str:
        return tag_of(subject)


class DescNotation(Notation):
    """The fields of a blocked memory descriptor as a JSON object."""

    name: ClassVar[str] = "onednn"
    beginning: ClassVar[str] = r'\{\s*"'
    about: ClassVar[str] = "oneDNN blocking descriptors: dims, padded dims, strides, inner blocks"
    example: ClassVar[str] = (
        '{"dims": [2, 17, 5, 4], "padded_dims": [2, 24, 5, 4], "padded_offsets": [0, 0, 0, 0], "offset0": 0, '
        '"strides": [480, 160, 32, 8], "inner_blks": [8], "inner_idxs": [1]}'
    )
    pads: ClassVar[PadPolicy] = "zero"
    says: ClassVar[frozenset[str]] = frozenset({"offset", "lo"})

    def _parse(self, text: str, shape: tuple[int, ...] | None, dtype: str | None) -> Subject:
        try:
            found: Any = json.loads(text)
        except (ValueError, RecursionError) as error:
            at = error.pos if isinstance(error, json.JSONDecodeError) else 0
            raise LayoutError(
                f"onednn text is no JSON object of the fields of a descriptor: {error}", (at, at + 1)
            ) from None
        if not isinstance(found, dict):
            raise LayoutError(f"onednn text is no JSON object but {type(found).__name__}", (0, len(text)))
        fields: dict[str, Any] = dict(found)  # type: ignore[arg-type]
        known = ("dims", "padded_dims", "padded_offsets", "offset0", "strides", "inner_blks", "inner_idxs")
        if unknown := sorted(set(fields) - set(known)):
            raise LayoutError(
                f"onednn text has the unknown field '{unknown[0]}': the fields are {', '.join(known)}"
            )
        if missing := [field for field in ("dims", "strides") if field not in fields]:
            raise LayoutError(f"onednn text lacks the field '{missing[0]}'")
        dims = _numbers(fields, "dims", None)
        desc = BlockingDesc(
            dims, _numbers(fields, "padded_dims", dims), _numbers(fields, "padded_offsets", (0,) * len(dims)),
            _number(fields.get("offset0", 0), "offset0"), _numbers(fields, "strides", None),
            _numbers(fields, "inner_blks", ()), _numbers(fields, "inner_idxs", ()),
        )  # fmt: skip
        return desc.layout()

    def _print(self, subject: Subject, dtype: str | None) -> str:
        desc = BlockingDesc.of(self.bound(subject))
        return json.dumps({
            "dims": desc.dims, "padded_dims": desc.padded_dims, "padded_offsets": desc.padded_offsets,
            "offset0": desc.offset0, "strides": desc.strides,
            "inner_blks": desc.inner_blks, "inner_idxs": desc.inner_idxs,
        })  # fmt: skip


def _number(value: Any, field: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= 1 << 63:
        raise LayoutError(
            f"field '{field}' of a onednn text holds {str(value)[:24]!r}, not an integer below 2^63"
        )
    return value


def _numbers(fields: dict[str, Any], field: str, default: tuple[int, ...] | None) -> tuple[int, ...]:
    value = fields.get(field, default)
    if not isinstance(value, list | tuple):
        raise LayoutError(f"field '{field}' of a onednn text is {str(value)[:24]!r}, not a list of integers")
    return tuple(_number(entry, field) for entry in value)  # type: ignore[arg-type]
