"""The installed oneDNN bound by ctypes (C API, version 3): an engine, streams, memory objects, threads.

`passes.selection.options.onednn_package` says which packages bring it and which is taken.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from ctypes import POINTER, byref, c_char, c_char_p, c_float, c_int, c_int64, c_size_t, c_uint, c_void_p
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from layout_ir.elements.element_types import element_type
from layout_ir.errors import LayoutError
from layout_ir.passes.selection.options.onednn_package import (
    installed,
    instruction_set,
    is_sycl,
    load,
    sums_bytes_exactly,
)

MAX_NDIMS = 12

_CPU, _IN_ORDER = 1, 1
_PAUSE_SOFT = 1  # of OpenMP: what is given back is made again when it is needed

_IMPLEMENTATION = 8
"""The query for the name of an implementation."""

_STATUS = {1: "out of memory", 2: "invalid arguments", 3: "unimplemented", 5: "runtime error"}


class Refused(Exception):
    """The library has no implementation for what it was asked, or takes no such arguments."""


class _Version(ctypes.Structure):
    _fields_ = [("major", c_int), ("minor", c_int), ("patch", c_int)]


class ExecutionArgument(ctypes.Structure):
    """One argument of an execution (`dnnl_exec_arg_t`): which one, and the memory object."""

    _fields_ = [("argument", c_int), ("memory", c_void_p)]


_PRIMITIVE_ARGUMENTS: dict[str, list[Any]] = {
    "convolution_forward": [c_int, c_int, *[c_void_p] * 8],
    "deconvolution_forward": [c_int, c_int, *[c_void_p] * 8],
    "eltwise_forward": [c_int, c_int, c_void_p, c_void_p, c_float, c_float],
    "binary": [c_int, c_void_p, c_void_p, c_void_p],
    "pooling_forward": [c_int, c_int, *[c_void_p] * 7],
    "prelu_forward": [c_int, c_void_p, c_void_p, c_void_p],
    "softmax_forward": [c_int, c_int, c_void_p, c_void_p, c_int],
    "layer_normalization_forward": [c_int, c_void_p, c_void_p, c_void_p, c_float, c_uint],
    "batch_normalization_forward": [c_int, c_void_p, c_void_p, c_float, c_uint],
    "matmul": [c_void_p] * 4,
    "inner_product_forward": [c_int, *[c_void_p] * 4],
    "reduction": [c_int, c_void_p, c_void_p, c_float, c_float],
    "resampling_forward": [c_int, c_int, c_void_p, c_void_p, c_void_p],
    "concat": [c_void_p, c_int, c_int, c_void_p],
    "lstm_forward": [c_int, c_int, *[c_void_p] * 11, c_uint],
    "gru_forward": [c_int, c_int, *[c_void_p] * 7, c_uint],
    "lbr_gru_forward": [c_int, c_int, *[c_void_p] * 7, c_uint],
    "vanilla_rnn_forward": [c_int, c_int, c_int, *[c_void_p] * 7, c_uint, c_float, c_float],
    "lrn_forward": [c_int, c_int, c_void_p, c_void_p, c_int64, c_float, c_float, c_float],
}
"""Types of the arguments of `dnnl_*_primitive_desc_create` between the engine and the attributes."""


@cache
def _end_threads_before_forks() -> None:
    """Has the thread that forks end the team of threads that it calls with: a child would wait for them for ever. The
    next call has others, in the parent as in the child."""
    pause = getattr(ctypes.CDLL("libgomp.so.1"), "omp_pause_resource_all", None)
    if pause is not None and hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lambda: pause(_PAUSE_SOFT))


class Library:
    """One build of the library, with a CPU engine. Raises OSError or LayoutError where it cannot be used."""

    def __init__(self, path: Path) -> None:
        sycl = is_sycl(path)
        self.api: Any = load(path)
        self.is_synchronous = not sycl
        """Whether an execution is over when its call returns."""
        self._set_threads: Any = None
        self._get_threads: Any = None
        if not sycl:
            openmp = ctypes.CDLL("libgomp.so.1")
            self._set_threads, self._get_threads = openmp.omp_set_num_threads, openmp.omp_get_max_threads
            _end_threads_before_forks()
        _declare(self.api)
        # Its cache of primitives takes descriptors for equal that differ in strides of dims of one element, and then
        # runs the implementation of one on weights that are packed for the other (seen in 3.2).
        self.api.dnnl_set_primitive_cache_capacity(0)
        self.engine = c_void_p()
        if self.api.dnnl_engine_create(byref(self.engine), _CPU, 0):
            raise LayoutError(f"{path.name} offers no CPU engine")
        found = self.api.dnnl_version().contents
        self._computes: dict[str, bool] = {}
        self.version = f"{found.major}.{found.minor}.{found.patch}"
        """The release of the library, as 3.13.2."""
        self.instruction_set = instruction_set(self.api)
        """The instructions that its kernels use, as avx2 or avx512_core_bf16."""
        self.sums_bytes_exactly = sums_bytes_exactly(self.api)
        """Whether sums of products of bytes are those of integers; else pairs of them saturate at 16 bits."""

    def __str__(self) -> str:
        return f"oneDNN {self.version} ({'OpenMP' if self.is_synchronous else 'SYCL'})"

    @property
    def sets_threads(self) -> bool:
        """Whether calls run on as many threads as `use_threads` says; else on all CPUs of the process."""
        return self._set_threads is not None

    def use_threads(self, threads: int) -> None:
        """Has the executions that this thread calls run on so many threads, where the build lets one say it."""
        if self._set_threads is not None:
            self._set_threads(threads)

    def threads(self) -> int:
        """On how many threads the executions that this thread calls run; 0 where the build takes all CPUs."""
        return self._get_threads() if self._get_threads is not None else 0

    @property
    def threads_setter(self) -> int:
        """The address of the C function by which `use_threads` says how many; 0 where the build takes all CPUs."""
        return (ctypes.cast(self._set_threads, c_void_p).value or 0) if self._set_threads is not None else 0

    def check(self, status: int, what: str) -> None:
        """Raises Refused where `status`, of the call that `what` names, is not success."""
        if status:
            raise Refused(f"{what}: {_STATUS.get(status, f'status {status}')}")

    def computes(self, dtype: str) -> bool:
        """Whether it has a compiled matrix product on floats of `dtype`, as the CPU must be able to."""
        if dtype not in self._computes:
            self._computes[dtype] = self._has_product(element_type(dtype).onednn)
        return self._computes[dtype]

    def _has_product(self, code: int) -> bool:
        extents, strides = (32, 32), (32, 1)
        owners: list[Handle] = []
        try:
            for _ in range(3):
                handle = c_void_p()
                call = self.api.dnnl_memory_desc_create_with_strides
                self.check(call(byref(handle), 2, dims(extents), code, dims(strides)), "memory descriptor")
                owners.append(Handle(handle, self.api.dnnl_memory_desc_destroy))
            left, right, result = (owner.value for owner in owners)
            found = c_void_p()
            create = self.api.dnnl_matmul_primitive_desc_create
            self.check(create(byref(found), self.engine, left, right, None, result, None), "matmul")
        except Refused:
            return False
        owner, name = Handle(found, self.api.dnnl_primitive_desc_destroy), c_char_p()
        self.check(self.api.dnnl_primitive_desc_query(owner.value, _IMPLEMENTATION, 0, byref(name)), "matmul")
        return not (name.value or b"").startswith(b"ref")

    def new_stream(self) -> Handle:
        """A stream; executions on one stream are one after the other, so each thread has its own."""
        stream = c_void_p()
        self.check(self.api.dnnl_stream_create(byref(stream), self.engine, _IN_ORDER), "stream")
        return Handle(stream, self.api.dnnl_stream_destroy)

    def new_memory(self, descriptor: c_void_p, address: int) -> Handle:
        """A memory object over the bytes at `address`, which must outlive it."""
        memory = c_void_p()
        self.check(
            self.api.dnnl_memory_create(byref(memory), descriptor, self.engine, c_void_p(address)), "memory"
        )
        return Handle(memory, self.api.dnnl_memory_destroy)


class Handle:
    """An object of the library, destroyed with this one."""

    __slots__ = ("_destroy", "value")

    def __init__(self, value: c_void_p, destroy: Callable[[c_void_p], Any]) -> None:
        self.value = value
        self._destroy = destroy

    def __del__(self) -> None:
        self._destroy(self.value)


def dims(values: Any) -> ctypes.Array[c_int64]:
    """`values` as the library takes lists of extents: an array of its largest rank."""
    return (c_int64 * MAX_NDIMS)(*values)


def _declare(api: Any) -> None:
    """Says the types of what is called: without them an address would be cut to 32 bits."""
    api.dnnl_version.restype = POINTER(_Version)
    api.dnnl_engine_create.argtypes = [c_void_p, c_int, c_size_t]
    api.dnnl_stream_create.argtypes = [c_void_p, c_void_p, c_uint]
    api.dnnl_stream_wait.argtypes = [c_void_p]
    api.dnnl_memory_create.argtypes = [c_void_p, c_void_p, c_void_p, c_void_p]
    api.dnnl_memory_set_data_handle.argtypes = [c_void_p, c_void_p]
    for name in (
        "stream",
        "memory",
        "memory_desc",
        "primitive",
        "primitive_desc",
        "primitive_attr",
        "post_ops",
    ):
        getattr(api, f"dnnl_{name}_destroy").argtypes = [c_void_p]
    api.dnnl_memory_desc_create_with_tag.argtypes = [c_void_p, c_int, c_void_p, c_int, c_int]
    api.dnnl_memory_desc_create_with_strides.argtypes = [c_void_p, c_int, c_void_p, c_int, c_void_p]
    api.dnnl_memory_desc_create_with_string_tag.argtypes = [c_void_p, c_int, c_void_p, c_int, c_char_p]
    api.dnnl_memory_desc_create_submemory.argtypes = [c_void_p] * 4
    api.dnnl_memory_desc_query.argtypes = [c_void_p, c_int, c_void_p]
    api.dnnl_memory_desc_equal.argtypes = [c_void_p, c_void_p]
    api.dnnl_memory_desc_clone.argtypes = [c_void_p, c_void_p]
    api.dnnl_memory_desc_get_size.argtypes = [c_void_p]
    api.dnnl_memory_desc_get_size.restype = c_size_t
    api.dnnl_primitive_attr_create.argtypes = [c_void_p]
    api.dnnl_primitive_attr_set_scratchpad_mode.argtypes = [c_void_p, c_int]
    api.dnnl_primitive_attr_set_post_ops.argtypes = [c_void_p, c_void_p]
    api.dnnl_primitive_attr_set_scales_mask.argtypes = [c_void_p, c_int, c_int]
    api.dnnl_primitive_attr_set_zero_points_mask.argtypes = [c_void_p, c_int, c_int]
    api.dnnl_post_ops_create.argtypes = [c_void_p]
    api.dnnl_post_ops_append_eltwise.argtypes = [c_void_p, c_int, c_float, c_float]
    api.dnnl_post_ops_append_binary.argtypes = [c_void_p, c_int, c_void_p]
    api.dnnl_post_ops_append_sum.argtypes = [c_void_p, c_float, c_int, c_int]
    api.dnnl_primitive_desc_query_md.restype = c_void_p
    api.dnnl_primitive_desc_query_md.argtypes = [c_void_p, c_int, c_int]
    api.dnnl_primitive_desc_query.argtypes = [c_void_p, c_int, c_int, c_void_p]
    api.dnnl_primitive_create.argtypes = [c_void_p, c_void_p]
    api.dnnl_primitive_get_primitive_desc.argtypes = [c_void_p, c_void_p]
    api.dnnl_sgemm.argtypes = [
        *[c_char] * 2, *[c_int64] * 3, c_float, c_void_p, c_int64, c_void_p, c_int64, c_float, c_void_p, c_int64
    ]  # fmt: skip
    api.dnnl_primitive_execute.argtypes = [c_void_p, c_void_p, c_int, c_void_p]
    api.dnnl_reorder_primitive_desc_create.argtypes = [c_void_p] * 6
    for name, arguments in _PRIMITIVE_ARGUMENTS.items():
        create = getattr(api, f"dnnl_{name}_primitive_desc_create")
        create.argtypes = [c_void_p, c_void_p, *arguments, c_void_p]


# Finding it -------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _found() -> Library | str:
    """The library, or why there is none."""
    reasons: list[str] = []
    for path in installed():
        try:
            return Library(path)
        except (OSError, AttributeError, LayoutError) as error:
            reasons.append(f"{path.name} cannot be used: {error}")
    return "; ".join(reasons) or "oneDNN is not installed"


def unavailable() -> str | None:
    """Why there is no library to run networks by; None where there is one."""
    found = _found()
    return found if isinstance(found, str) else None


def library() -> Library:
    """The library that runs networks. Raises LayoutError, saying what to install, where there is none."""
    found = _found()
    if isinstance(found, str):
        raise LayoutError(f"networks are run by oneDNN ({found}): pip install 'layout-ir[run]'")
    return found
