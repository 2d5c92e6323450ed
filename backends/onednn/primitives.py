"""Primitive descriptors and primitives of the library, with their post-ops.

A request says which primitive, on which memory descriptors; the library answers with an implementation or refuses.
Scratchpads are given by the caller at every execution, so that one primitive may run in any number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import Array as CArray
from ctypes import byref, c_char_p, c_int64, c_void_p
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, cast
from weakref import WeakValueDictionary

from layout_ir.backends.onednn.library import Handle, Library
from layout_ir.backends.onednn.memory_descriptors import MemoryDescriptor, row_major


class Argument(IntEnum):
    """Numbers of execution arguments (`DNNL_ARG_*`)."""

    SRC = 1
    SRC_1 = 2
    SRC_2 = 3
    DST = 17
    DST_1 = 18
    DST_2 = 19
    WEIGHTS = 33
    WEIGHTS_1 = 34
    BIAS = 41
    MEAN = 49
    VARIANCE = 50
    SCALE = 51
    SHIFT = 52
    SCRATCHPAD = 80
    MULTIPLE_SRC = 1024
    SCALE_OF = 4096
    """Added to the number of an argument: the scales of it; `ZERO_POINT_OF`: its zero points."""
    ZERO_POINT_OF = 8192
    SRC_OF_POST_OP = 32768 | 2
    """That of post-op 0; each later one is `POST_OP_STEP` further."""


POST_OP_STEP = 32768


class Algorithm(IntEnum):
    """Values of dnnl_alg_kind_t, which are part of the ABI of version 3."""

    CONVOLUTION = 3
    DECONVOLUTION = 10
    RELU = 0x20
    TANH = 0x21
    ELU = 0x22
    SQUARE = 0x23
    ABS = 0x24
    SQRT = 0x25
    LINEAR = 0x26
    HARD_SIGMOID = 0x28
    LOGISTIC = 0x29
    EXP = 0x2A
    GELU_TANH = 0x2B
    SWISH = 0x2C
    LOG = 0x2D
    CLIP = 0x2E
    POW = 0x30
    GELU_ERF = 0x31
    ROUND = 0x32
    MISH = 0x33
    HARD_SWISH = 0x34
    MAX_POOL = 0x1FF
    AVG_POOL_WITH_PADDING = 0x2FF
    AVG_POOL = 0x3FF
    LRN = 0xAFF
    ADD = 0x1FFF0
    MUL = 0x1FFF1
    MAX = 0x1FFF2
    MIN = 0x1FFF3
    DIV = 0x1FFF4
    SUB = 0x1FFF5
    LINEAR_RESAMPLING = 0x2FFF1
    REDUCE_MAX = 0x2FFF2
    REDUCE_MIN = 0x2FFF3
    REDUCE_SUM = 0x2FFF4
    REDUCE_MUL = 0x2FFF5
    REDUCE_MEAN = 0x2FFF6
    SOFTMAX = 0x30000
    LOG_SOFTMAX = 0x30001


INFERENCE = 96
GLOBAL_STATISTICS, WITH_SCALE, WITH_SHIFT = 1, 2, 4

_IMPLEMENTATION, _SCRATCHPAD, _OF_ARGUMENT, _USER_SCRATCHPAD = 8, 136, 255, 1


@dataclass(frozen=True, slots=True)
class EltwisePostOp:
    """A function of one number, applied to each element of the result."""

    algorithm: Algorithm
    alpha: float = 0.0
    beta: float = 0.0


@dataclass(frozen=True, slots=True)
class BinaryPostOp:
    """The result and another tensor, broadcast to it, become a new result."""

    algorithm: Algorithm
    other: MemoryDescriptor


@dataclass(frozen=True, slots=True)
class SumPostOp:
    """What the buffer of the result held before is added to it."""


PostOp = EltwisePostOp | BinaryPostOp | SumPostOp


@dataclass(frozen=True, slots=True)
class Quantization:
    """Scales or zero points that an execution is given, as argument `SCALE_OF` or `ZERO_POINT_OF` of another one."""

    argument: int
    mask: int
    """Bit d: one for each index of dim d; 0: one for the tensor."""


@dataclass(frozen=True, slots=True)
class Request:
    """A primitive to ask for: the name in `dnnl_NAME_primitive_desc_create`, and the arguments behind the engine."""

    name: str
    arguments: tuple[Any, ...]
    """Numbers, arrays of extents, memory descriptors, and rows of these."""
    keep: tuple[Any, ...] = field(default=(), compare=False)
    """What `arguments` point to."""


class PrimitiveDescriptor:
    """An implementation that the library has for a request. Raises Refused where it has none.

    Requests that are equal in all numbers share one implementation while any of them lives: layers of one shape have
    one primitive, in one plan or in several. The library's own cache is not used (`Library` says why).
    """

    def __init__(
        self,
        library: Library,
        request: Request,
        post_ops: Sequence[PostOp] = (),
        quantization: Sequence[Quantization] = (),
    ) -> None:
        self.library = library
        self.request = request
        self.post_ops = tuple(post_ops)
        self.quantization = tuple(quantization)
        key = _key(self)
        found = None if key is None else _SHARED.get(key)
        if found is None:
            found = _Implementation(library, request, self.post_ops, self.quantization)
            if key is not None:
                _SHARED[key] = found
        self._found = found

    @property
    def implementation(self) -> str:
        """The name that the library has for it, as `brgconv:avx512_core`."""
        return self._found.name

    @property
    def is_slow(self) -> bool:
        """Whether it is the library's reference: one element after the other, addresses computed for each."""
        return "ref" in self.implementation.replace("any", "")

    @property
    def is_vectorized(self) -> bool:
        """Whether it computes several elements at once, as neither the reference nor its simple kernels do."""
        return not self.is_slow and not any(name in self.implementation for name in ("simple", "ncsp"))

    def descriptor(self, argument: int) -> MemoryDescriptor:
        """The memory descriptor of an execution argument: what was given, or chosen for `any`."""
        return self._found.descriptor(argument)

    @property
    def scratchpad_size(self) -> int:
        """Bytes of the scratchpad that an execution needs."""
        return self._found.scratchpad_size

    def scratchpad(self) -> MemoryDescriptor:
        """The memory descriptor of the scratchpad: so many bytes."""
        return row_major(self.library, (self.scratchpad_size,), "ui8")

    def primitive(self) -> Handle:
        """The compiled primitive, which any number of threads may execute."""
        return self._found.primitive()


class _Implementation:
    """What the library made for a request: its descriptor, and the primitive once that was asked for."""

    def __init__(
        self,
        library: Library,
        request: Request,
        post_ops: Sequence[PostOp],
        quantization: Sequence[Quantization],
    ) -> None:
        self._library = library
        self._request = request
        attributes = _attributes(library, post_ops, quantization)
        create = getattr(library.api, f"dnnl_{request.name}_primitive_desc_create")
        given = [_passed(argument) for argument in request.arguments]
        pd = c_void_p()
        library.check(create(byref(pd), library.engine, *given, attributes.value), request.name)
        self._copies: dict[int, MemoryDescriptor] = {}
        # Replaced as one: a thread that asks keeps both alive, and no lock could stay taken where a process forks.
        self._made: tuple[Handle, Handle | None] = (
            Handle(pd, library.api.dnnl_primitive_desc_destroy),
            None,
        )

    @property
    def name(self) -> str:
        """What the library calls it."""
        made, name = self._made, c_char_p()
        query = self._library.api.dnnl_primitive_desc_query
        self._library.check(query(made[0].value, _IMPLEMENTATION, 0, byref(name)), "implementation")
        return (name.value or b"").decode()

    def descriptor(self, argument: int) -> MemoryDescriptor:
        """A copy of the memory descriptor of an argument."""
        found = self._copies.get(argument)
        if found is None:
            made = self._made
            owned = self._library.api.dnnl_primitive_desc_query_md(made[0].value, _OF_ARGUMENT, argument)
            found = self._copies[argument] = MemoryDescriptor.copied(self._library, c_void_p(owned))
        return found

    @property
    def scratchpad_size(self) -> int:
        """Bytes of the scratchpad that an execution needs."""
        made, api = self._made, self._library.api
        found = api.dnnl_primitive_desc_query_md(made[0].value, _SCRATCHPAD, 0)
        return api.dnnl_memory_desc_get_size(c_void_p(found)) if found else 0

    def primitive(self) -> Handle:
        """The primitive, made when it is first asked for; of threads that ask at once, each may make one."""
        descriptor, primitive = self._made
        if primitive is None:
            api, check = self._library.api, self._library.check
            made, own = c_void_p(), c_void_p()
            check(api.dnnl_primitive_create(byref(made), descriptor.value), self._request.name)
            primitive = Handle(made, api.dnnl_primitive_destroy)
            # A primitive has a copy of its descriptor, of up to 100 kB: that one serves from now on.
            check(api.dnnl_primitive_get_primitive_desc(made, byref(own)), self._request.name)
            self._made = Handle(own, _keep), primitive
        return primitive


_SHARED: WeakValueDictionary[tuple[Any, ...], _Implementation] = WeakValueDictionary()
"""Implementations that live, by their requests."""


def _keep(_: c_void_p) -> None:
    """Destroys nothing: what a primitive owns goes with it."""


def _key(of: PrimitiveDescriptor) -> tuple[Any, ...] | None:
    """What two requests have in common that may share an implementation, the number of threads included, for which
    the library makes it; None where a memory descriptor of the library's own is among the arguments."""
    try:
        arguments = tuple(_numbers(argument) for argument in of.request.arguments)
        post_ops = tuple(
            (post_op.algorithm, _numbers(post_op.other)) if isinstance(post_op, BinaryPostOp) else post_op
            for post_op in of.post_ops
        )
    except _Opaque:
        return None
    return of.library, of.library.threads(), of.request.name, arguments, post_ops, of.quantization


class _Opaque(Exception):
    """A memory descriptor says nothing that could be compared."""


def _numbers(argument: Any) -> Any:
    """An argument of a request as a value that is equal where the library is told the same."""
    if isinstance(argument, MemoryDescriptor):
        if argument.made_from is None:
            raise _Opaque
        extents, dtype, lies = argument.made_from
        return tuple(extents), dtype, lies if lies is None or isinstance(lies, str) else tuple(lies)
    if isinstance(argument, tuple):
        return tuple(_numbers(part) for part in cast("tuple[Any, ...]", argument))
    return tuple(cast("CArray[c_int64]", argument)) if isinstance(argument, CArray) else argument


class ReorderPrimitive:
    """The library's own reorder, by which constants are packed into formats that only it knows."""

    def __init__(self, source: MemoryDescriptor, destination: MemoryDescriptor) -> None:
        library = self.library = source.library
        self._sides = source, destination
        pd, primitive = c_void_p(), c_void_p()
        create = library.api.dnnl_reorder_primitive_desc_create
        status = create(byref(pd), source.handle, library.engine, destination.handle, library.engine, None)
        library.check(status, "reorder")
        owner = Handle(pd, library.api.dnnl_primitive_desc_destroy)
        library.check(library.api.dnnl_primitive_create(byref(primitive), owner.value), "reorder")
        self._primitive = Handle(primitive, library.api.dnnl_primitive_destroy)

    def __call__(self, source: int, destination: int) -> None:
        """Reorders between the buffers at two addresses."""
        stream = self.library.new_stream()
        memories = [
            self.library.new_memory(side.handle, address)
            for side, address in zip(self._sides, (source, destination), strict=True)
        ]
        execute(
            self.library, self._primitive, stream, [(Argument.SRC, memories[0]), (Argument.DST, memories[1])]
        )


def execute(
    library: Library, primitive: Handle, stream: Handle, arguments: Sequence[tuple[int, Handle]]
) -> None:
    """Runs a primitive and waits for it."""
    from layout_ir.backends.onednn.library import ExecutionArgument

    block = (ExecutionArgument * len(arguments))(*(ExecutionArgument(k, m.value) for k, m in arguments))
    api = library.api
    library.check(api.dnnl_primitive_execute(primitive.value, stream.value, len(block), block), "execution")
    library.check(api.dnnl_stream_wait(stream.value), "execution")


def _passed(argument: Any) -> Any:
    """An argument of a request as the library takes it: of descriptors the pointers."""
    if isinstance(argument, MemoryDescriptor):
        return argument.handle
    if isinstance(argument, tuple):
        row = cast("tuple[MemoryDescriptor, ...]", argument)
        return (c_void_p * len(row))(*(descriptor.handle for descriptor in row))
    return argument


def _attributes(library: Library, post_ops: Sequence[PostOp], quantization: Sequence[Quantization]) -> Handle:
    """The attributes of a primitive: scratchpads from the caller, scales and zero points, its post-ops."""
    api, attributes = library.api, c_void_p()
    library.check(api.dnnl_primitive_attr_create(byref(attributes)), "attributes")
    owner = Handle(attributes, api.dnnl_primitive_attr_destroy)
    status = api.dnnl_primitive_attr_set_scratchpad_mode(attributes, _USER_SCRATCHPAD)
    library.check(status, "attributes")
    for given in quantization:
        is_scale = given.argument & Argument.SCALE_OF
        call = (
            api.dnnl_primitive_attr_set_scales_mask
            if is_scale
            else api.dnnl_primitive_attr_set_zero_points_mask
        )
        of = given.argument & ~(Argument.SCALE_OF | Argument.ZERO_POINT_OF)
        library.check(call(attributes, of, given.mask), "scales" if is_scale else "zero points")
    if not post_ops:
        return owner
    chain = c_void_p()
    library.check(api.dnnl_post_ops_create(byref(chain)), "post-ops")
    chain_owner = Handle(chain, api.dnnl_post_ops_destroy)
    for post_op in post_ops:
        match post_op:
            case EltwisePostOp(algorithm, alpha, beta):
                status = api.dnnl_post_ops_append_eltwise(chain, algorithm, alpha, beta)
            case BinaryPostOp(algorithm, other):
                status = api.dnnl_post_ops_append_binary(chain, algorithm, other.handle)
            case SumPostOp():
                status = api.dnnl_post_ops_append_sum(chain, 1.0, 0, 0)
        library.check(status, "post-op")
    library.check(api.dnnl_primitive_attr_set_post_ops(attributes, chain_owner.value), "post-ops")
    return owner
