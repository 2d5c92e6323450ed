"""Two builds of oneDNN in one process, by their C API: reorders, and the layouts that other primitives ask for.

The PyPI packages `onednn` (SYCL and TBB: fast for large tensors, 13 us a call) and `onednn-cpu-gomp` (OpenMP: fast for
small ones) install files of the same names over each other; each also has one that carries its version, and that is
taken. Each library is opened by its path, with its symbols to itself, so that neither calls into the other or into
what torch carries along.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_uint64, c_void_p
from functools import cache, partial
from pathlib import Path
from typing import Any

from layout_ir.elements.element_types import element_type
from layout_ir.errors import LayoutError
from layout_ir.notations.onednn import MAX_NDIMS, BlockingDesc, tag_of
from layout_ir.passes.selection.options import onednn_package

BUILDS = {"onednn": "onednn", "onednn-omp": "onednn-cpu-gomp"}
"""The name of a contender, and the package that brings it."""

_CPU, _IN_ORDER, _FROM, _TO = 1, 1, 1, 17
_ANY, _TRAINING, _INFERENCE, _DIRECT = 1, 64, 96, 1
_IMPLEMENTATION, _SRC, _DIFF_SRC, _WEIGHTS, _DST, _DIFF_DST = 8, 129, 130, 131, 133, 134
_STRIDES, _PADDED, _KIND, _INNER_NBLKS, _INNER_BLKS, _INNER_IDXS = 14, 260, 262, 263, 264, 265
_BLOCKED = 2


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
        dims = (c_int64 * MAX_NDIMS)(*shape)
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

    def reorder_implementation(self, shape: Sequence[int], src: tuple[str, str], dst: tuple[str, str]) -> str:
        """What the library calls its code for a reorder, as jit:uni; a tag and an element type for each side.

        Raises LayoutError where the library has no such reorder.
        """
        descs = [self._desc(shape, dtype, tag) for tag, dtype in (src, dst)]
        pd = c_void_p()
        create = self._api.dnnl_reorder_primitive_desc_create
        status = create(byref(pd), descs[0], self._engine, descs[1], self._engine, None)
        for desc in descs:
            self._api.dnnl_memory_desc_destroy(desc)
        self._check(status, f"no reorder from {src[0]} to {dst[0]}")
        found = self._implementation(pd)
        self._api.dnnl_primitive_desc_destroy(pd)
        return found

    def _implementation(self, pd: c_void_p) -> str:
        name = c_char_p()
        self._check(self._api.dnnl_primitive_desc_query(pd, _IMPLEMENTATION, 0, byref(name)), "no name")
        return (name.value or b"").decode()

    def convolution_tags(
        self,
        shapes: Sequence[Sequence[int]],
        dtypes: Sequence[str],
        stride: int,
        padding: int,
        *,
        source: str = "any",
        backward: bool = False,
    ) -> tuple[str | None, ...]:
        """The tags that a convolution asks for, for source, weights and destination of these shapes.

        `source` is the tag that the source has already, where it is not to be chosen; `backward` asks the convolution
        that computes the gradient of the source. None stands for a descriptor that is more than a tag (it holds
        compensation sums, say). Raises LayoutError where the library has no such convolution but a reference that is
        not meant to be fast.
        """
        tags = (source, "any", "any")
        descs = [self._desc(*args) for args in zip(shapes, dtypes, tags, strict=True)]
        numbers = [(c_int64 * MAX_NDIMS)(*[value] * 2) for value in (stride, 0, padding, padding)]
        api, pd, forward = self._api, c_void_p(), c_void_p()
        kind = _TRAINING if backward else _INFERENCE
        create = api.dnnl_convolution_forward_primitive_desc_create
        status = create(
            byref(forward), self._engine, kind, _DIRECT, descs[0], descs[1], None, descs[2], *numbers, None
        )
        if backward and not status:
            create = api.dnnl_convolution_backward_data_primitive_desc_create
            status = create(byref(pd), self._engine, _DIRECT, *descs, *numbers, forward, None)
            api.dnnl_primitive_desc_destroy(forward)
            return self._asked_tags(status, pd, (_DIFF_SRC, _WEIGHTS, _DIFF_DST), shapes, dtypes, descs)
        return self._asked_tags(status, forward, (_SRC, _WEIGHTS, _DST), shapes, dtypes, descs)

    def matmul_tags(self, shapes: Sequence[Sequence[int]], dtypes: Sequence[str]) -> tuple[str | None, ...]:
        """The tags that a matmul asks for, for source, weights and destination of these shapes; None as above.

        Raises LayoutError where the library has no such matmul.
        """
        descs = [self._desc(shape, dtype, "any") for shape, dtype in zip(shapes, dtypes, strict=True)]
        pd = c_void_p()
        create = self._api.dnnl_matmul_primitive_desc_create
        status = create(byref(pd), self._engine, descs[0], descs[1], None, descs[2], None)
        return self._asked_tags(status, pd, (_SRC, _WEIGHTS, _DST), shapes, dtypes, descs)

    def _desc(self, shape: Sequence[int], dtype: str, tag: str) -> c_void_p:
        """A descriptor with that tag; with "any" the primitive chooses the layout."""
        desc, dims, code = c_void_p(), (c_int64 * MAX_NDIMS)(*shape), element_type(dtype).onednn
        if not code:
            raise LayoutError(f"oneDNN has no elements of {dtype}")
        if tag == "any":
            status = self._api.dnnl_memory_desc_create_with_tag(byref(desc), len(shape), dims, code, _ANY)
        else:
            create = self._api.dnnl_memory_desc_create_with_string_tag
            status = create(byref(desc), len(shape), dims, code, c_char_p(tag.encode()))
        self._check(status, f"no tag {tag} of {tuple(shape)}")
        return desc

    def _asked_tags(
        self,
        status: int,
        pd: c_void_p,
        sides: Sequence[int],
        shapes: Sequence[Sequence[int]],
        dtypes: Sequence[str],
        descs: Sequence[c_void_p],
    ) -> tuple[str | None, ...]:
        """What the primitive made of its open descriptors, which are freed."""
        for desc in descs:
            self._api.dnnl_memory_desc_destroy(desc)
        self._check(status, f"no primitive for {' and '.join(map(str, map(tuple, shapes)))}")
        query = self._api.dnnl_primitive_desc_query_md
        query.restype = c_void_p
        try:
            if (name := self._implementation(pd)).startswith("ref"):
                raise LayoutError(f"{self.path.name}: only the reference implementation {name}")
            return tuple(
                self._tag(c_void_p(query(pd, what, 0)), shape, dtype)
                for what, shape, dtype in zip(sides, shapes, dtypes, strict=True)
            )
        finally:
            self._api.dnnl_primitive_desc_destroy(pd)

    def _tag(self, desc: c_void_p, shape: Sequence[int], dtype: str) -> str | None:
        """The tag that makes an equal descriptor, if there is one."""
        query = self._api.dnnl_memory_desc_query

        def number(what: int) -> int:
            value = c_int()
            self._check(query(desc, what, byref(value)), f"no query {what}")
            return value.value

        def numbers(what: int, count: int) -> tuple[int, ...]:
            value = POINTER(c_int64)()
            self._check(query(desc, what, byref(value)), f"no query {what}")
            return tuple(int(value[k]) for k in range(count))

        if number(_KIND) != _BLOCKED:
            return None
        rank, blocks = len(shape), number(_INNER_NBLKS)
        described = BlockingDesc(
            tuple(shape), numbers(_PADDED, rank), (0,) * rank, 0, numbers(_STRIDES, rank),
            numbers(_INNER_BLKS, blocks), numbers(_INNER_IDXS, blocks),
        )  # fmt: skip
        try:
            tag = tag_of(described.layout("abcdefghijkl"[:rank]))
            again = self._desc(shape, dtype, tag)
        except LayoutError:
            return None
        same = self._api.dnnl_memory_desc_equal(again, desc)
        self._api.dnnl_memory_desc_destroy(again)
        return tag if same else None


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
