"""Memory objects: a descriptor and the buffer behind it.

    m = Memory(desc)                    allocates; pads hold what the layout's policy says from the start
    m = Memory(desc, buffer)            wraps any writable buffer, bytes or elements, without a copy
    m = Memory(desc, NONE)              holds none yet; `set_data` gives it one later

A buffer is a row of elements that starts at address 0, stored as NumPy stores them: bf16 and 8-bit floats as their
bits, 4-bit integers two to a byte, low half first. `numpy()` is the tensor in its logical shape. It shares storage
where one stride per dim says the layout (then it is what the buffer protocol, `__array_interface__` and DLPack hand
out), otherwise it is a copy.

Whoever writes through `set` or `map` leaves the pads as the layout promises: pads are written, not hoped for. Views
(`submemory`, `reshape`, `permute`) share the storage, and its lock: while it is mapped, nobody else touches it.

Two things come from DSP memories. Chunks may lie anywhere: `chunk_table` gives the address of each, `chunk_start`
tells it for an index. And a quantized tensor has two faces, the stored integers (`numpy`, `set`) and the real numbers
they stand for (`real`, `set_real`).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray

from layout_ir.algebra.binding import check_addresses
from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.arrays.descriptor import TensorDesc
from layout_ir.arrays.interop import ArrayInterop
from layout_ir.arrays.protocols import array_of, element_type_of, layout_and_row, storage_of, strides_of
from layout_ir.arrays.storage import Storage, allocate, gather, row_of, scatter
from layout_ir.elements.aligned_arrays import aligned_empty
from layout_ir.elements.element_types import ELEMENT_TYPES, ElementType, bits_of, element_type
from layout_ir.elements.narrow_floats import decoded, encoded
from layout_ir.elements.numpy_types import narrow, widen
from layout_ir.elements.quantization import to_real, to_stored
from layout_ir.errors import LayoutError, public_methods
from layout_ir.forking import loading

Array = NDArray[Any]
Mode = Literal["r", "w", "rw"]

_LARGE = 1 << 18
"""Elements from which a compiled reorder (10 ms, 0.4 ns each) wins against tables of addresses (20 ns each)."""


def _encoded(numbers: Array, dtype: str) -> Array:
    """Floats as the bits of the nearest where NumPy has no such type; what is too large is infinity, or NaN."""
    return narrow(numbers, dtype) if dtype == "bf16" else encoded(numbers, dtype, saturate=False)


_ADDED_TYPES = {known.array_name: known for known in ELEMENT_TYPES if known.array_name != known.storage}
"""The element types that ml_dtypes adds to NumPy's, by their names there."""


def _as_numbers(array: Array, dtype: str, target: object) -> Array:
    """`array` for a tensor of `dtype`: of a type that ml_dtypes adds to NumPy its bits, where the tensor has that type,
    else its numbers, which f32 holds exactly; of objects the floats or integers that they stand for. Any other array of
    numbers as it is. Raises LayoutError, which names the `target`, where the elements are no real numbers."""
    added = _ADDED_TYPES.get(array.dtype.name)
    if added is not None:
        is_same = added.is_float and added.name == dtype
        return array.view(storage_of(dtype)) if is_same else array.astype(np.float32)
    kind = array.dtype.kind
    if kind == "O":
        try:
            return array.astype(np.float64 if element_type(dtype).is_float else np.int64)
        except (OverflowError, TypeError, ValueError) as error:
            raise LayoutError(f"an array of objects is no {target}: {error}") from error
    if kind == "c":
        raise LayoutError(f"numbers of {array.dtype} do not fit {target}: say which part of them")
    if kind not in "biuf":
        raise LayoutError(
            f"an array of {array.dtype} holds no numbers for {target}: convert it to some first"
        )
    return array


def _held(values: object, array: Array, element: ElementType, target: object) -> Array:
    """`array`, which NumPy makes of numbers of Python, as integers of the element type, as NumPy assigns them: together
    with small ones it takes those from 2^63 on for floats, and loses what lies between.

    Raises LayoutError for an integer outside of the element type. Those of an array wrap around.
    """
    if element.kind not in ("signed", "unsigned") or array.dtype.kind not in "iuf" or not array.size:
        return array
    if array.dtype.kind != "f":
        for number in (int(array.min()), int(array.max())):
            if not element.holds(number):
                low, high = element.range
                raise LayoutError(
                    f"{number} is outside {element.name}, {low} to {high}, the elements of {target}"
                )
    if element.is_packed:
        return array
    try:
        return np.asarray(values, storage_of(element.name))
    except (OverflowError, ValueError) as error:  # of an infinity, a NaN
        raise LayoutError(f"{error}: the elements of {target} are {element.name}") from error


class _None:
    """The type of NONE."""

    def __repr__(self) -> str:
        return "NONE"

    def __reduce__(self) -> str:
        return "NONE"  # copies and what is unpickled are the one value


NONE: Final = _None()
"""No buffer: `Memory(desc, NONE)`."""


@public_methods
class Memory(ArrayInterop):
    """A tensor in memory. See the module for what the buffer may be.

    `chunk_table` (for layouts with a bar) holds one address per chunk, in elements; the chunks must not overlap.
    Raises LayoutError where the buffer is too small, is no row of bytes or elements, or the layout is not known.
    """

    __slots__ = ("_storage", "desc")

    desc: TensorDesc

    def __init__(self, desc: TensorDesc, buffer: Any = None, *, chunk_table: Sequence[int] | None = None):
        if not isinstance(desc, TensorDesc):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise LayoutError(f"a memory is that of a TensorDesc, not of {desc!r}")
        self.desc = desc
        self._storage = Storage(None, chunk_size=0 if desc.is_zero else desc.layout.chunk_size)
        if not desc.is_zero:
            check_addresses(desc.layout)
        if chunk_table is not None:
            self._set_table(chunk_table)
        if desc.is_zero:
            if buffer is not None and buffer is not NONE:
                raise LayoutError("the zero descriptor describes no tensor, so it takes no buffer")
        elif buffer is None:
            self._storage.data = allocate(self.nbytes, desc.dtype)
            self.fill_pads()
        elif buffer is not NONE:
            self.set_data(buffer)

    # The buffer -----------------------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes the buffer must have."""
        reach = self._storage.reach
        return self.desc.nbytes if reach is None else -(-reach * bits_of(self.desc.dtype) // 8)

    @property
    def has_data(self) -> bool:
        """Whether there is a buffer."""
        return self._storage.data is not None

    @property
    def data(self) -> Array:
        """The physical buffer: elements from address 0 on, pads and holes included. Raises LayoutError without one."""
        with self._storage.using(self._what):
            return self._row

    @property
    def _what(self) -> str:
        return f"memory of {self.desc}"

    @property
    def _row(self) -> Array:
        """`data`, for a caller who uses or has mapped the storage."""
        if self._storage.data is None:
            raise LayoutError(f"{self._what} holds no buffer: give it one with set_data")
        return self._storage.data

    def set_data(self, buffer: Any) -> None:
        """Takes `buffer` (any buffer of bytes or elements, or NONE) instead of the one before. Contents stay.

        Arrays that were handed out before show, and keep alive, the buffer that they were made of.
        """
        taken = None if buffer is NONE else row_of(buffer, self.desc.dtype, self.nbytes, str(self.desc))
        with self._storage.mapping(self._what):
            self._storage.data = taken

    @contextmanager
    def map(self, mode: Mode = "rw") -> Generator[Array]:
        """The physical buffer, exclusively, until the `with` ends; afterwards pads are as the layout promises.

        Until then every other access, of this memory or of a view and from any thread, is a LayoutError; arrays that
        were handed out before are not kept from anything. With mode "r" the array is read-only. Raises LayoutError if
        the storage is mapped already, or if another thread is just reading or writing it.
        """
        if mode not in ("r", "w", "rw"):
            raise LayoutError(f"map mode '{mode}' is none of r, w, rw")
        with self._storage.mapping(self._what):
            data = self._row
            if mode != "r":
                self._check_writable()
            window = data.view()
            window.flags.writeable = mode != "r" and data.flags.writeable
            try:
                yield window
            finally:
                # A reference that outlives the map must not write behind its back.
                window.flags.writeable = False
                if mode != "r":
                    self._fill_pads()

    def _check_writable(self) -> None:
        if not self._row.flags.writeable:
            raise LayoutError(f"the buffer behind {self.desc} is read-only")

    # Elements -------------------------------------------------------------------------------------------------

    def _gather(self, addresses: NDArray[np.int64]) -> Array:
        return gather(self._row, self._storage.physical(addresses), self.desc.dtype)

    def _scatter(self, addresses: NDArray[np.int64], values: Any) -> None:
        self._check_writable()
        scatter(self._row, self._storage.physical(addresses), values, self.desc.dtype)

    def strided(self) -> Array | None:
        """The tensor as a NumPy array that shares the storage; None where one stride per dim does not say it."""
        with self._storage.using(self._what):
            return self._strided()

    def _strided(self) -> Array | None:
        layout = self.desc.layout
        strides = strides_of(layout)
        whole = bits_of(self.desc.dtype) % 8 == 0
        if strides is None or self._storage.table is not None or not whole:
            return None
        data = self._row
        first = layout.address([0] * layout.rank) if layout.nelems else 0
        steps = [s * data.itemsize for s in strides]
        return np.ndarray(layout.shape, data.dtype, data, first * data.itemsize, steps)

    def numpy(self, *, copy: bool | None = None) -> Array:
        """The tensor in its logical shape. `copy` None: shared storage where possible; False: that or LayoutError."""
        with self._storage.using(self._what):
            return self._numpy(copy)

    def _numpy(self, copy: bool | None) -> Array:
        view = self._strided()
        if view is not None:
            return view.copy() if copy else view
        if copy is False:
            raise LayoutError(f"memory of {self.desc} is no array of one stride per dim: it takes a copy")
        layout = self.desc.layout
        if self._is_compiled():
            result = aligned_empty(layout.shape, self._row.dtype)
            if _copy_compiled((layout, self._row), layout_and_row(result), self.desc.dtype):
                return result
        return self._gather(layout.addresses())

    def set(self, values: Any) -> None:
        """Writes the tensor from an array of its logical shape (or one that broadcasts to it), and its pads.

        Values are converted as NumPy's assignment does, numbers to the nearest bf16, f8 or f4, but for arrays of
        integers as wide as these are kept in (of 16 bits, of 8), which hold their bits; see `set_real` for
        quantization. Raises LayoutError for integers of Python that an integer type does not hold, and where the layout
        keeps several elements at one address, since all but one would be lost.
        """
        with self._storage.using(self._what):
            self._set(values)

    def _set(self, values: Any) -> None:
        array = _as_numbers(array_of(values), self.desc.dtype, self.desc)
        element = element_type(self.desc.dtype)
        if not hasattr(values, "dtype"):
            array = _held(values, array, element, self.desc)
        is_bits = array.dtype.kind in "iu" and array.itemsize == storage_of(self.desc.dtype).itemsize
        is_added = element.is_float and element.array_name in _ADDED_TYPES
        if is_added and array.dtype.kind in "fiub" and not is_bits:
            array = _encoded(array, self.desc.dtype)
        shape = self.desc.layout.shape
        try:
            array = np.broadcast_to(array, shape)
        except ValueError:
            raise LayoutError(f"an array of shape {array.shape} does not fit {self.desc}") from None
        self._check_writable()
        self._check_injective()
        view = self._strided()
        if view is not None:
            view[...] = array
        elif self._is_compiled():
            stored = np.asarray(array, self._row.dtype, order="C")
            if _copy_compiled(layout_and_row(stored), (self.desc.layout, self._row), self.desc.dtype):
                if self.desc.layout.pad == "zp":  # a number that only the descriptor knows
                    self._fill_pads()
                return
            self._scatter(self.desc.layout.addresses(), stored)
        else:
            self._scatter(self.desc.layout.addresses(), array)
        self._fill_pads()

    def _check_injective(self) -> None:
        """Raises LayoutError where two elements share an address: counted where the algebra does not decide."""
        layout = self.desc.layout
        alone = layout.is_injective(padded=False)
        if alone is None:
            alone = np.unique(layout.addresses()).size == layout.nelems
        if not alone:
            raise LayoutError(
                f"{self._what} keeps several elements at one address, so it can be read but not set"
            )

    def _is_compiled(self) -> bool:
        """Whether the tensor is large, of whole bytes, and lies where its layout says, not a chunk table."""
        whole = bits_of(self.desc.dtype) % 8 == 0
        return whole and self.desc.layout.nelems >= _LARGE and self._storage.table is None

    def address(self, index: Sequence[int]) -> int:
        """Where the element of `index` lies in the buffer, in elements."""
        return int(self._storage.physical(np.array(self.desc.layout.address(index), np.int64)))

    def fill_pads(self) -> None:
        """Writes what the pad policy promises to every pad. Does nothing where it promises nothing."""
        with self._storage.using(self._what):
            self._fill_pads()

    def _fill_pads(self) -> None:
        if self.desc.is_zero or (value := self.desc.pad_value) is None or not self.desc.layout.is_padded:
            return
        layout = self.desc.layout
        pads = layout.pad_addresses()
        if layout.is_injective() is not True:
            # Where strides overlap, an element wins over the pad at the same address.
            pads = np.setdiff1d(pads, layout.addresses())
        self._scatter(pads, self._stored(value))

    def _stored(self, value: Any) -> Any:
        """One number as it is stored."""
        element = element_type(self.desc.dtype)
        if element.is_float and element.storage != element.array_name:
            return _encoded(np.asarray(value, np.float64), self.desc.dtype)
        return value

    # Chunks ---------------------------------------------------------------------------------------------------

    def _set_table(self, table: Sequence[int]) -> None:
        layout = self.desc.layout
        size = layout.chunk_size
        if not size:
            raise LayoutError(
                f"{layout} has no chunks, so a chunk table has no meaning: its format has no bar"
            )
        if layout.offset:
            raise LayoutError(
                f"{layout} has offset {layout.offset}, but a chunk table says where memory starts"
            )
        count = -(-layout.span // size)
        if len(table) != count:
            raise LayoutError(f"chunk table of {len(table)} entries for {layout}, which has {count} chunks")
        self._storage.set_table(table)

    def chunk_start(self, index: Sequence[int]) -> int:
        """Address, in elements, of the first element of the chunk that holds `index`."""
        size = self._storage.chunk_size
        if not size:
            raise LayoutError(f"{self.desc} has no chunks: its format has no bar")
        first = self.desc.layout.address(index) // size * size
        return int(self._storage.physical(np.array(first, np.int64)))

    # Quantized numbers ----------------------------------------------------------------------------------------

    def real(self) -> NDArray[np.float32]:
        """The real numbers: (stored - zero_point) * scale, f32, a copy of the logical shape."""
        stored = self.numpy()
        if element_type(self.desc.dtype).is_narrow_float:
            stored = decoded(stored, self.desc.dtype)
        if self.desc.dtype == "bf16":
            return widen(stored, "bf16")
        return to_real(stored, self.desc.scale or 1.0, self.desc.zero_point)

    def set_real(self, values: Any) -> None:
        """Writes real numbers: divided by scale, shifted by the zero point, rounded to nearest even, saturated."""
        dtype = self.desc.dtype
        stored = to_stored(
            _as_numbers(array_of(values), "f64", self.desc),
            dtype,
            self.desc.scale or 1.0,
            self.desc.zero_point,
        )
        self.set(encoded(stored, dtype, saturate=True) if element_type(dtype).is_narrow_float else stored)

    # Views ----------------------------------------------------------------------------------------------------

    def submemory(self, shape: Sequence[int], offsets: Sequence[int]) -> Memory:
        """The box of extents `shape` at `offsets`; shares the storage."""
        return self._viewed(self.desc.submemory(shape, offsets))

    def reshape(self, shape: Sequence[int]) -> Memory:
        """The same storage seen as `shape`."""
        return self._viewed(self.desc.reshape(shape))

    def permute(self, order: Sequence[int]) -> Memory:
        """The same storage, transposed as NumPy does."""
        return self._viewed(self.desc.permute(order))

    def permute_axes(self, perm: Sequence[int]) -> Memory:
        """The same storage, dim d becoming dim perm[d]."""
        return self._viewed(self.desc.permute_axes(perm))

    def _viewed(self, desc: TensorDesc) -> Memory:
        view = object.__new__(Memory)
        view.desc = desc
        view._storage = self._storage
        return view

    # NumPy arrays ---------------------------------------------------------------------------------------------

    @classmethod
    def from_numpy(
        cls, array: Array, layout: Layout | Format | str | None = None, dtype: str | None = None, *,
        scale: float | None = None, zero_point: int = 0, copy: bool | None = None,
    ) -> Self:  # fmt: skip
        """The tensor `array` in `layout` (None: as it lies). Shares the array's memory where it lies so already.

        `dtype` names the element type where NumPy's does not say it (bf16 as uint16 bits, i4 as int8). With `copy`
        False a layout the array does not have is a LayoutError; with True memory is always new.
        """
        array = array_of(array)
        if dtype is None:
            dtype = element_type_of(array.dtype).name
        array = _as_numbers(array, dtype, dtype)
        there = layout_and_row(array)
        wanted = TensorDesc(
            array.shape, dtype, there[0] if layout is None and there else layout,
            scale=scale, zero_point=zero_point,
        )  # fmt: skip
        whole = bits_of(wanted.dtype) % 8 == 0 and array.dtype == storage_of(wanted.dtype)
        if there is not None and whole and not copy:
            found, row = there
            # The array brings no pads of its own, and an offset is what the row makes it.
            if wanted.layout.same_store(found) and wanted.layout.extent <= row.size:
                return cls(wanted, row)
        if copy is False:
            raise LayoutError(
                f"an array of strides {array.strides} bytes does not lie as {wanted}: it takes a copy"
            )
        memory = cls(wanted)
        memory.set(array)
        return memory

    def __repr__(self) -> str:
        held = "no buffer" if self._storage.data is None else f"{self._storage.data.nbytes} bytes"
        return f"Memory({self.desc}, {held})"


def _copy_compiled(
    source: tuple[Layout, Array] | None, destination: tuple[Layout, Array] | None, dtype: str
) -> bool:
    """Copies a tensor from one buffer to another by a compiled reorder, which writes the pads as well.

    False, and nothing done, where there is no such kernel or a side has no layout (None).
    """
    if source is None or destination is None:
        return False
    with loading:  # the compiler takes longer to import than small tensors take to move
        from layout_ir.api.reorder_compilation import compile_reorder
    try:
        kernel = compile_reorder(source[0], destination[0], dtype)
    except LayoutError:
        return False
    kernel(source[1], destination[1])
    return True
