"""The real oneDNN, loaded with ctypes: what a tag means, what a descriptor holds, what a reorder writes.

Only the C API is used, and of it only what answers questions about layouts. The PyPI package `onednn` has no RPATH
and is built for SYCL, so its dependencies are loaded first and the OpenCL CPU device is named by an environment
variable, both before libdnnl itself. `available()` says why where that fails, so that tests can skip with a reason.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_size_t, c_uint64, c_void_p
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_NDIMS = 12
DTYPES = {"f16": 1, "bf16": 2, "f32": 3, "i32": 4, "i8": 5, "ui8": 6, "f64": 7}
_DEPENDENCIES = (
    "libimf.so", "libintlc.so.5", "libsvml.so", "libirng.so", "libhwloc.so.15", "libtbb.so.12",
    "libumf.so.1", "libur_loader.so.0", "libsycl.so.9",
)  # fmt: skip

# dnnl_query_t, of which the values are part of the ABI.
_STRIDES, _NDIMS, _DIMS, _OFFSET, _PADDED, _PADDED_OFFSETS = 14, 256, 257, 259, 260, 261
_INNER_NBLKS, _INNER_BLKS, _INNER_IDXS = 263, 264, 265


class OneDNNError(RuntimeError):
    """A call of the library returned another status than success."""


@dataclass(frozen=True)
class Described:
    """A blocked memory descriptor as the library reports it. Strides and offsets count elements, `size` bytes."""

    dims: tuple[int, ...]
    padded_dims: tuple[int, ...]
    padded_offsets: tuple[int, ...]
    offset0: int
    strides: tuple[int, ...]
    inner_blks: tuple[int, ...]
    inner_idxs: tuple[int, ...]
    size: int


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL:
    folder = Path(sys.prefix) / "lib"
    # Other builds of oneDNN install over libdnnl.so.3; the file with the version in its name is this package's own.
    versions = {path: int(path.suffix[1:]) for path in folder.glob("libdnnl.so.3.*")}
    found = max(versions, key=versions.__getitem__, default=folder / "libdnnl.so.3")
    if not found.exists():
        raise OSError(f"no libdnnl.so.3 in {folder}: the package 'onednn' is not installed")
    os.environ.setdefault("OCL_ICD_FILENAMES", str(folder / "libintelocl.so"))
    for name in _DEPENDENCIES:
        if (folder / name).exists():
            ctypes.CDLL(str(folder / name), mode=ctypes.RTLD_GLOBAL)
    library = ctypes.CDLL(str(found), mode=ctypes.RTLD_GLOBAL)
    library.dnnl_fmt_tag2str.restype = c_char_p
    library.dnnl_memory_desc_get_size.restype = c_size_t
    library.dnnl_memory_desc_get_size.argtypes = [c_void_p]
    for name in ("destroy", "query", "equal"):
        getattr(library, f"dnnl_memory_desc_{name}").argtypes = {
            "destroy": [c_void_p], "query": [c_void_p, c_int, c_void_p], "equal": [c_void_p, c_void_p],
        }[name]  # fmt: skip
    return library


@lru_cache(maxsize=1)
def available() -> str | None:
    """None, or why the library cannot be used here."""
    try:
        library()
    except OSError as error:
        return str(error)
    return None


def check(status: int, what: str) -> None:
    if status:
        raise OneDNNError(f"{what}: status {status}")


@lru_cache(maxsize=1)
def tags() -> dict[str, int]:
    """Every format tag the installed library knows, by canonical name (a, b, c letters)."""
    result: dict[str, int] = {}
    for value in range(2, 4096):
        name = library().dnnl_fmt_tag2str(value).decode()
        if name in ("unknown fmt_tag", "any", "undef", "format_tag_last"):
            if name == "format_tag_last" or name.startswith("unknown"):
                break
            continue
        result[name] = value
    return result


def array(values: Sequence[int]) -> ctypes.Array[c_int64]:
    return (c_int64 * MAX_NDIMS)(*values)


class Desc:
    """A dnnl_memory_desc_t. Made by the class methods; destroyed with the object."""

    def __init__(self, handle: c_void_p):
        self.handle = handle

    def __del__(self):
        library().dnnl_memory_desc_destroy(self.handle)

    @classmethod
    def from_tag(cls, dims: Sequence[int], tag: str, dtype: str = "f32") -> Desc:
        """By a canonical tag name (see `tags`). Raises OneDNNError where the library refuses."""
        handle = c_void_p()
        call = library().dnnl_memory_desc_create_with_tag
        check(
            call(byref(handle), len(dims), array(dims), DTYPES[dtype], tags()[tag]),
            f"tag {tag} of {tuple(dims)}",
        )
        return cls(handle)

    @classmethod
    def from_string_tag(cls, dims: Sequence[int], tag: str, dtype: str = "f32") -> Desc:
        """By any text of the tag grammar, in the list of tags or not (an entry point of the library's own tests)."""
        handle = c_void_p()
        call = library().dnnl_memory_desc_create_with_string_tag
        check(
            call(byref(handle), len(dims), array(dims), DTYPES[dtype], tag.encode()),
            f"tag {tag} of {tuple(dims)}",
        )
        return cls(handle)

    @classmethod
    def from_strides(cls, dims: Sequence[int], strides: Sequence[int], dtype: str = "f32") -> Desc:
        """By strides in elements."""
        handle = c_void_p()
        call = library().dnnl_memory_desc_create_with_strides
        status = call(byref(handle), len(dims), array(dims), DTYPES[dtype], array(strides))
        check(status, f"strides {tuple(strides)} of {tuple(dims)}")
        return cls(handle)

    def submemory(self, dims: Sequence[int], offsets: Sequence[int]) -> Desc:
        """The box of extents `dims` at `offsets`. Raises OneDNNError where the library refuses."""
        handle = c_void_p()
        call = library().dnnl_memory_desc_create_submemory
        check(
            call(byref(handle), self.handle, array(dims), array(offsets)),
            f"submemory {tuple(dims)} at {tuple(offsets)}",
        )
        return Desc(handle)

    def reshape(self, dims: Sequence[int]) -> Desc:
        handle = c_void_p()
        check(
            library().dnnl_memory_desc_reshape(byref(handle), self.handle, len(dims), array(dims)),
            f"reshape to {tuple(dims)}",
        )
        return Desc(handle)

    def permute_axes(self, perm: Sequence[int]) -> Desc:
        """Dim d of this descriptor becomes dim perm[d] of the result."""
        handle = c_void_p()
        axes = (c_int * MAX_NDIMS)(*perm)
        check(
            library().dnnl_memory_desc_permute_axes(byref(handle), self.handle, axes),
            f"permute_axes {tuple(perm)}",
        )
        return Desc(handle)

    @property
    def size(self) -> int:
        """Bytes, by the library's own rule."""
        return int(library().dnnl_memory_desc_get_size(self.handle))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Desc) and bool(library().dnnl_memory_desc_equal(self.handle, other.handle))

    __hash__ = None  # type: ignore[assignment]

    def _number(self, what: int) -> int:
        value = c_int64() if what == _OFFSET else c_int()
        check(library().dnnl_memory_desc_query(self.handle, what, byref(value)), f"query {what}")
        return int(value.value)

    def _vector(self, what: int, count: int) -> tuple[int, ...]:
        value = POINTER(c_int64)()
        check(library().dnnl_memory_desc_query(self.handle, what, byref(value)), f"query {what}")
        return tuple(int(value[k]) for k in range(count))

    def described(self) -> Described:
        """Everything the library says of the descriptor."""
        n, blocks = self._number(_NDIMS), self._number(_INNER_NBLKS)
        return Described(
            self._vector(_DIMS, n), self._vector(_PADDED, n), self._vector(_PADDED_OFFSETS, n), self._number(_OFFSET),
            self._vector(_STRIDES, n), self._vector(_INNER_BLKS, blocks), self._vector(_INNER_IDXS, blocks), self.size,
        )  # fmt: skip


@lru_cache(maxsize=1)
def engine() -> tuple[c_void_p, c_void_p]:
    engine, stream = c_void_p(), c_void_p()
    check(library().dnnl_engine_create(byref(engine), 1, c_uint64(0)), "engine")
    check(library().dnnl_stream_create(byref(stream), engine, 1), "stream")
    return engine, stream


def executes() -> str | None:
    """None, or why reorders cannot be executed here (no CPU engine)."""
    if (reason := available()) is not None:
        return reason
    try:
        engine()
    except OneDNNError as error:
        return f"libdnnl offers no CPU engine: {error}"
    return None


class _Arg(ctypes.Structure):
    _fields_ = [("arg", c_int), ("memory", c_void_p)]


@dataclass(frozen=True)
class Attributes:
    """What a reorder does to the numbers. A mask has bit d set where there is one number per index of dim d."""

    src_scale: tuple[int, NDArray[np.float32]] | None = None
    dst_scale: tuple[int, NDArray[np.float32]] | None = None
    src_zero: int | None = None
    dst_zero: int | None = None
    beta: float | None = None


_SRC, _DST, _SCALES, _ZEROS = 1, 17, 4096, 8192


def _made(attributes: Attributes) -> tuple[c_void_p, dict[int, NDArray[np.generic]]]:
    """The attribute object, and the arguments that go with it."""
    api, made = library(), c_void_p()
    check(api.dnnl_primitive_attr_create(byref(made)), "attributes")
    given: dict[int, NDArray[np.generic]] = {}
    for arg, scale, zero in (
        (_SRC, attributes.src_scale, attributes.src_zero),
        (_DST, attributes.dst_scale, attributes.dst_zero),
    ):
        if scale is not None:
            check(api.dnnl_primitive_attr_set_scales_mask(made, arg, scale[0]), "scales")
            given[_SCALES | arg] = scale[1]
        if zero is not None:
            check(api.dnnl_primitive_attr_set_zero_points_mask(made, arg, 0), "zero points")
            given[_ZEROS | arg] = np.array([zero], np.int32)
    if attributes.beta is not None:
        ops = c_void_p()
        check(api.dnnl_post_ops_create(byref(ops)), "post-ops")
        append = api.dnnl_post_ops_append_sum
        append.argtypes = [c_void_p, ctypes.c_float, ctypes.c_int32, c_int]
        check(append(ops, attributes.beta, 0, 0), "sum")
        check(api.dnnl_primitive_attr_set_post_ops(made, ops), "post-ops")
        api.dnnl_post_ops_destroy(ops)
    return made, given


_ROOM = 1 << 16
"""Bytes kept free behind both buffers of a reorder. The library reads and writes beyond its own: in version 2026.1 a
reorder of Bca24b from ui8 to i8 of 17x17x15, whose last block is not whole, writes into what lies behind."""


def _with_room(buffer: NDArray[np.generic]) -> NDArray[np.uint8]:
    room = np.zeros(buffer.nbytes + _ROOM, np.uint8)
    room[: buffer.nbytes] = buffer.reshape(-1, copy=False).view(np.uint8)
    return room


class Primitive:
    """The library's reorder between two buffers, which can be called again and again; released by `close`.

    Raises OneDNNError where the library has none, or a buffer is too small.
    """

    def __init__(
        self,
        src: Desc,
        data: NDArray[np.generic],
        dst: Desc,
        out: NDArray[np.generic],
        attributes: Attributes | None = None,
    ) -> None:
        _check_sizes(src, data, dst, out)
        api = library()
        cpu, self._stream = engine()
        made, given = _made(attributes or Attributes())
        self._pd, self._primitive = c_void_p(), c_void_p()
        status = api.dnnl_reorder_primitive_desc_create(
            byref(self._pd), src.handle, cpu, dst.handle, cpu, made
        )
        api.dnnl_primitive_attr_destroy(made)
        check(status, "reorder primitive descriptor")
        check(api.dnnl_primitive_create(byref(self._primitive), self._pd), "reorder primitive")
        buffers: dict[int, tuple[Desc, NDArray[Any]]] = {_SRC: (src, data), _DST: (dst, out)}
        for arg, numbers in given.items():
            dtype = "i32" if arg & _ZEROS else "f32"
            buffers[arg] = Desc.from_strides((numbers.size,), (1,), dtype), numbers
        self._memories: list[c_void_p] = []
        self._args = (_Arg * len(buffers))()
        for place, (arg, (desc, buffer)) in enumerate(buffers.items()):
            memory = c_void_p()
            check(
                api.dnnl_memory_create(byref(memory), desc.handle, cpu, c_void_p(buffer.ctypes.data)),
                "memory",
            )
            self._memories.append(memory)
            self._args[place] = _Arg(arg, memory)
        self._keep = buffers

    def __call__(self) -> None:
        api = library()
        check(
            api.dnnl_primitive_execute(self._primitive, self._stream, len(self._args), self._args), "execute"
        )
        check(api.dnnl_stream_wait(self._stream), "wait")

    def close(self) -> None:
        api = library()
        for memory in self._memories:
            api.dnnl_memory_destroy(memory)
        api.dnnl_primitive_destroy(self._primitive)
        api.dnnl_primitive_desc_destroy(self._pd)


def _check_sizes(src: Desc, data: NDArray[np.generic], dst: Desc, out: NDArray[np.generic]) -> None:
    """Raises OneDNNError where a buffer is too small for what it is described by."""
    for what, desc, buffer in (("source", src, data), ("destination", dst, out)):
        if buffer.nbytes < desc.size:
            raise OneDNNError(f"a {what} of {buffer.nbytes} bytes for a descriptor of {desc.size}")


def reorder(
    src: Desc,
    data: NDArray[np.generic],
    dst: Desc,
    out: NDArray[np.generic],
    attributes: Attributes | None = None,
) -> None:
    """Runs the library's reorder from the buffer `data` (described by `src`) into the buffer `out` (by `dst`)."""
    _check_sizes(src, data, dst, out)
    target = _with_room(out)
    primitive = Primitive(src, _with_room(data), dst, target, attributes)
    try:
        primitive()
        out.reshape(-1, copy=False).view(np.uint8)[:] = target[: out.nbytes]
    finally:
        primitive.close()
