"""Two builds of oneDNN in one process, by their C API: reorders between tagged descriptors.

The PyPI packages `onednn` (SYCL and TBB: fast for large tensors, 13 us a call) and `onednn-cpu-gomp` (OpenMP: fast for
small ones) install files of the same names over each other; each also has one that carries its version, and that is
taken. Each library is opened by its path, with its symbols to itself, so that neither calls into the other or into
what torch carries along.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import byref, c_char_p, c_int, c_int64, c_uint64, c_void_p
from functools import cache, partial
from pathlib import Path
from typing import Any

from layout_ir.elements.element_types import element_type
from layout_ir.errors import LayoutError
from layout_ir.passes.selection.options import onednn_package

BUILDS = {"onednn": "onednn", "onednn-omp": "onednn-cpu-gomp"}
"""The name of a contender, and the package that brings it."""

_MAX_NDIMS = 12
_CPU, _IN_ORDER, _FROM, _TO = 1, 1, 1, 17


class _Argument(ctypes.Structure):
    _fields_ = [("argument", c_int), ("memory", c_void_p)]


class _Version(ctypes.Structure):
    _fields_ = [("major", c_int), ("minor", c_int), ("patch", c_int)]


class Library:
    """One build, with a CPU engine and a stream. Raises OSError or LayoutError where it cannot be used."""

    def __init__(self, path: Path, *, openmp: bool) -> None:
        self.path = path
        self._openmp = openmp
        self._api: Any = onednn_package.load(path)
        self._api.dnnl_version.restype = ctypes.POINTER(_Version)
        self._engine, self._stream = c_void_p(), c_void_p()
        self._check(self._api.dnnl_engine_create(byref(self._engine), _CPU, c_uint64(0)), "no CPU engine")
        self._check(self._api.dnnl_stream_create(byref(self._stream), self._engine, _IN_ORDER), "no stream")

    @property
    def version(self) -> str:
        """The release of the library, as 3.13.2."""
        found = self._api.dnnl_version().contents
        return f"{found.major}.{found.minor}.{found.patch}"

    def _check(self, status: int, what: str) -> None:
        if status:
            raise LayoutError(f"{self.path.name}: {what} (status {status})")

    def limit(self, threads: int) -> None:
        """Has calls of this thread run on that many. The SYCL build takes all CPUs the process may run on."""
        if self._openmp:
            ctypes.CDLL("libgomp.so.1").omp_set_num_threads(threads)

    def reorder(
        self, shape: Sequence[int], src: tuple[str, str, int], dst: tuple[str, str, int]
    ) -> Callable[[], None]:
        """A call that reorders: a tag in letters, an element type and an address for each side.

        Raises LayoutError where the library has no such reorder.
        """
        api, descs, memories = self._api, [c_void_p(), c_void_p()], [c_void_p(), c_void_p()]
        dims = (c_int64 * _MAX_NDIMS)(*shape)
        for desc, memory, (tag, dtype, address) in zip(descs, memories, (src, dst), strict=True):
            code = element_type(dtype).onednn
            if not code:
                raise LayoutError(f"oneDNN has no elements of {dtype}")
            create = api.dnnl_memory_desc_create_with_string_tag
            self._check(create(byref(desc), len(shape), dims, code, c_char_p(tag.encode())), f"no tag {tag}")
            self._check(
                api.dnnl_memory_create(byref(memory), desc, self._engine, c_void_p(address)), "no memory"
            )
        pd, primitive = c_void_p(), c_void_p()
        what = f"no reorder from {src[0]} to {dst[0]}"
        create = api.dnnl_reorder_primitive_desc_create
        self._check(create(byref(pd), descs[0], self._engine, descs[1], self._engine, None), what)
        self._check(api.dnnl_primitive_create(byref(primitive), pd), what)
        arguments = (_Argument * 2)(_Argument(_FROM, memories[0]), _Argument(_TO, memories[1]))
        return partial(
            _run, api.dnnl_primitive_execute, api.dnnl_stream_wait, primitive, self._stream, arguments
        )


def _run(execute: Any, wait: Any, primitive: c_void_p, stream: c_void_p, arguments: Any) -> None:
    execute(primitive, stream, 2, arguments)
    wait(stream)


def locate(build: str) -> Path:
    """The library of that build. Raises LayoutError where its package is not installed."""
    package = BUILDS[build]
    found = onednn_package.locate(package)
    if found is None:
        raise LayoutError(f"the package {package} is not installed")
    return found


@cache
def load(build: str) -> Library | LayoutError:
    """The library of that build, or why there is none."""
    try:
        return Library(locate(build), openmp=build == "onednn-omp")
    except LayoutError as error:
        return error
    except OSError as error:
        return LayoutError(f"{BUILDS[build]} cannot be loaded: {error}")
