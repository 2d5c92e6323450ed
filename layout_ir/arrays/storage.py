"""The row of elements behind a memory object: allocated or borrowed, read and written by address.

Addresses count elements from the start of the row. Where memory is chunked, a table may put every chunk somewhere
else. Elements of 4 bits share bytes, the even address in the low half.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layout_ir.arrays.protocols import storage_of
from layout_ir.elements.aligned_arrays import at_line
from layout_ir.elements.cache_line import LINE
from layout_ir.elements.element_types import bits_of, element_type
from layout_ir.errors import LayoutError

Array = NDArray[Any]


@dataclass(slots=True)
class Storage:
    """A buffer, shared by a memory and its views."""

    data: Array | None
    """Elements from address 0 on, one-dimensional (bytes, for 4-bit types)."""
    table: NDArray[np.int64] | None = None
    """Address of each chunk, in elements, or None where chunk follows chunk."""
    chunk_size: int = 0
    """Elements per chunk of the memory that owns the buffer, 0 without chunks."""
    mapped: bool = False
    """Whether the buffer is mapped, and so taken by one user alone."""
    _users: int = 0
    """Calls that are reading or writing the buffer just now."""
    _lock: Lock = field(default_factory=Lock)
    """Held while `mapped` and `_users` are read and changed, never longer."""

    def __getstate__(self) -> tuple[Array | None, NDArray[np.int64] | None, int]:
        return self.data, self.table, self.chunk_size

    def __setstate__(self, state: tuple[Array | None, NDArray[np.int64] | None, int]) -> None:
        self.__init__(*state)

    @contextmanager
    def mapping(self, what: str) -> Generator[None]:
        """Takes the buffer for one user alone until the `with` ends.

        Raises LayoutError where it is mapped already, and where another thread reads or writes it just now.
        """
        with self._lock:
            self._check_free(what)
            if self._users:
                raise LayoutError(f"{what} is in use by another thread: it cannot be mapped now")
            self.mapped = True
        try:
            yield
        finally:
            self.mapped = False

    @contextmanager
    def using(self, what: str) -> Generator[None]:
        """Keeps the buffer from being mapped until the `with` ends. Raises LayoutError where it is mapped already."""
        with self._lock:
            self._check_free(what)
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1

    def _check_free(self, what: str) -> None:
        if self.mapped:
            raise LayoutError(f"{what} is mapped: leave the map before touching it another way")

    def set_table(self, table: Sequence[int]) -> None:
        """Puts chunk k at address table[k]. Raises LayoutError where chunks overlap."""
        starts, chunk_size = sorted(table), self.chunk_size
        if any(start < 0 for start in starts) or any(b - a < chunk_size for a, b in pairwise(starts)):
            raise LayoutError(
                f"chunk table {list(table)[:8]} overlaps or starts below 0: chunks hold {chunk_size} elements"
            )
        self.table = np.array(table, np.int64)

    @property
    def reach(self) -> int | None:
        """Elements up to the end of the last chunk of the table, or None without a table."""
        return None if self.table is None else int(self.table.max(initial=-self.chunk_size)) + self.chunk_size

    def physical(self, addresses: NDArray[np.int64]) -> NDArray[np.int64]:
        """Addresses in the row, with chunks where the table has them."""
        if self.table is None:
            return addresses
        chunk, inside = np.divmod(addresses, self.chunk_size)
        return self.table[chunk] + inside


def allocate(nbytes: int, dtype: str) -> Array:
    """A zeroed row of `nbytes` bytes, aligned for vector code. Raises LayoutError where there is not as much memory."""
    try:
        raw = np.zeros(nbytes + LINE, np.uint8)
    except (MemoryError, ValueError) as error:  # NumPy calls sizes that it cannot say a ValueError
        raise LayoutError(f"cannot allocate {nbytes} bytes of {dtype}: {error}") from None
    return at_line(raw, nbytes).view(storage_of(dtype))


def row_of(buffer: Any, dtype: str, nbytes: int, what: str) -> Array:
    """`buffer` (bytes or elements) as a row of stored elements, not copied; the row keeps it alive.

    Raises LayoutError where it is none, or has less than `nbytes` bytes.
    """
    try:
        raw: Array = np.asarray(buffer) if hasattr(buffer, "ctypes") else np.frombuffer(buffer, np.uint8)
    except (TypeError, ValueError, BufferError) as error:
        raise LayoutError(f"cannot take {type(buffer).__name__} as the buffer of {what}: {error}") from None
    if not raw.flags.c_contiguous:
        raise LayoutError(
            f"cannot take an array of strides {raw.strides} bytes as a buffer: a buffer is one row"
        )
    if raw.nbytes < nbytes:
        raise LayoutError(f"buffer of {raw.nbytes} bytes for {what}, which needs {nbytes}")
    stored, row = storage_of(dtype), raw.reshape(-1)
    if row.dtype == stored:
        return row
    if row.dtype.itemsize != 1:
        raise LayoutError(f"buffer of {row.dtype} for elements of {dtype}, which are stored as {stored}")
    return row[: row.nbytes // stored.itemsize * stored.itemsize].view(stored)


def gather(row: Array, where: NDArray[np.int64], dtype: str) -> Array:
    """The elements at addresses `where`, 4-bit ones widened to 8."""
    if bits_of(dtype) >= 8:
        return row[where]
    half = (row[where >> 1] >> ((where & 1) * 4)).astype(np.uint8) & 15
    return half if not element_type(dtype).is_signed else ((half ^ 8).astype(np.int8) - 8).astype(np.int8)


def scatter(row: Array, where: NDArray[np.int64], values: Any, dtype: str) -> None:
    """Writes `values` to addresses `where`; of 4-bit elements the low bits."""
    if bits_of(dtype) >= 8:
        row[where] = values
        return
    halves = np.broadcast_to(np.asarray(values).astype(np.int64).astype(np.uint8) & 15, where.shape)
    # Two neighbours share a byte, so even and odd addresses are written one after the other.
    for odd in (0, 1):
        mine = (where & 1) == odd
        at = where[mine] >> 1
        row[at] = (row[at] & (240 >> (4 * odd))) | (halves[mine] << (4 * odd)).astype(np.uint8)
