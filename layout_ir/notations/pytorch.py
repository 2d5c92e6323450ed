"""PyTorch: sizes, strides and storage offset in elements; memory formats.

A PyTorch memory format is not stored with a tensor. It is read off sizes and strides, and where an extent is 1 the
reading is ambiguous: a tensor of one channel is contiguous and channels-last at once. PyTorch breaks the tie by the
strides of the dims of extent 1, which move nothing.
"""

from __future__ import annotations

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
                    "preserve_format is no layout: it keeps that of another tensor",
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
