"""A plan as a file, and back: what was decided once, so that another process need only make the primitives.

    layout-ir executable 4      a line that says what it is
    digest                      32 bytes: SHA-256 of all that follows
    lengths                     8 bytes each, little-endian, of the head and of the code
    head                        JSON: who can run it, and the plan; of blobs, offset and length
    code                        the objects of kernels, and of what walks over the steps
    constants                   as they are stored, each on a cache line

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
from layout_ir.backends.llvm.machine.host_facts import processor_facts
from layout_ir.backends.llvm.machine.machine import host, processor_name
from layout_ir.backends.llvm.runtime import thread_pool
from layout_ir.backends.llvm.runtime.jit import Code
from layout_ir.backends.onednn.library import Library, Refused, dims
from layout_ir.backends.onednn.lifetime_plan import ArenaPlan
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
)
from layout_ir.backends.onednn.primitives import (
    Algorithm,
    BinaryPostOp,
    EltwisePostOp,
    PostOp,
    PrimitiveDescriptor,
    Quantization,
    Request,
    SumPostOp,
)
from layout_ir.backends.onednn.step_driver import DRIVER_KEY, offer_driver, step_driver
from layout_ir.elements.aligned_arrays import aligned_bytes
from layout_ir.elements.cache_line import LINE
from layout_ir.errors import LayoutError
from layout_ir.version import __version__

_MAGIC = b"layout-ir executable 4\n"
_DIGEST, _LENGTH = 32, 8
_FRONT = len(_MAGIC) + _DIGEST + 2 * _LENGTH
"""Bytes in front of the head."""

Json = dict[str, Any]
_Argument = tuple[int, Any, int, int]
"""An argument: its number, what its descriptor was made from, its buffer, and the offset."""


def environment(library: Library) -> Json:
    """What a plan was made by and for: each entry must be the same where it is run."""
    facts = processor_facts() or f"{host().cpu} {host().features}"
    return {
        "layout-ir": __version__,
        "library": str(library),
        "its instructions": library.instruction_set,
        "CPU": f"{processor_name()} {hashlib.sha256(facts.encode()).hexdigest()}",
    }


# Writing --------------------------------------------------------------------------------------------------------------


class _Blobs:
    """Bytes behind the head, each object of code once."""

    def __init__(self) -> None:
        self.constants: list[bytes | memoryview] = []
        self.size = 0
        self.objects: dict[tuple[bytes, str], int] = {}
        """The objects of kernels with the name of the function, and their numbers."""

    def add(self, data: memoryview) -> list[int]:
        """Where a constant will be: offset from the first one, and length."""
        place = [self.size, len(data)]
        padding = bytes(-len(data) % LINE)
        self.constants += [data, padding]
        self.size += len(data) + len(padding)
        return place

    def code(self, data: bytes, name: str) -> int:
        """The number of an object in the file."""
        return self.objects.setdefault((data, name), len(self.objects))


def file_of(runnable: RunnablePlan, *, kept_as: str = "") -> Iterator[bytes | memoryview]:
    """The parts of the file. `kept_as` is the name that `read_plan` is to find it under, if that says what the plan is.

    Raises LayoutError where the plan has ops by the reference, or a layout without text.
    """
    plan, blobs, driver = runnable.plan, _Blobs(), step_driver().code
    content: Json = {
        "environment": environment(plan.library),
        "kept as": kept_as,
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
        "driver": {"key": DRIVER_KEY, "size": len(driver.object_code)},
        "objects": [[len(data), name] for data, name in blobs.objects],
    }
    head = json.dumps(content, separators=(",", ":"), default=_number).encode()
    code = driver.object_code + b"".join(data for data, _ in blobs.objects)
    code += bytes(-(_FRONT + len(head) + len(code)) % LINE)
    parts = [*(len(part).to_bytes(_LENGTH, "little") for part in (head, code)), head, code, *blobs.constants]
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
    return {"object": blobs.code(kernel.code.object_code, name), "threads": kernel.threads}


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


def read_plan(path: str, library: Library, *, kept_as: str = "") -> RunnablePlan:
    """The plan in a file. Raises OSError, and LayoutError for a damaged file, one for another machine, or, where a name
    is given that says what the plan is, one that was kept under another."""
    with open(path, "rb") as stream:
        if stream.read(len(_MAGIC)) != _MAGIC:
            raise LayoutError(f"{path} is no executable that this release of layout-ir has saved")
        expected, lengths = stream.read(_DIGEST), stream.read(2 * _LENGTH)
        # As many bytes as the file has, whatever it says: it may be damaged.
        left = max(os.fstat(stream.fileno()).st_size - _FRONT, 0)
        sizes = [int.from_bytes(lengths[at : at + _LENGTH], "little") for at in (0, _LENGTH)]
        head, code = (stream.read(min(size, left)) for size in sizes)
        # The rest alone stays in memory.
        constants = aligned_bytes(max(left - len(head) - len(code), 0))
        constants = constants[: stream.readinto(constants.data)]
    digest = hashlib.sha256(lengths)
    for part in (head, code, constants.data):
        digest.update(part)
    if digest.digest() != expected:
        raise LayoutError(f"{path} is damaged: its digest is another one")
    content: Json = json.loads(head)
    for name, there in environment(library).items():
        if content["environment"].get(name) != there:
            raise LayoutError(
                f"{path} was saved for another {name}: {content['environment'].get(name)}, not {there}"
            )
    if kept_as and content.get("kept as") != kept_as:
        raise LayoutError(f"{path} was kept as '{content.get('kept as')}', not as '{kept_as}'")
    return _Reader(content, code, constants, library).runnable()


def _text(said: Json) -> StepText:
    ops, layouts = tuple(said["ops"]), tuple(said["layouts"])
    return StepText(ops, said["number"], said["implementation"], layouts, said["nbytes"])


class _Reader:
    def __init__(self, head: Json, code: bytes, constants: NDArray[np.uint8], library: Library) -> None:
        self.head = head
        self.constants = constants
        self.library = library
        end: int = head["driver"]["size"]
        if head["driver"]["key"] == DRIVER_KEY:
            offer_driver(code[:end])
        objects: list[bytes] = []
        for size, _ in head["objects"]:
            objects.append(code[end : end + size])
            end += size
        self._names: list[str] = [name for _, name in head["objects"]]
        self._codes = Code.of_objects(objects, self._names)
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
        return self.constants[first : first + size]

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
        number: int = said["object"]
        code, name = self._codes[number], self._names[number]
        threads = thread_pool.available(said["threads"])
        return _LoadedKernel(code, code.address(name), threads, said.get("indices", False), tensors)

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
                number,
                descriptor.descriptor(number) if made_from is None else described(self.library, made_from),
                self._buffers[buffer],
                offset,
            )
            for number, made_from, buffer, offset in cast("list[_Argument]", said["arguments"])
        ]
        return PrimitiveStep(
            text, descriptor, descriptor.primitive(), tuple(arguments), said["implementation"]
        )

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
