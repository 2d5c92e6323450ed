"""Layouts as memory descriptors of the library, and the descriptors that it asks for.

A descriptor holds no address: the offset of a layout is added to the address of its buffer. What a descriptor cannot
say (halos, chunks, blocks with holes around them) is refused, and such a value is computed on by other means.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import POINTER, byref, c_int, c_int64, c_void_p
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from math import prod
from weakref import WeakValueDictionary

from layout_ir.algebra.layout import Layout
from layout_ir.backends.onednn.library import Handle, Library, Refused, dims
from layout_ir.elements.element_types import bits_of, element_type
from layout_ir.elements.numpy_types import Array
from layout_ir.errors import LayoutError
from layout_ir.notations.onednn import BlockingDesc

_ANY = 1

# Values of dnnl_query_t, which are part of the ABI of version 3.
_STRIDES, _NUMBER_OF_DIMS, _DIMS, _OFFSET, _PADDED, _PADDED_OFFSETS = 14, 256, 257, 259, 260, 261
_INNER_COUNT, _INNER_BLOCKS, _INNER_DIMS = 263, 264, 265


Description = tuple[Sequence[int], str, Sequence[int] | str | None]
"""What a descriptor is made from: extents, element type, and strides or a tag; None leaves the format open."""


class MemoryDescriptor:
    """A memory descriptor: dims, element type, and where the elements lie. Destroyed with this object."""

    def __init__(self, library: Library, handle: c_void_p, made_from: Description | None = None) -> None:
        self.library = library
        self._owner = Handle(handle, library.api.dnnl_memory_desc_destroy)
        self.made_from = made_from
        """What `described` takes; None for one that the library chose."""

    @property
    def handle(self) -> c_void_p:
        """What calls of the library take."""
        return self._owner.value

    @property
    def nbytes(self) -> int:
        """Bytes that a buffer needs."""
        return self.library.api.dnnl_memory_desc_get_size(self.handle)

    @property
    def reach(self) -> int:
        """Bytes from the first element up to behind the last one, pads included: what the library may touch.

        `nbytes` counts whole strides, of the last row too, which a part of a larger tensor need not have behind it.
        """
        if self.made_from is None:
            return self.nbytes  # laid out by the library, as a whole
        try:
            lies = self.blocking()
        except Refused:
            return self.nbytes
        if not all(lies.padded_dims):
            return 0
        blocks = [1] * len(lies.dims)
        for size, dim in zip(lies.inner_blks, lies.inner_idxs, strict=True):
            blocks[dim] *= size
        steps = zip(lies.padded_dims, blocks, lies.strides, strict=True)
        last_block = lies.offset0 + sum((extent // block - 1) * stride for extent, block, stride in steps)
        return -(-(last_block + prod(blocks)) * bits_of(self.made_from[1]) // 8)

    def blocking(self) -> BlockingDesc:
        """What the descriptor says, as numbers. Raises Refused for one that has no strides."""
        return blocking_of(self.library, self.handle)

    @staticmethod
    def copied(library: Library, handle: c_void_p) -> MemoryDescriptor:
        """A descriptor equal to one that the library owns."""
        copy = c_void_p()
        library.check(library.api.dnnl_memory_desc_clone(byref(copy), handle), "memory descriptor")
        return MemoryDescriptor(library, copy)


_SHARED: WeakValueDictionary[tuple[Library, Description], MemoryDescriptor] = WeakValueDictionary()
"""Descriptors that live, by what they were made from: each takes 700 bytes, and a network has some of a kind."""


def described(library: Library, given: Description) -> MemoryDescriptor:
    """The descriptor that was made from `given`. Raises Refused where the library takes none such."""
    extents, dtype, lies = given
    key = library, (tuple(extents), dtype, lies if lies is None or isinstance(lies, str) else tuple(lies))
    found = _SHARED.get(key)
    if found is None:
        found = _SHARED[key] = _made(*key)
    return found


def _made(library: Library, given: Description) -> MemoryDescriptor:
    extents, dtype, lies = given
    handle, api = c_void_p(), library.api
    said = byref(handle), len(extents), dims(extents), element_type(dtype).onednn
    if lies is None:
        library.check(api.dnnl_memory_desc_create_with_tag(*said, _ANY), "memory descriptor")
    elif isinstance(lies, str):
        library.check(api.dnnl_memory_desc_create_with_string_tag(*said, lies.encode()), f"tag {lies}")
    else:
        status = api.dnnl_memory_desc_create_with_strides(*said, dims(lies))
        library.check(status, f"strides {tuple(lies)} of {tuple(extents)}")
    return MemoryDescriptor(library, handle, given)


def any_format(library: Library, extents: Sequence[int], dtype: str = "f32") -> MemoryDescriptor:
    """A descriptor that leaves to the library how the elements lie."""
    return described(library, (extents, dtype, None))


def tagged(library: Library, extents: Sequence[int], tag: str, dtype: str = "f32") -> MemoryDescriptor:
    """A descriptor by a tag, of the letters a, b, c, .... Raises Refused where the library takes none such."""
    return described(library, (extents, dtype, tag))


def strided(
    library: Library, extents: Sequence[int], strides: Sequence[int], dtype: str = "f32"
) -> MemoryDescriptor:
    """A descriptor of elements `strides` apart. Raises Refused where the library takes none such."""
    return described(library, (extents, dtype, strides))


def row_major(library: Library, extents: Sequence[int], dtype: str = "f32") -> MemoryDescriptor:
    """A descriptor of dense elements in row-major order."""
    return strided(library, extents, row_major_strides(extents), dtype)


def part_of(whole: MemoryDescriptor, extents: Sequence[int], starts: Sequence[int]) -> MemoryDescriptor:
    """The descriptor of those elements of a tensor that begin at `starts`, in the buffer of the whole tensor.

    Raises Refused where the library has none such, as for parts of blocks."""
    library, handle = whole.library, c_void_p()
    given = byref(handle), whole.handle, dims(extents), dims(starts)
    library.check(library.api.dnnl_memory_desc_create_submemory(*given), f"part {tuple(extents)} of a tensor")
    return MemoryDescriptor(library, handle)


def dtype_of_array(array: Array) -> str:
    """The element type of the arrays that constants are kept in: bf16 and f16 are bits there, as `storage` has them.

    Raises Refused for elements that the library has no type for.
    """
    found = _ARRAYS.get(array.dtype.name)
    if found is None:
        raise Refused(f"the library has no elements of {array.dtype.name}")
    return found


_ARRAYS = {"float32": "f32", "int8": "i8", "uint8": "ui8", "int32": "i32", "float16": "f16", "uint16": "bf16"}


def row_major_strides(extents: Sequence[int]) -> tuple[int, ...]:
    """The strides of dense elements in row-major order."""
    strides: list[int] = []
    running = 1
    for extent in reversed(extents):
        strides.append(running)
        running *= max(extent, 1)
    return tuple(reversed(strides))


def conventional_strides(extents: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """The same memory with the strides of a row-major or channels-last tensor, where only dims of one element stand
    elsewhere; else `strides`.

    The stride of a dim of one element is never multiplied, but kernels read the order of dims and the lengths of rows
    off all strides: 3.2 broadcasts the second operand of a binary primitive along other dims than it has where one is
    out of line, and has matmuls fail into one row whose stride is less than its length.
    """
    given, rank = tuple(strides), len(extents)
    fitting: list[tuple[tuple[bool, bool], tuple[int, ...]]] = []
    channels_last = sorted(range(rank), key=lambda d: (d > 0) + (d == 1))
    for order in (range(rank), channels_last):
        if not _descend([given[d] for d in order if extents[d] > 1]):
            continue
        found, inner = list(given), 1
        for d in reversed(order):
            found[d] = inner if extents[d] == 1 else given[d]
            inner = found[d] * extents[d]
        distance = (tuple(found) != given, not _descend([given[d] for d in order]))
        fitting.append((distance, tuple(found)))
    return min(fitting, key=lambda fit: fit[0])[1] if fitting else given


def _descend(numbers: Sequence[int]) -> bool:
    return all(left >= right for left, right in pairwise(numbers))


@lru_cache(maxsize=4096)
def descriptor_of(library: Library, layout: Layout, dtype: str) -> MemoryDescriptor:
    """The descriptor of `layout`, its offset left out.

    Raises Refused where no descriptor says it.
    """
    if layout.swizzle is not None or any(layout.lo) or layout.axes or not layout.rank:
        raise Refused(f"no memory descriptor says {layout}")
    try:
        desc = BlockingDesc.of(replace(layout, offset=0))
    except LayoutError as error:
        raise Refused(str(error)) from None
    if not desc.inner_blks:
        if desc.padded_dims != desc.dims:
            raise Refused(f"no memory descriptor says {layout}")
        strides = conventional_strides(desc.padded_dims, desc.strides)
        return strided(library, desc.padded_dims, strides, dtype)
    order = sorted(
        range(layout.rank), key=lambda d: (-desc.strides[d], desc.padded_dims[d] == desc.blocks[d], d)
    )
    blocked = set(desc.inner_idxs)
    letters = "abcdefghijkl"
    tag = "".join(letters[d].upper() if d in blocked else letters[d] for d in order)
    tag += "".join(f"{size}{letters[d]}" for size, d in zip(desc.inner_blks, desc.inner_idxs, strict=True))
    found = tagged(library, desc.dims, tag, dtype)
    said = found.blocking()
    # A tag is dense, and pads to whole blocks and no further.
    if said.padded_dims != desc.padded_dims or not said.layout().same_store(desc.layout()):
        raise Refused(f"no memory descriptor says {layout}")
    return found


def blocking_of(library: Library, handle: c_void_p) -> BlockingDesc:
    """The numbers of a blocked descriptor. Raises Refused for one that has none."""

    def number(what: int) -> int:
        value = c_int64() if what == _OFFSET else c_int()
        library.check(library.api.dnnl_memory_desc_query(handle, what, byref(value)), "memory descriptor")
        return int(value.value)

    def vector(what: int, count: int) -> tuple[int, ...]:
        value = POINTER(c_int64)()
        library.check(library.api.dnnl_memory_desc_query(handle, what, byref(value)), "memory descriptor")
        return tuple(int(value[k]) for k in range(count))

    n, blocks = number(_NUMBER_OF_DIMS), number(_INNER_COUNT)
    return BlockingDesc(
        vector(_DIMS, n), vector(_PADDED, n), vector(_PADDED_OFFSETS, n), number(_OFFSET), vector(_STRIDES, n),
        vector(_INNER_BLOCKS, blocks), vector(_INNER_DIMS, blocks),
    )  # fmt: skip
