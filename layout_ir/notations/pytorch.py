"""PyTorch: sizes, strides and storage offset in elements; memory formats.

A PyTorch memory format is not stored with a tensor. It is read off sizes and strides, and where an extent is 1 the
reading is ambiguous: a tensor of one channel is contiguous and channels-last at once. PyTorch breaks the tie by the
strides of the dims of extent 1, which move nothing. `suggest_memory_format` here gives both answers: all formats
that hold, by where elements are, and the one PyTorch would name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.algebra.scan import Scanner
from layout_ir.algebra.tag import names_for
from layout_ir.elements.element_types import canonical_name
from layout_ir.errors import LayoutError
from layout_ir.notations.decomposition import from_strides, strided
from layout_ir.notations.notation import Notation, Subject

_ORDERS = {
    "contiguous_format": {},
    "channels_last": {4: (0, 2, 3, 1)},
    "channels_last_3d": {5: (0, 2, 3, 4, 1)},
}
MEMORY_FORMATS = tuple(_ORDERS)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Which memory formats the elements of a tensor fulfil, and which one PyTorch names.

    `holds` has none for a tensor in no such order, several where extents of 1 leave the order open. `torch` is what
    `suggest_memory_format` returns: a guess from strides, which may name a format that does not hold.
    """

    holds: tuple[str, ...]
    torch: str

    @property
    def ambiguous(self) -> bool:
        return len(self.holds) > 1


def _order(memory_format: str, rank: int) -> tuple[int, ...]:
    """Dims outermost first. Raises LayoutError for an unknown format or one of another rank."""
    if memory_format not in _ORDERS:
        raise LayoutError(f"unknown memory format '{memory_format}': known are {', '.join(MEMORY_FORMATS)}")
    if memory_format == "contiguous_format":
        return tuple(range(rank))
    if rank not in _ORDERS[memory_format]:
        needed = next(iter(_ORDERS[memory_format]))
        raise LayoutError(
            f"memory format {memory_format} is one of rank {needed}, the tensor has rank {rank}"
        )
    return _ORDERS[memory_format][rank]


def format_of(memory_format: str, rank: int) -> Format:
    """The Format of a memory format for tensors of `rank` dims."""
    if memory_format == "channels_last" and rank == 4:
        return Format.from_tag("nhwc")
    if memory_format == "channels_last_3d" and rank == 5:
        return Format.from_tag("ndhwc")
    _order(memory_format, rank)
    return Format.row_major(names_for(rank))


def is_contiguous(
    sizes: Sequence[int], strides: Sequence[int], memory_format: str = "contiguous_format"
) -> bool:
    """`torch.Tensor.is_contiguous`: dims of extent 1 are skipped; an empty tensor is contiguous by any strides."""
    running = 1
    if 0 in sizes and memory_format == "contiguous_format":
        return True
    for dim in reversed(_order(memory_format, len(sizes))):
        if sizes[dim] == 1:
            continue
        if strides[dim] != running:
            return False
        running *= sizes[dim]
    return True


def suggest_memory_format(layout: Layout) -> Suggestion:
    """The memory formats that hold for a tensor, and PyTorch's own answer. Raises LayoutError if it is not strided."""
    strides, _ = strided(layout, "torch")
    sizes = layout.shape
    candidates = [m for m in MEMORY_FORMATS if m == "contiguous_format" or layout.rank in _ORDERS[m]]
    holds = tuple(m for m in candidates if is_contiguous(sizes, strides, m))
    for name in candidates[1:]:
        if _strides_like(sizes, strides, _order(name, layout.rank)):
            return Suggestion(holds, name)
    return Suggestion(holds, "contiguous_format")


def _strides_like(sizes: Sequence[int], strides: Sequence[int], order: tuple[int, ...]) -> bool:
    """Whether strides, those of dims of extent 1 included, grow in channels-last order; ties count as contiguous."""
    channel = order[-1]
    if strides[channel] == 0 or 0 in sizes:
        return False
    least = 0
    for dim in reversed(order):
        if strides[dim] < least or (dim == order[0] and least == strides[channel]):
            return False
        least = strides[dim] * max(sizes[dim], 1)
    return True


def preserved_strides(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Strides of a new tensor made with `preserve_format`: kept where dense, else dense in the same order of strides.

    Dims of stride 0 have no place in that order and keep theirs among the dims; of equal strides the smaller extent
    lies further in.
    """
    if _fills_an_interval(sizes, strides):
        return tuple(strides)
    # An insertion sort and not `sorted`: comparisons with stride 0 are undecided, so the order is no total one.
    order = list(reversed(range(len(sizes))))
    for start in range(1, len(order)):
        at = start
        for other in reversed(range(start)):
            a, b = order[other], order[at]
            if strides[a] == 0 or strides[b] == 0:
                continue
            if (strides[a], sizes[a]) > (strides[b], sizes[b]):
                order[other], order[at] = b, a
                at = other
            elif strides[a] < strides[b]:
                break
    result = [0] * len(sizes)
    running = 1
    for dim in order:
        result[dim] = running
        running *= max(sizes[dim], 1)
    return tuple(result)


def _fills_an_interval(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    if 0 in sizes:
        return True
    running = 1
    for stride, size in sorted((s, n) for n, s in zip(sizes, strides, strict=True) if n >= 2):
        if stride != running:
            return False
        running *= size
    return True


class TorchNotation(Notation):
    """`size=(2, 3, 4, 5), stride=(60, 1, 15, 3), storage_offset=0`, or the name of a memory format.

    Read are also a bare tuple, what `x.stride()` prints, and `f32[2, 3][3, 1]cpu`, as graphs of torch.compile have it.
    """

    name: ClassVar[str] = "torch"
    beginning: ClassVar[str] = r"(size|stride|storage_offset)\s*=|torch\.|\(\s*-?\d|[a-z]\w*\[[^\]]*\]\["
    order: ClassVar[str] = "size(): n, c, h, w for channels_last, too"
    about: ClassVar[str] = "PyTorch: size, stride and storage_offset in elements, or a memory format"
    example: ClassVar[str] = "size=(2, 3, 4, 5), stride=(60, 1, 15, 3), storage_offset=0"
    says: ClassVar[frozenset[str]] = frozenset({"offset", "lo", "size"})

    def _parse(self, text: str, shape: tuple[int, ...] | None, dtype: str | None) -> Subject:
        scan = Scanner(text, self.name)
        if scan.token.text in ("torch", *MEMORY_FORMATS, "preserve_format"):
            if scan.accept("torch"):
                scan.expect(".")
            start = scan.token
            name = scan.word("a memory format")
            scan.end()
            if name == "preserve_format":
                scan.fail(
                    "preserve_format is no layout: it keeps that of another tensor (see preserved_strides)",
                    start,
                )
            if name not in _ORDERS:
                scan.fail(f"unknown memory format '{name}': known are {', '.join(MEMORY_FORMATS)}", start)
            rank = {"channels_last": 4, "channels_last_3d": 5}.get(name, -1 if shape is None else len(shape))
            if rank < 0:
                scan.fail("contiguous_format has a layout for every rank: give a shape", start)
            if shape is not None and len(shape) != rank:
                _order(name, len(shape))
            return format_of(name, rank)
        if scan.at("("):
            strides = scan.integers("(", ")", "a stride", low=0)
            scan.end()
            if shape is None:
                raise LayoutError("strides alone have no extents: give a shape")
            return from_strides(shape, strides)
        if scan.token.kind == "word" and scan.tokens[scan.pos + 1].text == "[":
            return self._sized(scan)
        fields: dict[str, tuple[int, ...]] = {}
        while True:
            start = scan.token
            field = scan.word("size, stride or storage_offset")
            if field not in ("size", "stride", "storage_offset") or field in fields:
                scan.fail(
                    f"unexpected field '{field}': a tensor has size, stride and storage_offset, each once",
                    start,
                )
            scan.expect("=")
            if field == "storage_offset":
                fields[field] = (scan.integer("storage_offset", low=0),)
            else:
                if scan.accept("torch"):
                    scan.expect(".", "Size")
                square = scan.at("[")
                fields[field] = scan.integers("[" if square else "(", "]" if square else ")", field, low=0)
            if not scan.accept(","):
                break
        scan.end()
        sizes = fields.get("size", shape)
        if sizes is None or "stride" not in fields:
            raise LayoutError(
                f"{self.name} text needs stride, and size unless a shape is given: it has {', '.join(fields)}"
            )
        return from_strides(sizes, fields["stride"], fields.get("storage_offset", (0,))[0])

    def element_type(self, text: str) -> str | None:
        """The element type of `f32[2, 3][3, 1]cpu`; None for texts of other forms."""
        scan = Scanner(text, self.name)
        is_sized = scan.token.kind == "word" and scan.tokens[scan.pos + 1].text == "["
        return self._element(scan) if is_sized else None

    @staticmethod
    def _element(scan: Scanner) -> str:
        start = scan.token
        try:
            return canonical_name(scan.word("an element type such as f32"))
        except LayoutError as error:
            if error.span is not None:
                raise
            scan.fail(str(error), start)

    def _sized(self, scan: Scanner) -> Layout:
        """Takes `f32[2, 3][3, 1]cuda:0`."""
        self._element(scan)
        sizes = scan.integers("[", "]", "an extent", low=0)
        strides = scan.integers("[", "]", "a stride", low=0)
        if scan.token.kind == "word":  # the device
            scan.next()
            if scan.accept(":"):
                scan.integer("the number of the device", low=0)
        scan.end()
        return from_strides(sizes, strides)

    def _print(self, subject: Subject, dtype: str | None) -> str:
        layout = self.bound(subject)
        strides, offset = strided(layout, "torch")
        if offset < 0 or any(s < 0 for s in strides):
            raise self.refuse(subject, f"strides {strides} and offset {offset} must not be negative there")
        return f"size={layout.shape}, stride={tuple(strides)}, storage_offset={offset}"
