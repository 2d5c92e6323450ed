"""What is executed, on which memory, in which order: the data of a plan, without the program that it was made from.

A step is a primitive of the library, a compiled reorder, a compiled loop, a node whose subgraphs have plans of their
own, or an op by the NumPy reference. Views are no steps: their result is their operand's buffer under another layout.
Constants are stored once, those of primitives as the primitives ask. An input is read where the caller has it, and a
result is written where the caller gets it; all else lies in one arena, as the plan of lifetimes says.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from layout_ir.algebra.layout import Layout
from layout_ir.backends.llvm.runtime.jit import Code
from layout_ir.backends.onednn.library import Handle, Library
from layout_ir.backends.onednn.lifetime_plan import ArenaPlan
from layout_ir.backends.onednn.memory_descriptors import MemoryDescriptor
from layout_ir.backends.onednn.primitives import PrimitiveDescriptor
from layout_ir.backends.reference.tensor import is_row_major
from layout_ir.elements.numpy_types import Array, storage

if TYPE_CHECKING:
    from xdsl.ir import Operation


class Owner(Enum):
    """Who has the memory of a buffer."""

    ARENA = "arena"
    INPUT = "input"
    RESULT = "result"
    CONSTANT = "constant"


@dataclass(eq=False)
class Buffer:
    """Memory of `size` bytes. `number` is that of the input or result, of those that the caller has."""

    size: int
    owner: Owner = Owner.ARENA
    number: int = 0
    array: Array | None = None
    """Bytes of a constant."""
    first: int = 0
    last: int = -1
    index: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class Location:
    """Where bytes begin: a buffer, and how many bytes behind its beginning."""

    buffer: Buffer
    start: int = field(default=0, kw_only=True)


Type = tuple[str, tuple[int, ...]]
"""Element type and shape."""

Address = int | Location
"""Where bytes begin: a number where the memory is known, and else a place in memory that is lent for a call."""


def moved(address: Address, nbytes: int) -> Address:
    """The address so many bytes further."""
    if isinstance(address, int):
        return address + nbytes
    return Location(address.buffer, start=address.start + nbytes)


@dataclass(frozen=True, slots=True, eq=False)
class Place(Location):
    """Where a value lies, which may be a part of a buffer, and the layout there, whose offset counts elements of
    `dtype`."""

    layout: Layout
    dtype: str

    @property
    def offset(self) -> int:
        """Bytes from the beginning of the buffer to position 0 of the layout."""
        return self.start + self.layout.offset * storage(self.dtype).itemsize

    @property
    def type(self) -> Type:
        """The element type and the shape."""
        return self.dtype, self.layout.shape

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return self.layout.nelems * storage(self.dtype).itemsize

    @property
    def is_dense(self) -> bool:
        """Whether the value lies row-major, and nothing between its elements."""
        return is_row_major(self.layout) and not self.layout.is_padded


@dataclass(frozen=True, slots=True, eq=False)
class MemoryArgument:
    """An argument of a primitive: its number, how it lies, and its buffer with a byte offset."""

    number: int
    descriptor: MemoryDescriptor
    buffer: Buffer
    offset: int = 0


class Kernel(Protocol):
    """Compiled code of a reorder."""

    @property
    def code(self) -> Code:
        """The machine code."""
        ...

    @property
    def address(self) -> int:
        """Where the machine code begins: a function of source, destination, a part and the number of parts."""
        ...

    @property
    def threads(self) -> int:
        """How many threads share a call."""
        ...


@dataclass(frozen=True, slots=True)
class ByteCopy:
    """A copy of so many bytes by one thread, for which nothing is compiled."""

    nbytes: int

    @property
    def address(self) -> int:
        """Where the machine code begins: a function of destination, source and the number of bytes."""
        address = ctypes.cast(ctypes.memmove, ctypes.c_void_p).value
        assert address is not None
        return address


class LoopKernel(Kernel, Protocol):
    """Compiled code of a loop: a function of its arguments, 0, a part and the number of parts."""

    @property
    def has_indices(self) -> bool:
        """Whether a call may meet an index that is outside of its dim."""
        ...

    def arguments(self) -> NDArray[np.uint64]:
        """A row of numbers for calls, in which the addresses are to be filled in."""
        ...


@dataclass(frozen=True, slots=True)
class StepText:
    """What a step is, for people."""

    ops: tuple[str, ...]
    """Names of the ops that it computes."""
    number: int
    """Which of the ops of that name in the function the first of them is, from 0 on."""
    implementation: str
    """The implementation of the library, `reorder` of a compiled one, `loop`, `reference` of NumPy, or ONNX Runtime."""
    layouts: tuple[str, ...]
    """Formats of its operands that are no constants, then of its result."""
    nbytes: int
    """How many bytes it reads and writes."""


@dataclass(frozen=True, slots=True)
class StepTime(StepText):
    """What one step of a call was, how many bytes it read and wrote, and how long it took."""

    nanoseconds: int


@dataclass(frozen=True, slots=True, eq=False)
class PrimitiveStep:
    """An execution of a primitive of the library."""

    text: StepText
    descriptor: PrimitiveDescriptor
    primitive: Handle
    arguments: tuple[MemoryArgument, ...]
    implementation: str


@dataclass(frozen=True, slots=True, eq=False)
class KernelStep:
    """Compiled reorders and copies of bytes, each from a location to a location."""

    text: StepText
    moves: tuple[tuple[Kernel | ByteCopy, Location, Location], ...]


@dataclass(frozen=True, slots=True, eq=False)
class LoopStep:
    """An op, or elementwise ops behind each other, by a compiled loop."""

    text: StepText
    kernel: LoopKernel
    operands: tuple[Location, ...]
    result: Location
    node: str = ""
    """The node of the model that the last op stands for, in errors about indices."""


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceStep:
    """An op by the NumPy reference, or by ONNX Runtime what that has not. `op` has operands of its own, so that no
    program is kept for it."""

    text: StepText
    op: Operation
    operands: tuple[Place, ...]
    results: tuple[Place, ...]


@dataclass(frozen=True, eq=False)
class NestedFlow:
    """A node with subgraphs as a record of a plan (`nested_flow`): `function` is called with `address`, and returns
    another number than 0 where an iteration fails."""

    function: int
    address: int
    patches: Sequence[tuple[int, Location]]
    """The fields that hold an address in memory that is lent to the plan around it."""
    with_indices: Sequence[tuple[str, NDArray[np.uint64]]]
    """Ops whose loops note indices outside of their dim, and where."""
    keeps: Any
    """What has to live as long as the record."""


class ControlFlow(Protocol):
    """A node with subgraphs, each of which has plans of its own (`control_flow`)."""

    title: str
    """The operator."""

    @property
    def plans(self) -> Sequence[ExecutionPlan]:
        """The plans of its subgraphs."""
        ...

    @property
    def is_native(self) -> bool:
        """Whether it can be a record of a plan: what `nested` makes."""
        ...

    def nested(self, operands: Sequence[Address], targets: Sequence[Address]) -> NestedFlow:
        """The record that runs the node on operands at these addresses, and writes the results to `targets`, all of
        them row-major."""
        ...

    def __call__(self, operands: Sequence[Array], targets: Sequence[Array]) -> None:
        """Runs the node on its operands, and writes the results to `targets`, all of them row-major.

        Raises LayoutError where it fails.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class ControlStep:
    """A node with subgraphs, by plans of these."""

    text: StepText
    flow: ControlFlow
    operands: tuple[Place, ...]
    results: tuple[Place, ...]


Step = PrimitiveStep | KernelStep | LoopStep | ControlStep | ReferenceStep


@dataclass(eq=False)
class ExecutionPlan:
    """The steps of a function, its buffers, and where its inputs and results are."""

    library: Library
    steps: list[Step] = field(default_factory=list[Step])
    buffers: list[Buffer] = field(default_factory=list[Buffer])
    inputs: list[Place] = field(default_factory=list[Place])
    results: list[Place] = field(default_factory=list[Place])
    arena: ArenaPlan = field(default_factory=lambda: ArenaPlan((), 0, 0))
    offsets: dict[Buffer, int] = field(default_factory=dict[Buffer, int])
    bytes_not_moved: int = 0

    @property
    def all_steps(self) -> Iterator[Step]:
        """The steps, and those of the plans within them."""
        for step in self.steps:
            yield step
            if isinstance(step, ControlStep):
                for plan in step.flow.plans:
                    yield from plan.all_steps

    @property
    def constant_bytes(self) -> int:
        """Bytes of the constants as they are stored."""
        return sum(buffer.size for buffer in self.buffers if buffer.owner is Owner.CONSTANT)


@dataclass(frozen=True, slots=True, eq=False)
class RunnablePlan:
    """A plan with what a caller has to know: on how many threads it runs, and what it and its values are called."""

    plan: ExecutionPlan
    threads: int
    title: str
    input_names: tuple[str, ...]
    result_names: tuple[str, ...]


def buffers_of(step: Step) -> Sequence[Buffer]:
    """The buffers that a step reads or writes."""
    match step:
        case PrimitiveStep():
            return [argument.buffer for argument in step.arguments]
        case KernelStep():
            return [location.buffer for _, *both in step.moves for location in both]
        case LoopStep():
            return [location.buffer for location in (*step.operands, step.result)]
        case ControlStep() | ReferenceStep():
            return [place.buffer for place in (*step.operands, *step.results)]
