"""Tensors that go to other libraries and come from them: torch, and whoever speaks DLPack or the buffer protocol.

All of it goes by way of NumPy. What comes in is a NumPy array first, what goes out is the strided view of the memory:
shared where one stride per dim says the layout, refused by the protocols and copied by the conversions elsewhere.
bfloat16, which NumPy does not have, travels as the uint16 that holds its bits and is relabelled at the border.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.arrays.descriptor import TensorDesc
from layout_ir.arrays.protocols import Relabelled, relabel
from layout_ir.errors import LayoutError, public_methods

Array = NDArray[Any]


@public_methods
class ArrayInterop(ABC):
    """Everything that follows from a NumPy array in, a NumPy array out, and the buffer behind it."""

    __slots__ = ()

    desc: TensorDesc

    @classmethod
    @abstractmethod
    def from_numpy(
        cls,
        array: Array,
        layout: Layout | Format | str | None = None,
        dtype: str | None = None,
        *,
        copy: bool | None = None,
    ) -> Self:
        """The tensor `array` in `layout` (None: as it lies)."""

    @abstractmethod
    def numpy(self, *, copy: bool | None = None) -> Array:
        """The tensor in its logical shape. `copy` None: shared storage where possible; False: that or LayoutError."""

    @abstractmethod
    def strided(self) -> Array | None:
        """The tensor as a NumPy array that shares the storage; None where one stride per dim does not say it."""

    @property
    @abstractmethod
    def data(self) -> Array:
        """The physical buffer. Raises LayoutError without one."""

    # Libraries ------------------------------------------------------------------------------------------------

    @classmethod
    def from_dlpack(
        cls, tensor: Any, layout: Layout | Format | str | None = None, *, copy: bool | None = None
    ) -> Self:
        """The tensor of another library (torch, JAX, CuPy on the host); shares its memory where it lies as `layout`.

        A tensor of torch whose numbers are negated when they are read (`is_neg`) does not, and is a LayoutError with
        `copy` False.
        """
        bf16 = "bfloat16" in str(getattr(tensor, "dtype", ""))
        if getattr(tensor, "requires_grad", False):
            tensor = tensor.detach()
        if hasattr(tensor, "is_neg") and tensor.is_neg():
            # Its memory holds them as they were before, of which torch says nothing to DLPack.
            if copy is False:
                raise LayoutError(
                    "torch negates the numbers of this tensor when it reads them: it takes a copy"
                )
            tensor = tensor.resolve_neg()
        try:
            array = np.from_dlpack(Relabelled(tensor) if bf16 else tensor)
        except (AttributeError, BufferError, RuntimeError, TypeError) as error:
            raise LayoutError(f"cannot take {type(tensor).__name__} through DLPack: {error}") from None
        return cls.from_numpy(array, layout, "bf16" if bf16 else None, copy=copy)

    @classmethod
    def from_torch(
        cls, tensor: Any, layout: Layout | Format | str | None = None, *, copy: bool | None = None
    ) -> Self:
        """A torch tensor on the CPU; shares its memory where it lies as `layout` (None: always)."""
        return cls.from_dlpack(tensor, layout, copy=copy)

    def torch(self, *, copy: bool | None = None) -> Any:
        """The tensor as a torch tensor; shares storage under the same rule as `numpy`."""
        import torch

        array = self.numpy(copy=copy)
        unknown = "negative strides" if any(s < 0 for s in array.strides) else None
        if unknown is None and not array.flags.writeable:
            unknown = "a read-only buffer"
        if unknown is not None:
            if copy is False:
                raise LayoutError(
                    f"memory of {self.desc} has {unknown}, which torch has not: it takes a copy"
                )
            array = array.copy()
        module: Any = torch
        tensor = module.from_numpy(array)
        return tensor.view(module.bfloat16) if self.desc.dtype == "bf16" else tensor

    # Protocols ------------------------------------------------------------------------------------------------

    def _shared(self, protocol: str) -> Array:
        view = self.strided()
        if view is None:
            raise AttributeError(
                f"{protocol} needs one stride per dim, but memory holds {self.desc}: see numpy()"
            )
        return view

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """NumPy's protocol. It names the buffer itself, not its address: an array made of it keeps the buffer alive
        where the memory is given another one."""
        view = self._shared("__array_interface__")
        row = self.data
        offset = view.__array_interface__["data"][0] - row.__array_interface__["data"][0]
        return {**view.__array_interface__, "data": row, "offset": offset}

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        array = self.numpy(copy=copy)
        if dtype is None or array.dtype == dtype:
            return array
        if copy is False:
            raise LayoutError(
                f"memory of {self.desc} is an array of {array.dtype}: {np.dtype(dtype)} takes a copy"
            )
        return array.astype(dtype)

    def __buffer__(self, flags: int) -> memoryview:
        """The buffer protocol (Python 3.12 calls this): the strided tensor.

        Raises BufferError where it is not one: NumPy asks here first, and would take the physical row for the tensor.
        """
        try:
            exporter: Any = self._shared("the buffer protocol")
        except AttributeError as error:
            raise BufferError(f"{error}, or `data` for the physical row") from None
        return memoryview(exporter)

    def __dlpack__(self, **options: Any) -> Any:
        try:
            capsule = self._shared("DLPack").__dlpack__(**options)
        except AttributeError as error:
            raise BufferError(str(error)) from None
        return relabel(capsule, to_bf16=True) if self.desc.dtype == "bf16" else capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # kDLCPU
