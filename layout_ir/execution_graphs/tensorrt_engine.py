"""TensorRT's layer information: the JSON of IEngineInspector, or of trtexec --exportLayerInfo.

An engine built with detailed profiling verbosity lists layers with a Name, a LayerType, and Inputs and Outputs, each
of which has a Name, Dimensions and a "Format/Datatype" in words ("Thirty-two wide channel vectorized row major Int8
format"). Layers of type Reformat copy, NoOp does not, and a Shuffle transposes where it says so (FirstTranspose,
SecondTranspose). Values are known by their names. A profile (trtexec --exportProfile) has the time of each layer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, cast

from layout_ir.algebra.format import Format
from layout_ir.errors import LayoutError, printable
from layout_ir.execution_graphs.execution_graph import (
    ExecutionGraph,
    Extents,
    Node,
    Operand,
    Role,
    Value,
    dtype_named,
)

_WIDTHS = {"two": 2, "four": 4, "eight": 8, "sixteen": 16, "thirty-two": 32}
_WIDE = re.compile(r"(two|four|eight|sixteen|thirty-two) wide channel vectorized row major", re.IGNORECASE)
_LAST = re.compile(r"channel major", re.IGNORECASE)
_PITCH = re.compile(r"(?:channel|C) % (\d{1,4}) == 0", re.IGNORECASE)
_STRIDED = re.compile(r"stride", re.IGNORECASE)
_LINEAR = re.compile(r"row major", re.IGNORECASE)
_TYPE = re.compile(
    r"\b(FP64|FP32|FP16|FP8|FP4|BF16|INT64|INT32|INT8|INT4|UINT8|BOOL|FLOAT|HALF|BFLOAT16)\b", re.IGNORECASE
)
_TYPES = {
    "fp64": "f64",
    "fp32": "f32",
    "fp16": "f16",
    "fp8": "f8E4M3FN",
    "bool": "i1",
    "float": "f32",
    "half": "f16",
}


def read_tensorrt(document: object, profile: object = None) -> ExecutionGraph:
    """The graph of layer information, as `json.load` gives it, with the times of a profile if there is one.

    Raises LayoutError where it is none, or names layers only.
    """
    layers = _layers(document)
    graph = ExecutionGraph("TensorRT layer information")
    numbers: dict[str, int] = {}
    times = {} if profile is None else _times(profile)
    for number, layer in enumerate(layers):
        name = str(layer.get("Name", number))
        kind = str(layer.get("LayerType", "?"))
        where = f"layer {number} '{printable(name)[:80]}'"
        inputs = [_value(entry, where) for entry in _list(layer, "Inputs", where)]
        outputs = [_value(entry, where) for entry in _list(layer, "Outputs", where)]
        for value in inputs:
            if value.name not in numbers:
                numbers[value.name] = graph.add_value(value)
                graph.add_node(Node(value.name, "input", "input", [], [numbers[value.name]]))
        operands = [Operand(str(slot), numbers[value.name]) for slot, value in enumerate(inputs)]
        made: list[int] = []
        for value in outputs:
            numbers[value.name] = graph.add_value(value)
            made.append(numbers[value.name])
        node = Node(name, kind, _role(kind, layer), operands, made)
        node.implementation = str(layer.get("TacticName", ""))
        node.attributes = _attributes(layer)
        node.time_us = times.get(name)
        if node.role == "copy" and inputs and outputs:
            node.permutation = _permutation(layer, inputs[0], outputs[0])
        graph.add_node(node)
    _add_outputs(graph, document, numbers)
    return graph


def _layers(document: object) -> list[dict[str, Any]]:
    if isinstance(document, dict):
        fields = cast("dict[str, Any]", document)
        if "Layers" not in fields:
            keys = ", ".join(f"'{printable(str(key))[:30]}'" for key in list(fields)[:4]) or "nothing"
            raise LayoutError(
                f"the JSON object has {keys}, not the 'Layers' of TensorRT layer information (IEngineInspector, or "
                "trtexec --exportLayerInfo=FILE --profilingVerbosity=detailed)"
            )
        layers = fields["Layers"]
    else:
        layers = document
    if not isinstance(layers, list):
        raise LayoutError("the JSON has no list of layers, as TensorRT layer information has in 'Layers'")
    entries = cast("list[Any]", layers)
    if entries and all(isinstance(layer, str) for layer in entries):
        raise LayoutError(
            "the file has names of layers only: build the engine with ProfilingVerbosity.DETAILED "
            "(trtexec --profilingVerbosity=detailed)"
        )
    for number, layer in enumerate(entries):
        if not isinstance(layer, dict) or not ("Name" in layer or "LayerType" in layer):
            raise LayoutError(f"entry {number} of the layers has no 'Name' and no 'LayerType'")
    return cast("list[dict[str, Any]]", entries)


def _list(layer: dict[str, Any], key: str, where: str) -> list[dict[str, Any]]:
    found = layer.get(key, [])
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in cast("list[Any]", found)):
        raise LayoutError(f"{where}: '{key}' is no list of objects")
    return cast("list[dict[str, Any]]", found)


def _value(entry: dict[str, Any], where: str) -> Value:
    name = entry.get("Name")
    if not isinstance(name, str):
        raise LayoutError(f"{where} has a tensor without a 'Name'")
    shape = _shape(entry.get("Dimensions"), f"{where}: tensor '{printable(name)[:80]}'")
    text = str(entry.get("Format/Datatype", entry.get("Format", ""))).strip().rstrip(".")
    dtype = _element_type(str(entry.get("DataType", "")) or text)
    layout = None if shape is None else format_in_words(text, len(shape))
    return Value(name, shape, dtype, layout, text)


def _shape(found: object, where: str) -> Extents | None:
    if found is None:
        return None
    if not isinstance(found, list) or not all(type(extent) is int for extent in cast("list[Any]", found)):
        raise LayoutError(f"{where} has 'Dimensions' that are no list of integers")
    return tuple(None if extent < 0 else extent for extent in cast("list[int]", found))


def _element_type(text: str) -> str | None:
    match = _TYPE.search(text)
    if match is None:
        return dtype_named(text)
    word = match[1].lower()
    return _TYPES.get(word) or dtype_named(word)


def format_in_words(text: str, rank: int) -> Format | None:
    """The Format of a tensor of that rank that TensorRT describes by `text`; None where it has no translation.

    Channels are the third dim from the end, or the fourth where the text says that there are 3 spatial dims.
    """
    channel = rank - (4 if "3 spatial dimensions" in text else 3)
    letters = "abcdefghijkl"[:rank]
    if rank < 1 or len(letters) != rank:
        return None
    outer = list(letters)
    blocks: list[str] = []
    if wide := _WIDE.search(text):
        if channel < 0:
            return None
        blocks = [f"{letters[channel]}:{_WIDTHS[wide[1].lower()]}"]
    elif _LAST.search(text):
        pitch = _PITCH.search(text)
        if channel < 0 or _STRIDED.search(text):
            return None
        outer.append(outer.pop(channel))
        if pitch is not None and int(pitch[1]) > 1:
            blocks = [f"{letters[channel]}:{int(pitch[1])}"]
    elif not _LINEAR.search(text) and _element_type(text) is None:
        return None
    try:
        return Format.parse(f"({', '.join(letters)}) : [{', '.join([*outer, *blocks])}]")
    except LayoutError:
        return None


def _role(kind: str, layer: dict[str, Any]) -> Role:
    match kind:
        case "Reformat":
            return "copy"
        case "NoOp":
            return "view"
        case "Constant":
            return "constant"
        case "Shuffle":
            return "copy" if _transposes(layer) else "view"
        case _:
            return "op"


def _transposes(layer: dict[str, Any]) -> list[tuple[int, ...]]:
    """The transposes of a Shuffle that change the order of dims, in the order they are made in."""
    found: list[tuple[int, ...]] = []
    for key in ("FirstTranspose", "SecondTranspose"):
        order: Any = layer.get(key)
        if isinstance(order, list) and all(type(k) is int for k in cast("list[Any]", order)):
            dims = tuple(cast("list[int]", order))
            if dims != tuple(range(len(dims))):
                found.append(dims)
    return found


def _permutation(layer: dict[str, Any], source: Value, result: Value) -> tuple[int, ...] | None:
    """The order of dims of a copy; None for a Shuffle that reshapes as well, or whose dims do not fit."""
    if source.shape is None or result.shape is None or len(source.shape) != len(result.shape):
        return None
    rank = len(source.shape)
    order = tuple(range(rank))
    for transpose in _transposes(layer) if layer.get("LayerType") == "Shuffle" else ():
        if sorted(transpose) != list(range(rank)):
            return None
        order = tuple(order[k] for k in transpose)
    return order if tuple(source.shape[k] for k in order) == result.shape else None


_NOT_ATTRIBUTES = (
    "Name", "LayerType", "Inputs", "Outputs", "TacticName", "TacticValue", "StreamId", "Metadata", "Origin",
)  # fmt: skip


def _attributes(layer: dict[str, Any]) -> str:
    """What a layer says of what it computes, the sizes of its weights included, as text."""
    return json.dumps(
        {key: value for key, value in layer.items() if key not in _NOT_ATTRIBUTES}, sort_keys=True
    )


def _times(profile: object) -> dict[str, float]:
    """Microseconds of one execution of each layer. Raises LayoutError where `profile` is no exported profile."""
    if not isinstance(profile, list):
        raise LayoutError("the profile is no JSON list, as trtexec --exportProfile writes")
    result: dict[str, float] = {}
    for entry in cast("list[Any]", profile):
        if not isinstance(entry, dict):
            continue
        fields = cast("dict[str, Any]", entry)
        name, time = fields.get("name"), fields.get("averageMs")
        if isinstance(name, str) and isinstance(time, int | float):
            result[name] = float(time) * 1000
    if not result:
        raise LayoutError(
            "the profile has no layer with 'name' and 'averageMs', as trtexec --exportProfile writes"
        )
    return result


def _add_outputs(graph: ExecutionGraph, document: object, numbers: dict[str, int]) -> None:
    """Adds the outputs of the engine: those it names, else the values that no layer reads."""
    named: list[str] = []
    if isinstance(document, dict):
        fields = cast("dict[str, Any]", document)
        tensors: Sequence[Any] = fields.get("I/O Tensors") or fields.get("Bindings") or []
        for tensor in tensors if isinstance(tensors, list) else []:
            if isinstance(tensor, str):
                named.append(tensor)
            elif isinstance(tensor, dict) and cast("dict[str, Any]", tensor).get("IOMode") != "Input":
                named.append(str(cast("dict[str, Any]", tensor).get("Name")))
    inputs = {value for node in graph.nodes if node.role == "input" for value in node.outputs}
    chosen = [numbers[name] for name in named if name in numbers and numbers[name] not in inputs]
    if not chosen:
        read = {operand.value for node in graph.nodes for operand in node.inputs}
        chosen = [value for value in numbers.values() if value not in read]
    for value in chosen:
        name = graph.values[value].name
        graph.add_node(Node(name, "output", "output", [Operand("0", value)]))
