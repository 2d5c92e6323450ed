"""OpenVINO's execution graph: the XML that `ov.serialize(compiled_model.get_runtime_model(), path)` writes.

A layer has ports with shapes and element types; its element `data` has the layouts of its outputs (oneDNN tags of the
CPU plugin, names such as `b_fs_yx_fsv16` of the GPU's), the primitive, and the time of an execution where the model was
compiled with PERF_COUNT. Layers of type Reorder and Transpose copy. A Transpose keeps its order of dims in a constant
that is not in the file, so the order is concluded from the extents, where only one fits.

The file is read by a parser without entities, and none that declares a document type is taken.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import permutations
from typing import IO, Any
from xml.parsers import expat

from layout_ir.algebra.format import Format
from layout_ir.errors import LayoutError, printable
from layout_ir.execution_graphs.execution_graph import (
    MOST_NODES,
    ExecutionGraph,
    Extents,
    Node,
    Operand,
    Role,
    Value,
    dtype_named,
)
from layout_ir.notations import NOTATIONS

_ROLES: dict[str, Role] = {
    "Input": "input", "Parameter": "input", "Output": "output", "Result": "output", "Const": "constant",
    "Constant": "constant", "Reorder": "copy", "Transpose": "copy", "Reshape": "view", "Squeeze": "view",
    "Unsqueeze": "view",
}  # fmt: skip

MOST_TRIED_DIMS = 6
"""The largest rank for which orders of dims are tried out."""


def read_openvino(stream: IO[bytes]) -> ExecutionGraph:
    """The graph in `stream`. Raises LayoutError where it is no XML, or not that of an execution graph."""
    document = _Document()
    parser = expat.ParserCreate()
    parser.StartElementHandler = document.start
    parser.EndElementHandler = document.end
    parser.CharacterDataHandler = document.text
    parser.StartDoctypeDeclHandler = _refuse_doctype
    parser.buffer_text = True
    try:
        parser.ParseFile(stream)
    except expat.ExpatError as error:
        raise LayoutError(
            f"line {error.lineno}, column {error.offset + 1}: not well-formed XML, or truncated: "
            f"{expat.ErrorString(error.code)}"
        ) from None
    return document.graph()


def _refuse_doctype(name: str, *_: Any) -> None:
    raise LayoutError("the XML declares a document type, which no execution graph has: it is not read")


@dataclass(slots=True)
class _Port:
    """A port of a layer: its shape, where -1 is dynamic, and its element type as the file writes it."""

    dims: list[int] = field(default_factory=list[int])
    precision: str = ""

    @property
    def shape(self) -> Extents:
        return tuple(None if extent < 0 else extent for extent in self.dims)


@dataclass(slots=True)
class _Layer:
    name: str
    type: str
    line: str
    data: dict[str, str] = field(default_factory=dict[str, str])
    inputs: dict[str, _Port] = field(default_factory=dict[str, _Port])
    outputs: dict[str, _Port] = field(default_factory=dict[str, _Port])


class _Document:
    """Takes the events of the parser."""

    def __init__(self) -> None:
        self._layers: dict[str, _Layer] = {}
        self._edges: list[tuple[str, str, str, str]] = []
        self._path: list[str] = []
        self._layer: _Layer | None = None
        self._port: _Port | None = None
        self._dim: list[str] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """An element begins."""
        if not self._path and tag != "net":
            raise LayoutError(
                f"the XML has the root element <{printable(tag)[:40]}>, an OpenVINO execution graph has <net>"
            )
        self._path.append(tag)
        match self._path:
            case ["net", "layers", "layer"]:
                if len(self._layers) >= MOST_NODES:
                    raise LayoutError(f"more than {MOST_NODES} layers, the most that are read of a file")
                name = attributes.get("name", "")
                self._layer = _Layer(name, attributes.get("type", ""), f"layer '{printable(name)[:80]}'")
                self._layers[attributes.get("id", str(len(self._layers)))] = self._layer
            case ["net", "layers", "layer", "data"] if self._layer:
                self._layer.data = attributes
            case ["net", "layers", "layer", "input" | "output", "port"] if self._layer:
                ports = self._layer.inputs if self._path[3] == "input" else self._layer.outputs
                self._port = ports[attributes.get("id", "")] = _Port([], attributes.get("precision", ""))
            case ["net", "layers", "layer", "input" | "output", "port", "dim"]:
                self._dim = []
            case ["net", "edges", "edge"]:
                keys = ("from-layer", "from-port", "to-layer", "to-port")
                if missing := [key for key in keys if key not in attributes]:
                    raise LayoutError(f"edge {len(self._edges)} has no attribute {missing[0]}")
                self._edges.append(
                    (attributes[keys[0]], attributes[keys[1]], attributes[keys[2]], attributes[keys[3]])
                )
            case _:
                pass

    def text(self, text: str) -> None:
        """Characters of the element that began last."""
        if self._path[-1] == "dim":
            self._dim.append(text)

    def end(self, tag: str) -> None:
        """An element ends."""
        if tag == "dim" and self._port is not None and self._layer is not None:
            text = "".join(self._dim).strip()
            try:
                extent = int(text[:20])
            except ValueError:
                raise LayoutError(
                    f"{self._layer.line} has a dim of extent '{printable(text)[:40]}', not a number"
                ) from None
            self._port.dims.append(extent)
        self._path.pop()

    def graph(self) -> ExecutionGraph:
        """The whole of it. Raises LayoutError where edges and layers do not fit, or where nothing was executed."""
        if not self._layers:
            raise LayoutError("the XML has no layers: an OpenVINO model or execution graph has <net><layers>")
        if not any(
            "execOrder" in layer.data or "primitiveType" in layer.data for layer in self._layers.values()
        ):
            raise LayoutError(
                "this is an OpenVINO model, not what is executed of it: no layer says its execOrder; write that with "
                "ov.serialize(compiled_model.get_runtime_model(), path)"
            )
        graph = ExecutionGraph("OpenVINO execution graph")
        numbers: dict[tuple[str, str], int] = {}
        for key, layer in self._layers.items():
            layouts = layer.data.get("outputLayouts", "").split(",")
            types = layer.data.get("outputPrecisions", "").split(",")
            for k, (port_key, port) in enumerate(layer.outputs.items()):
                text = layouts[min(k, len(layouts) - 1)].strip()
                dtype = dtype_named(port.precision) or dtype_named(types[min(k, len(types) - 1)].strip())
                value = Value(layer.name, port.shape, dtype, _format(text, len(port.dims)), text)
                numbers[key, port_key] = graph.add_value(value)
        operands: dict[str, list[Operand]] = {}
        for number, (source, source_port, target, target_port) in enumerate(self._edges):
            if (source, source_port) not in numbers or target not in self._layers:
                raise LayoutError(
                    f"edge {number} leads from layer {printable(source)[:20]} to {printable(target)[:20]}, "
                    "one of which is not in the file"
                )
            operands.setdefault(target, []).append(Operand(target_port, numbers[source, source_port]))
        for key, layer in sorted(self._layers.items(), key=lambda entry: _order(entry[1])):
            made = [numbers[key, port] for port in layer.outputs]
            # Port numbers of inputs begin anew in each layer, in the order of the operands.
            places = {port: str(k) for k, port in enumerate(layer.inputs)}
            inputs = [Operand(places.get(o.slot, o.slot), o.value) for o in operands.get(key, [])]
            inputs.sort(key=lambda operand: operand.slot)
            node = Node(layer.name, layer.type, _ROLES.get(layer.type, "op"), inputs, made)
            node.implementation = layer.data.get("primitiveType", "")
            node.time_us = _time(layer.data.get("execTimeMcs", ""))
            if node.role == "copy" and inputs and made:
                node.permutation = _permutation(graph, node)
            graph.add_node(node)
        return graph


def _order(layer: _Layer) -> int:
    text = layer.data.get("execOrder", "")
    return int(text) if text.isdecimal() and len(text) < 10 else MOST_NODES


def _time(text: str) -> float | None:
    """Microseconds, None for a layer that took less than one, or was not measured."""
    return float(text) if text.isdecimal() and len(text) < 16 else None


def _format(text: str, rank: int) -> Format | None:
    for notation in ("tag", "openvino"):
        try:
            format = NOTATIONS[notation].parse(text)
        except LayoutError:
            continue
        if isinstance(format, Format) and format.rank == rank:
            return format
    return None


def _permutation(graph: ExecutionGraph, node: Node) -> tuple[int, ...] | None:
    """The order of dims: none for a Reorder, for a Transpose the only one that fits the extents (a dim of extent 1 has
    no place in it that matters)."""
    source, result = graph.values[node.inputs[0].value].shape, graph.values[node.outputs[0]].shape
    if source is None or result is None or len(source) != len(result):
        return None
    if node.kind == "Reorder":
        return tuple(range(len(source)))
    if (
        len(source) > MOST_TRIED_DIMS
        or None in source
        or sorted(map(str, source)) != sorted(map(str, result))
    ):
        return None
    found: dict[tuple[int, ...], tuple[int, ...]] = {}
    for order in permutations(range(len(source))):
        if tuple(source[k] for k in order) == result:
            found.setdefault(tuple(k for k in order if source[k] != 1), order)
    return next(iter(found.values())) if len(found) == 1 else None
