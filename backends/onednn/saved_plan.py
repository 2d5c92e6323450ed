"""A plan as a file, and back: what was decided once, so that another process need only make the primitives.

    layout-ir executable 1      a line that says what it is
    digest                      32 bytes: SHA-256 of all that follows
    length                      8 bytes, little-endian, of the head
    head                        JSON: who can run it, and the plan; of blobs, offset and length
    blobs                       constants as they are stored, and the objects of kernels, each on a cache line

The file holds machine code, which is run: it is for who would run a program of whoever wrote it. The digest finds
accidents. It fits the library, the release of this package and the CPU that it was made for, and nothing else: where
one of them differs, LayoutError says which.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from ctypes import Array as CArray
from ctypes import c_int64
from dataclasses import asdict, dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from layout_ir.algebra.format import Format
from layout_ir.backends.llvm.loops.loop_calls import argument_row
from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.llvm.runtime import thread_pool
from layout_ir.backends.llvm.runtime.jit import Code
from layout_ir.backends.onednn.library import Library, Refused, dims
from layout_ir.backends.onednn.lifetime_plan import ALIGNMENT, ArenaPlan
from layout_ir.backends.onednn.memory_descriptors import MemoryDescriptor, described
from layout_ir.backends.onednn.plan_steps import (
    Buffer,
    ByteCopy,
    ControlStep,
    ExecutionPlan,
    Kernel,
    KernelStep,
    Location,
    LoopKernel,
    LoopStep,
    MemoryArgument,
    Owner,
    Place,
    PrimitiveStep,
    ReferenceStep,
    RunnablePlan,
    Step,
    StepText,
    aligned,
)
from layout_ir.backends.onednn.primitives import (
    Algorithm,
    Argument,
    BinaryPostOp,
    EltwisePostOp,
    PostOp,
    PrimitiveDescriptor,
    Quantization,
    Request,
    SumPostOp,
)
from layout_ir.errors import LayoutError
from layout_ir.version import __version__

_MAGIC = b"layout-ir executable 3\n"
_HEAD = len(_MAGIC) + 32 + 8
"""Bytes in front of the head."""

Json = dict[str, Any]
_Argument = tuple[int, Any, int, int]
"""Of an argument its number, what its descriptor was made from, its buffer, and the offset."""


def environment(library: Library) -> Json:
    """What a plan was made by and for: each entry must be the same where it is run."""
    return {
        "layout-ir": __version__,
        "library": str(library),
        "its instructions": library.instruction_set,
        "CPU": f"{host().cpu} {hashlib.sha256(host().features.encode()).hexdigest()}",
    }


# Writing --------------------------------------------------------------------------------------------------------------


class _Blobs:
    """Bytes behind the head, each object once."""

    def __init__(self) -> None:
        self.parts: list[bytes | memoryview] = []
        self.size = 0
        self._known: dict[bytes, list[int]] = {}

    def add(self, data: bytes | memoryview) -> list[int]:
        """Where `data` will be: offset from the first blob, and length."""
        place = [self.size, len(data)]
        padding = bytes(-len(data) % ALIGNMENT)
        self.parts += [data, padding]
        self.size += len(data) + len(padding)
        return place

    def add_once(self, data: bytes) -> list[int]:
        """The same for what may come again."""
        if data not in self._known:
            self._known[data] = self.add(data)
        return self._known[data]


def file_of(runnable: RunnablePlan) -> Iterator[bytes | memoryview]:
    """The parts of the file. Raises LayoutError where the plan has ops by the reference, or a layout without text."""
    plan, blobs = runnable.plan, _Blobs()
    content: Json = {
        "environment": environment(plan.library),
        "threads": runnable.threads,
        "title": runnable.title,
        "input names": runnable.input_names,
        "result names": runnable.result_names,
        "buffers": [_buffer(buffer, blobs) for buffer in plan.buffers],
        "inputs": [_place(place) for place in plan.inputs],
        "results": [_place(place) for place in plan.results],
        "arena": asdict(plan.arena),
        "bytes not moved": plan.bytes_not_moved,
        "steps": [{**_step(step, blobs), "text": asdict(step.text)} for step in plan.steps],
    }
    head = json.dumps(content, separators=(",", ":"), default=_number).encode()
    head += b" " * (-(_HEAD + len(head)) % ALIGNMENT)
    parts = [len(head).to_bytes(8, "little"), head, *blobs.parts]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return iter([_MAGIC + digest.digest(), *parts])


def _number(value: Any) -> Any:
    """A number of NumPy as one of Python."""
    return value.item()


def _buffer(buffer: Buffer, blobs: _Blobs) -> Json:
    said: Json = {"size": buffer.size, "owner": buffer.owner.value, "number": buffer.number}
    said |= {"first": buffer.first, "last": buffer.last}
    if buffer.array is not None:
        said["data"] = blobs.add(np.ascontiguousarray(buffer.array).reshape(-1).view(np.uint8).data)
    return said


def _place(place: Place) -> Json:
    layout = place.layout
    text = str(layout.format)
    if not Format.parse(text).bind(layout.shape).same_contract(layout):
        raise LayoutError(f"{layout} has no text that a file could keep")
    return {**_location(place), "format": text, "shape": layout.shape, "dtype": place.dtype}


def _location(location: Location) -> Json:
    return {"buffer": location.buffer.index, "start": location.start}


def _step(step: Step, blobs: _Blobs) -> Json:
    match step:
        case PrimitiveStep():
            request = step.descriptor.request
            return {
                "kind": "primitive",
                "name": request.name,
                "request": [_request_argument(argument) for argument in request.arguments],
                "post-ops": [_post_op(post_op) for post_op in step.descriptor.post_ops],
                "quantization": [asdict(given) for given in step.descriptor.quantization],
                "implementation": step.implementation,
                "arguments": [
                    [a.number, a.descriptor.made_from, a.buffer.index, a.offset] for a in step.arguments
                ],
            }
        case KernelStep():
            moves = [
                [_kernel(k, "reorder", blobs), _location(source), _location(to)]
                for k, source, to in step.moves
            ]
            return {"kind": "reorder", "moves": moves}
        case LoopStep():
            places = [_location(place) for place in (*step.operands, step.result)]
            kernel = {**_kernel(step.kernel, "loops", blobs), "indices": step.kernel.has_indices}
            return {"kind": "loop", "kernel": kernel, "places": places, "node": step.node}
        case ControlStep():
            raise LayoutError("an executable with the subgraphs of If, Loop or Scan cannot be saved")
        case ReferenceStep():
            raise LayoutError(
                "an executable with ops that run by the reference cannot be saved: fallbacks says which they are"
            )


def _kernel(kernel: Kernel | ByteCopy, name: str, blobs: _Blobs) -> Json:
    if isinstance(kernel, ByteCopy):
        return {"bytes": kernel.nbytes}
    return {"object": blobs.add_once(kernel.code.object_code), "name": name, "threads": kernel.threads}


def _request_argument(argument: Any) -> Any:
    if isinstance(argument, MemoryDescriptor):
        if argument.made_from is None:
            raise LayoutError("a primitive was asked for with a descriptor of the library's own")
        return {"memory": argument.made_from}
    if isinstance(argument, tuple):
        return [_request_argument(part) for part in cast("tuple[Any, ...]", argument)]
    if isinstance(argument, CArray):
        return {"extents": list(cast("CArray[c_int64]", argument))}
    return argument


def _post_op(post_op: PostOp) -> Json:
    match post_op:
        case EltwisePostOp(algorithm, alpha, beta):
            return {"eltwise": int(algorithm), "alpha": alpha, "beta": beta}
        case BinaryPostOp(algorithm, other):
            return {"binary": int(algorithm), "other": _request_argument(other)}
        case SumPostOp():
            return {}


# Reading --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _LoadedKernel:
    """Machine code from a file: of a reorder, or of a loop on so many tensors."""

    code: Code
    address: int
    threads: int
    has_indices: bool = False
    tensors: int = 0

    def arguments(self) -> NDArray[np.uint64]:
        """A row of numbers for calls of a loop."""
        return argument_row(self.tensors)


def read_plan(path: str, library: Library) -> RunnablePlan:
    """The plan in a file. Raises OSError, and LayoutError for a damaged file or one for another machine."""
    with open(path, "rb") as stream:
        data = aligned(os.fstat(stream.fileno()).st_size)
        data = data[: stream.readinto(data.data)]
    if bytes(data[: len(_MAGIC)]) != _MAGIC:
        raise LayoutError(f"{path} is no executable that this release of layout-ir has saved")
    start = len(_MAGIC) + 32
    if hashlib.sha256(data[start:].data).digest() != bytes(data[len(_MAGIC) : start]):
        raise LayoutError(f"{path} is damaged: its digest is another one")
    size = int.from_bytes(bytes(data[start : start + 8]), "little")
    head: Json = json.loads(bytes(data[_HEAD : _HEAD + size]))
    for name, there in environment(library).items():
        if head["environment"].get(name) != there:
            raise LayoutError(
                f"{path} was saved for another {name}: {head['environment'].get(name)}, not {there}"
            )
    return _Reader(head, data[_HEAD + size :], library).runnable()


def _text(said: Json) -> StepText:
    ops, layouts = tuple(said["ops"]), tuple(said["layouts"])
    return StepText(ops, said["number"], said["implementation"], layouts, said["nbytes"])


class _Reader:
    def __init__(self, head: Json, blobs: NDArray[np.uint8], library: Library) -> None:
        self.head = head
        self.blobs = blobs
        self.library = library
        self._codes: dict[tuple[int, str], Code] = {}
        self._buffers: list[Buffer] = [self._buffer(k, said) for k, said in enumerate(head["buffers"])]

    def runnable(self) -> RunnablePlan:
        """The plan, with its primitives made."""
        head = self.head
        plan = ExecutionPlan(self.library)
        arena = head["arena"]
        plan.buffers = self._buffers
        plan.arena = ArenaPlan(tuple(arena["offsets"]), arena["size"], arena["lower_bound"])
        own = [buffer for buffer in plan.buffers if buffer.owner is Owner.ARENA]
        plan.offsets = dict(zip(own, plan.arena.offsets, strict=True))
        plan.inputs = [self._place(said) for said in head["inputs"]]
        plan.results = [self._place(said) for said in head["results"]]
        plan.bytes_not_moved = head["bytes not moved"]
        self.library.use_threads(head["threads"])  # which primitives are made for
        plan.steps = [self._step(said, _text(said["text"])) for said in head["steps"]]
        names = tuple(head["input names"]), tuple(head["result names"])
        return RunnablePlan(plan, head["threads"], head["title"], *names)

    def _buffer(self, index: int, said: Json) -> Buffer:
        buffer = Buffer(
            said["size"], Owner(said["owner"]), said["number"], None, said["first"], said["last"], index
        )
        if "data" in said:
            buffer.array = self._blob(said["data"])
        return buffer

    def _blob(self, place: Sequence[int]) -> NDArray[np.uint8]:
        first, size = place
        return self.blobs[first : first + size]

    def _location(self, said: Json) -> Location:
        buffer: Buffer = self._buffers[int(said["buffer"])]
        return Location(buffer, start=said["start"])

    def _place(self, said: Json) -> Place:
        layout = Format.parse(said["format"]).bind(tuple(said["shape"]))
        buffer: Buffer = self._buffers[int(said["buffer"])]
        return Place(buffer, layout, said["dtype"], start=said["start"])

    def _step(self, said: Json, text: StepText) -> Step:
        match said["kind"]:
            case "primitive":
                return self._primitive(said, text)
            case "reorder":
                return KernelStep(text, tuple(self._move(*move) for move in said["moves"]))
            case _:
                *operands, result = [self._location(place) for place in said["places"]]
                kernel: LoopKernel = self._kernel(said["kernel"], tensors=len(said["places"]))
                return LoopStep(text, kernel, tuple(operands), result, said["node"])

    def _move(
        self, kernel: Json, source: Json, destination: Json
    ) -> tuple[Kernel | ByteCopy, Location, Location]:
        move = ByteCopy(kernel["bytes"]) if "bytes" in kernel else self._kernel(kernel)
        return move, self._location(source), self._location(destination)

    def _kernel(self, said: Json, tensors: int = 0) -> _LoadedKernel:
        key = said["object"][0], said["name"]
        if key not in self._codes:
            self._codes[key] = Code.of_object(bytes(self._blob(said["object"])), (said["name"],))
        code = self._codes[key]
        threads = thread_pool.available(said["threads"])
        return _LoadedKernel(code, code.address(said["name"]), threads, said.get("indices", False), tensors)

    def _primitive(self, said: Json, text: StepText) -> PrimitiveStep:
        request = Request(
            said["name"], tuple(self._request_argument(argument) for argument in said["request"])
        )
        post_ops = [self._post_op(post_op) for post_op in said["post-ops"]]
        quantization = [Quantization(**given) for given in said["quantization"]]
        try:
            descriptor = PrimitiveDescriptor(self.library, request, post_ops, quantization)
        except Refused as error:
            raise LayoutError(f"{self.library} does not run what was saved: {error}") from error
        if descriptor.implementation != said["implementation"]:
            raise LayoutError(
                f"{self.library} runs {said['name']} by {descriptor.implementation} here, and what was saved is for "
                f"{said['implementation']}"
            )
        arguments = [
            MemoryArgument(
                number, self._descriptor(made_from, number, descriptor), self._buffers[buffer], offset
            )
            for number, made_from, buffer, offset in cast("list[_Argument]", said["arguments"])
        ]
        return PrimitiveStep(
            text, descriptor, descriptor.primitive(), tuple(arguments), said["implementation"]
        )

    def _descriptor(self, made_from: Any, number: int, of: PrimitiveDescriptor) -> MemoryDescriptor:
        if made_from is not None:
            return described(self.library, made_from)
        return of.scratchpad() if number == Argument.SCRATCHPAD else of.descriptor(number)

    def _request_argument(self, said: Any) -> Any:
        if isinstance(said, list):
            return tuple(self._request_argument(part) for part in cast("list[Any]", said))
        if not isinstance(said, dict):
            return said
        given = cast("Json", said)
        return described(self.library, given["memory"]) if "memory" in given else dims(given["extents"])

    def _post_op(self, said: Json) -> PostOp:
        if "eltwise" in said:
            return EltwisePostOp(Algorithm(said["eltwise"]), said["alpha"], said["beta"])
        if "binary" in said:
            return BinaryPostOp(Algorithm(said["binary"]), self._request_argument(said["other"]))
        return SumPostOp()
