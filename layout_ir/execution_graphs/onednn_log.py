"""oneDNN's verbose log: what ONEDNN_VERBOSE=profile_exec (or 1, 2, all) prints, among whatever else the program does.

    onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,src:f32::blocked:abcd::f0 dst:f32::blocked:aBcd16b::f0,
        attr-scratchpad:user,,1x16x56x56,0.19                                        oneDNN 3.5 and later
    onednn_verbose,exec,cpu,reorder,jit:uni,undef,src_f32::blocked:abcd:f0 dst_f32::blocked:aBcd16b:f0,,,1x16x56x56,0.19

Fields are the marker, a version, a time stamp where asked for, "primitive", "exec", the engine, the primitive, its
implementation, the kind of propagation, the memory descriptors, attributes, an algorithm, the shapes of the problem and
the time in milliseconds. A descriptor has a name, an element type, flags, "blocked" and a tag, in newer releases
strides behind it.

A log lists executions and not values. A node is a kind of line: lines that are the same but for their times are one
node, a reorder one for each node that wrote what it reads. An operand is taken to be what was written last with
the same tag, element type and shape; shapes of a primitive that writes its problem as mb1_ic3oc16... are those of its
letters. That is an inference, and the report says so. The log is read line by line; what is kept is one node per kind
of line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from layout_ir.algebra.format import Format
from layout_ir.errors import LayoutError, printable
from layout_ir.execution_graphs.execution_graph import (
    ExecutionGraph,
    Extents,
    Node,
    Operand,
    Value,
    dtype_named,
)

MARKER = re.compile(rb"(?:onednn|dnnl)_verbose,")

_DESCRIPTOR = re.compile(
    r"(?P<name>[a-z][a-z0-9]*(?:_(?:layer|iter|proj|peephole|iter_c|\d+))*)[:_](?P<dtype>[a-z][a-z0-9_]*)"
    r":(?P<flags>[a-z0-9]*):(?P<kind>[a-z_]*):(?P<tag>[A-Za-z0-9]*)(?::(?P<strides>[0-9x]*))?(?::[^: ]*)*"
)
_SHAPE = re.compile(r"[0-9]+(?:x[0-9]+)*")
_LETTERED = re.compile(r"([a-z]+)([0-9]+)")

MOST_LINE = 1 << 16
"""Bytes of a line that are looked at."""


@dataclass(frozen=True, slots=True)
class _Line:
    """What a line says but for its time; `reads` and `writes` are operands by the names the log has for them."""

    primitive: str
    implementation: str
    attributes: str
    problem: str
    reads: tuple[tuple[str, Value], ...]
    writes: tuple[Value, ...]


_Key = tuple[object, ...]


def read_onednn(lines: Iterable[bytes], progress: Callable[[int], None] | None = None) -> ExecutionGraph:
    """The graph of a log, read line by line; `progress` is told the bytes read, now and then.

    Lines of other programs are passed over; those that begin as an execution and cannot be read are counted in
    `skipped`. Raises LayoutError where no line says an execution.
    """
    graph = ExecutionGraph("oneDNN verbose log", values_are_inferred=True)
    reader = _Reader(graph)
    done = bad = seen = 0
    first_bad = ""
    for number, raw in enumerate(lines, 1):
        done += len(raw)
        if progress is not None and number % 65536 == 0:
            progress(done)
        starts = [match.end() for match in MARKER.finditer(raw, 0, MOST_LINE)]
        if not starts:
            continue
        seen += 1
        if len(starts) > 1:  # another thread printed in the middle of it: what is behind may be whole
            bad += 1
            first_bad = first_bad or f"line {number}: two lines in one"
        fields = _fields(raw[starts[-1] : MOST_LINE])
        if fields is None:
            continue
        try:
            line, time = reader.parsed(fields)
        except ValueError as error:
            bad += 1
            first_bad = first_bad or f"line {number}: {printable(str(error))[:120]}"
            continue
        reader.add(line, time)
    if progress is not None:
        progress(done)
    if bad:
        graph.skipped.append(
            f"{bad} line{'s' if bad > 1 else ''} of executions cannot be read, first {first_bad}"
        )
    if not any(node.role in ("op", "copy") for node in graph.nodes):
        said = f"; {graph.skipped[0]}" if bad else ""
        raise LayoutError(
            f"the log has {seen} lines of oneDNN, none of which is an execution{said}: set "
            "ONEDNN_VERBOSE=profile_exec (or 1)"
        )
    return graph


def _fields(raw: bytes) -> list[str] | None:
    """The fields of an execution, from the engine on; None for any other line of the library."""
    fields = raw.decode("utf-8", "replace").rstrip("\r\n").split(",")
    for k, text in enumerate(fields[:4]):
        if text == "exec":
            return fields[k + 1 :]
        if text not in ("primitive", "v0", "v1", "v2") and re.fullmatch(r"[0-9.]+", text) is None:
            return None
    return None


class _Reader:
    """Adds lines to the graph, and remembers who wrote what last."""

    def __init__(self, graph: ExecutionGraph):
        self._graph = graph
        self._lines: dict[tuple[str, ...], _Line] = {}
        self._nodes: dict[_Key, int] = {}
        self._written: dict[_Key, int] = {}
        self._writers: dict[int, int] = {}
        self._outside: dict[_Key, int] = {}
        self._operands: dict[int, set[tuple[str, int]]] = {}
        self._formats: dict[str, Format | None] = {}

    def parsed(self, fields: list[str]) -> tuple[_Line, float]:
        """The line with these fields and its time in microseconds. Raises ValueError where it is half a line."""
        if len(fields) < 9:
            raise ValueError(f"{len(fields)} fields behind 'exec', not 9")
        time = float(fields[-1]) * 1000  # a ValueError where the line is cut, or runs into another
        if not 0 <= time < 1e15:
            raise ValueError(f"a time of {fields[-1]} ms")
        key = tuple(fields[:-1])
        if key not in self._lines:
            self._lines[key] = self._line(fields)
        return self._lines[key], time

    def _line(self, fields: list[str]) -> _Line:
        _, primitive, implementation, propagation, descriptors = fields[:5]
        attributes, problem = ",".join(fields[5:-2]), fields[-2]
        found = [match.groupdict() for match in map(_DESCRIPTOR.fullmatch, descriptors.split()) if match]
        if not found or not primitive:
            raise ValueError(f"no memory descriptor in '{descriptors[:60]}'")
        shapes = _shapes(primitive, problem, [entry["name"] for entry in found])
        values = [
            (entry["name"], self._value(entry, shape)) for entry, shape in zip(found, shapes, strict=True)
        ]
        # data and diff_data stand for source and destination of an op in place.
        writes = tuple(value for name, value in values if name.startswith(("dst", "data", "diff", "ws")))
        reads = tuple((name, value) for name, value in values if not name.startswith(("dst", "diff", "ws")))
        text = " ".join(part for part in (propagation, attributes, problem) if part)
        return _Line(primitive, implementation, text, problem, reads, writes)

    def _value(self, entry: dict[str, str], shape: Extents | None) -> Value:
        tag, strides = entry["tag"], entry["strides"] or ""
        if tag not in self._formats:
            try:
                self._formats[tag] = Format.from_tag(tag) if entry["kind"] == "blocked" else None
            except LayoutError:
                self._formats[tag] = None
        layout = self._formats[tag]
        dense = not strides or layout is None
        if layout is not None and shape is not None and layout.rank != len(shape):
            layout = shape = None
        text = f"{tag}:{strides}" if strides else tag or entry["kind"]
        return Value(entry["name"], shape, dtype_named(entry["dtype"]), layout if dense else None, text)

    def add(self, line: _Line, time: float) -> None:
        """Counts one execution."""
        reads = [(name, self._source(value)) for name, value in line.reads]
        copies = line.primitive == "reorder"
        # By the lines of the writers and not by their nodes: a reorder may read what it wrote a round ago.
        key: _Key = (id(line), *(self._writers.get(number) for _, number in reads)) if copies else (id(line),)
        number = self._nodes.get(key)
        if number is None:
            node = Node(line.problem, line.primitive, "copy" if copies else "op")
            node.implementation, node.attributes, node.time_us, node.executions = (
                line.implementation,
                line.attributes,
                0.0,
                0,
            )
            if copies and line.writes and line.writes[0].layout is not None:
                node.permutation = tuple(range(line.writes[0].layout.rank))
            node.outputs = [self._graph.add_value(value) for value in line.writes]
            self._writers.update((made, id(line)) for made in node.outputs)
            number = self._nodes[key] = self._graph.add_node(node)
            self._operands[number] = set()
        node = self._graph.nodes[number]
        node.executions += 1
        node.time_us = (node.time_us or 0.0) + time
        known = self._operands[number]
        for name, value in reads:
            if (name, value) not in known and len(known) < MOST_SOURCES:
                known.add((name, value))
                node.inputs.append(Operand(name, value))
        for made in node.outputs:
            self._written[_identity(self._graph.values[made])] = made

    def _source(self, value: Value) -> int:
        """The value of that description that was written last, else one from outside of the log."""
        identity = _identity(value)
        number = self._written.get(identity)
        if number is None:
            number = self._outside.get(identity)
        if number is None:
            number = self._outside[identity] = self._graph.add_value(value)
        return number


MOST_SOURCES = 64
"""Different values that are remembered as operands of one kind of line."""


def _identity(value: Value) -> _Key:
    return value.dtype, value.layout_text, value.shape


def _shapes(primitive: str, problem: str, names: list[str]) -> list[Extents | None]:
    """The shapes of the operands, as far as the text of the problem says them."""
    parts = problem.split(" ")[0].split(":")
    if all(_SHAPE.fullmatch(part) for part in parts):
        shapes = [tuple(map(int, part.split("x"))) for part in parts]
        if any(extent > 1 << 40 for shape in shapes for extent in shape):
            return [None] * len(names)
        if len(shapes) == 1:
            return [shapes[0]] * len(names) if primitive in _ONE_SHAPE else [None] * len(names)
        return _by_operand(primitive, shapes, names)
    return _lettered_shapes(problem, names)


_ONE_SHAPE = frozenset(
    (
        "reorder",
        "eltwise",
        "softmax",
        "batch_normalization",
        "shuffle",
        "lrn",
        "prelu",
        "sum",
        "layer_normalization",
    )
)
"""Primitives whose activations all have the shape of the problem."""


def _by_operand(primitive: str, shapes: list[tuple[int, ...]], names: list[str]) -> list[Extents | None]:
    """The shapes of a product or of a binary op: of both operands, from which that of the result follows."""
    if len(shapes) < 2 or len(shapes[0]) != len(shapes[1]):
        return [None] * len(names)
    a, b = shapes[0], shapes[1]
    result: tuple[int, ...]
    if primitive == "matmul" and len(a) > 1:
        result = (*(max(pair) for pair in zip(a[:-2], b[:-2], strict=True)), a[-2], b[-1])
    elif primitive == "binary":
        result = tuple(max(pair) for pair in zip(a, b, strict=True))
    else:
        return [None] * len(names)
    known: dict[str, Extents] = {
        "src": a,
        "src_0": a,
        "src0": a,
        "src_1": b,
        "src1": b,
        "wei": b,
        "dst": result,
    }
    return [known.get(name) for name in names]


def _lettered_shapes(problem: str, names: list[str]) -> list[Extents | None]:
    """The shapes of a problem in letters: mb1_ic3oc16_ih32oh32kh3..., g for groups; none where mb or ic is left out."""
    sizes = {letter: int(number) for letter, number in _LETTERED.findall(problem) if len(number) < 12}
    batch, ic = sizes.get("mb"), sizes.get("ic")
    if batch is None or ic is None:
        return [None] * len(names)
    space = [axis for axis in "dhw" if f"i{axis}" in sizes]
    if "oh" not in sizes and "ow" not in sizes:
        source: Extents = (batch, ic, *(sizes[f"i{axis}"] for axis in space))
        product = {"src": source, "wei": (sizes.get("oc"), *source[1:]), "dst": (batch, sizes.get("oc"))}
        return [product.get(name) if None not in product.get(name, (None,)) else None for name in names]
    groups, oc = sizes.get("g", 1), sizes.get("oc", ic)
    kernel = [sizes.get(f"k{axis}") for axis in space]
    weights: tuple[int | None, ...] = (oc // groups, ic // groups, *kernel)
    known: dict[str, tuple[int | None, ...]] = {
        "src": (batch, ic, *(sizes[f"i{axis}"] for axis in space)),
        "wei": (groups, *weights) if "g" in sizes else weights,
        "dst": (batch, oc, *(sizes.get(f"o{axis}") for axis in space)),
        "bia": (oc,),
    }
    return [known.get(name) if None not in known.get(name, (None,)) else None for name in names]
