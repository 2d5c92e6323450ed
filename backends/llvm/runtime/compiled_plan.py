"""A plan as machine code: a function of two buffers, and what it asks of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from operator import index
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from layout_ir.backends.llvm.emission.emit import emit_module, version
from layout_ir.backends.llvm.machine.machine import Machine, host
from layout_ir.backends.llvm.runtime import thread_pool
from layout_ir.backends.llvm.runtime.array_kinds import check_kind
from layout_ir.backends.llvm.runtime.entry import entry
from layout_ir.backends.llvm.runtime.jit import Code
from layout_ir.caches import keeps_kernels
from layout_ir.dialects.kernel.plan import Plan
from layout_ir.elements.quantization import PARAMETERS
from layout_ir.errors import LayoutError

Values = Mapping[str, Any]
"""Runtime parameters: quantization parameters that are given with a call, by name."""


def check_buffer(array: NDArray[Any], plan: Plan, *, writes: bool, size: int) -> None:
    """Raises LayoutError where `array` is no row of at least `size` bytes of the elements that `plan` takes there.

    It is the destination where the plan `writes` it, else the source.
    """
    side, width = "destination" if writes else "source", plan.widths[writes]
    if array.itemsize != width:
        raise LayoutError(f"the {side} has elements of {array.itemsize} bytes, the kernel moves {width}")
    check_kind(array.dtype, side, plan.elements[writes])
    if not array.flags.c_contiguous:
        raise LayoutError(f"the {side} is not contiguous: strides {array.strides}")
    if array.nbytes < size:
        raise LayoutError(f"the {side} has {array.size} elements, its layout needs {size // width}")
    if writes and not array.flags.writeable:
        raise LayoutError("the destination is read-only")


def _addressed(address: int, side: str, size: int) -> int:
    """`address`, if `size` bytes can begin there: whether they do, only the caller knows. Raises LayoutError."""
    if not (0 < address < (1 << 64) - size or size == 0):
        raise LayoutError(f"the {side} cannot begin at address {address:#x}: {size} bytes are needed there")
    return address


class Reorder:
    """A compiled reorder: `kernel(source, destination)`.

    Both are contiguous NumPy arrays (anything with a buffer) of elements as wide as the kernel's and, where it converts
    them, of their kind (see `array_kinds`), at least `plan.src_bytes` and `plan.dst_bytes` long, or integer addresses,
    which are trusted. They must not overlap, except that one buffer may be both where the plan is safe in place. Source
    pads are never read; of the destination only elements, and pads if its layout has a policy, are written. The GIL
    is released meanwhile. LayoutError says what does not fit.

    Where the elements are converted with parameters that are not compiled in, a call is given them:
    `kernel(source, destination, values)`, a dict of arrays by the names that `plan.conversion.at_run_time` lists.
    """

    # A call finds the compiled entry in the slot of this name: no Python frame in between.
    __slots__ = ("__call__", "_checked", "plan")

    __call__: Callable[..., None]

    def __init__(self, plan: Plan, code: Code, name: str, threads: int = 1) -> None:
        self.plan = plan
        checked = _Checked(plan, code, name, threads)
        self._checked = checked
        if plan.conversion is not None and plan.conversion.at_run_time:
            self.__call__ = checked
            return
        parallel = thread_pool.ensure(threads).address if threads > 1 else 0
        threads = checked.threads
        sizes = checked.sizes
        self.__call__ = entry(
            checked.kernel, parallel, threads, sizes, plan.widths, plan.in_place_safe, checked, plan.elements
        )

    @property
    def address(self) -> int:
        """Where the machine code begins: a C function of the type that `signature` says, for callers outside Python.

        It is valid as long as this kernel lives. It checks nothing, needs no GIL and may run in any number of threads.
        """
        return self._checked.kernel

    @property
    def code(self) -> Code:
        """The machine code, which lives as long as this kernel."""
        return self._checked.code

    @property
    def signature(self) -> str:
        """The C prototype of the function at `address`. Part 0 of 1 is the whole reorder.

        Where the elements are converted with parameters that are not compiled in, the first argument is an array of
        addresses: source, destination, then those of `PARAMETERS`, each of which is a row of numbers
        (floats, or doubles where the conversion computes in f64), or is not read where the conversion has none.
        """
        if self.plan.conversion is not None and self.plan.conversion.at_run_time:
            first = f"const void *const arguments[{2 + len(PARAMETERS)}], void *unused"
        else:
            first = "const void *src, void *dst"
        return f"void reorder({first}, int64_t part, int64_t parts)"

    @property
    def threads(self) -> int:
        """How many threads share a call."""
        return self._checked.threads % thread_pool.NO_WAKE

    def run_part(self, src: int, dst: int, part: int, parts: int, values: Values | None = None) -> None:
        """Runs part number `part` of `parts` of the work, between trusted addresses."""
        places, _keep = self._checked.arguments(src, dst, values)
        self._checked.call(*places, part, parts)


class _Checked:
    """The checked call of a kernel in Python: every argument is looked at, and refused with a reason.

    The compiled entry (`entry`) calls it with whatever it does not know to be right.
    """

    def __init__(self, plan: Plan, code: Code, name: str, threads: int = 1) -> None:
        self.plan = plan
        self.code = code  # keeps the machine code
        self.call = thread_pool.PART_SIGNATURE(code.address(name))
        self.sizes = index(plan.src_bytes), index(plan.dst_bytes)
        no_wake = threads > 1 and sum(self.sizes) < threads * host().profile.wake_bytes
        self.threads = threads + thread_pool.NO_WAKE if no_wake else threads
        self.kernel = code.address(name)

    def __call__(self, src: Any, dst: Any, values: Values | None = None) -> None:
        src_bytes, dst_bytes = self.sizes
        a = self.address(src, src_bytes, writes=False)
        b = self.address(dst, dst_bytes, writes=True)
        apart = a >= b + dst_bytes or b >= a + src_bytes
        if not apart and not (a == b and self.plan.in_place_safe):
            raise LayoutError("source and destination overlap: a reorder needs two buffers")
        (a, b), _keep = self.arguments(a, b, values)
        if self.threads == 1:
            self.call(a, b, 0, 1)
        else:
            thread_pool.ensure(self.threads % thread_pool.NO_WAKE).parallel(self.kernel, a, b, self.threads)

    def arguments(self, src: int, dst: int, values: Values | None) -> tuple[tuple[int, int], object]:
        """The two addresses that the kernel takes, and the arrays behind them, which must outlive the call."""
        conversion = self.plan.conversion
        names = conversion.at_run_time if conversion is not None else ()
        given: Values = {} if values is None else values
        if not isinstance(given, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise LayoutError(f"parameters are a dict of arrays by name, given is a {type(values).__name__}")
        if set(given) != set(names):
            raise LayoutError(
                f"the kernel takes {', '.join(names) or 'no parameters'}, "
                f"given are {', '.join(map(str, given)) or 'none'}"
            )
        if conversion is None or not names:
            return (src, dst), None
        number = np.dtype(np.float32 if conversion.computes == "f32" else np.float64)
        arrays: dict[str, NDArray[Any]] = {}
        for name in names:
            try:
                array = arrays[name] = np.ascontiguousarray(given[name], number)
            except (TypeError, ValueError) as error:
                raise LayoutError(f"{name} is no array of {number}: {error}") from error
            wanted = conversion.channels if conversion.parameters[name] == "channel" else 1
            if array.size != wanted:
                raise LayoutError(f"{name} has {array.size} numbers, the kernel takes {wanted}")
        pointers = [int(arrays[name].ctypes.data) if name in arrays else 0 for name in PARAMETERS]
        block = np.array([src, dst, *pointers], np.uint64)
        return (int(block.ctypes.data), 0), (block, arrays)

    def address(self, buffer: Any, size: int, *, writes: bool) -> int:
        """The address where `buffer`, an array or an address, begins. Raises LayoutError where it does not fit."""
        side = "destination" if writes else "source"
        given: object = buffer
        kind = type(given).__name__
        if isinstance(given, int) and not isinstance(given, bool):
            return _addressed(given, side, size)
        try:
            # A list would be copied, so it is not accepted.
            view = cast(Any, buffer if isinstance(given, np.ndarray) else memoryview(buffer))
            array: NDArray[Any] = np.asarray(view)
        except (TypeError, ValueError, NotImplementedError) as error:
            raise LayoutError(
                f"the {side} is a {kind}, which is no buffer of elements ({error}): give a NumPy "
                "array, another buffer or an address"
            ) from error
        check_buffer(array, self.plan, writes=writes, size=size)
        return int(array.ctypes.data)


@keeps_kernels
@lru_cache(maxsize=1024)
def load(plan: Plan, machine: Machine, threads: int = 1) -> Reorder:
    """The kernel of `plan` for `machine`, compiled or read from the code cache; the same object for the same plan."""
    key = f"{version()} {plan!r}"
    code = Code(lambda: emit_module({"reorder": plan}, machine), machine, ("reorder",), key=key)
    return Reorder(plan, code, "reorder", threads)
