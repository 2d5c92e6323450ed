"""Reading of ONNX files: the model, its opset, its nodes after inlining, and the shapes of its inputs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from layout_ir.argument_checks import checked_path
from layout_ir.errors import LayoutError
from layout_ir.files import read_whole
from layout_ir.forking import loading
from layout_ir.frontends.onnx.functions import Call, domain_of, inlined
from layout_ir.frontends.onnx.import_error import OnnxImportError, UnknownTypeError, quoted
from layout_ir.frontends.onnx.node_order import with_sorted_nodes
from layout_ir.frontends.onnx.old_opsets import OLDEST_READ, OPSET, renewed
from layout_ir.frontends.onnx.sparse_tensors import with_dense_constants
from layout_ir.frontends.onnx.subgraphs import graphs_of
from layout_ir.frontends.onnx.tensor_protos import array_of, bring_inside, check_shape, numpy_type
from layout_ir.frontends.onnx.weights_in_file import LARGE, OpenWeights, open_model

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray

OLDEST_OPSET = OPSET
"""The oldest opset of a model that is read: those of 7 and 8 become models of this one first."""


@dataclass(frozen=True)
class Model:
    """A checked model; `calls` are the nodes of its graph after local functions are inlined."""

    proto: onnx.ModelProto
    calls: Sequence[Call]
    folder: Path | None
    """The folder of the file, for external data; None for a model that did not come from a file."""
    weights: Mapping[str, OpenWeights] = field(default_factory=dict[str, OpenWeights])
    """The initializers whose elements are still in the file of the model, and not in `proto`, by name."""

    @property
    def graph(self) -> onnx.GraphProto:
        """The graph, in which calls of functions stand as they were."""
        return self.proto.graph

    def array_of(self, tensor: onnx.TensorProto, title: str) -> NDArray[Any]:
        """The elements of an initializer in its shape. Raises OnnxImportError, naming `title`, as
        `tensor_protos.array_of` does, and where the file was written to since the model was read."""
        weights = self.weights.get(tensor.name)
        return array_of(tensor, self.folder, title, None if weights is None else weights.read())


@dataclass(frozen=True)
class Input:
    """A graph input that is no constant."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class WithoutDefaults:
    """A model whose inputs of these names have defaults, which are taken away: all calls give them."""

    source: AnySource
    names: frozenset[str]


if TYPE_CHECKING:
    Source = str | os.PathLike[str] | bytes | onnx.ModelProto
    """What a model is read from: a file, its bytes, or the model itself."""
    AnySource = Source | WithoutDefaults
    _File = TypeVar("_File")
    _InParts = Callable[[Path], tuple[onnx.ModelProto, _File] | tuple[None, None]]
    """Reads a file without its large weights; (None, None) for one that is to be read as a whole."""


def load(source: AnySource) -> Model:
    """The model in a file, in bytes or in a ModelProto, its nodes in an order in which they can run.

    Raises OnnxImportError where it is cut, invalid or too old.
    """
    model, folder, title, weights = _read(source, open_model)
    model = with_dense_constants(model, folder)
    opsets = _opsets(model.opset_import, title)
    for function in model.functions:
        _opsets(function.opset_import, f"function {quoted(function.name)}", OLDEST_OPSET)
    if folder is not None:
        for node in model.graph.node:
            for graph in graphs_of(node) if node.attribute else ():
                bring_inside(graph, folder)
    calls = inlined(model, opsets)
    # A model of other domains only, as converters of trees write them, need not say it.
    if any("" not in call.opsets and not domain_of(call.proto.domain) for call in calls):
        raise OnnxImportError(f"{title} does not say which version of the ONNX operators it uses")
    return Model(model, calls, folder, weights or {})


def read_model(source: Source) -> tuple[onnx.ModelProto, Path | None]:
    """The model as it is, a copy of a ModelProto, and the folder of its file for external data, which are not read.

    Nodes are moved where they cannot run in the order in which they stand.

    Raises OnnxImportError where it is cut or invalid.
    """
    model, folder, _ = _read_copy(source, None)
    return model, folder


def read_open_model(source: Source) -> tuple[onnx.ModelProto, Path | None, dict[str, OpenWeights]]:
    """As `read_model`; the large weights of a large file stay in it, and are given by name of the initializer, which
    has none in the model."""
    model, folder, weights = _read_copy(source, partial(open_model, least=LARGE))
    return model, folder, weights or {}


def _read_copy(
    source: Source, in_parts: _InParts[_File] | None
) -> tuple[onnx.ModelProto, Path | None, _File | None]:
    """What `_read` returns, with a copy of a ModelProto that the caller may change."""
    model, folder, title, file = _read(source, in_parts)  # says so where the package is missing
    import onnx

    _opsets(model.opset_import, title)
    if isinstance(source, onnx.ModelProto):
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        model = copy
    return model, folder, file


def _read(
    source: AnySource, in_parts: _InParts[_File] | None
) -> tuple[onnx.ModelProto, Path | None, str, _File | None]:
    """The checked model, its folder, its title in messages, and the file of the weights that it is read without."""
    try:
        with loading:
            import onnx
    except ImportError as error:
        raise OnnxImportError(
            f"ONNX import needs the onnx package: pip install 'layout-ir[onnx]' ({error})"
        ) from error

    folder = weights = None
    if isinstance(source, WithoutDefaults):
        model, folder, title, weights = _read(source.source, in_parts)
        return _without_defaults(model, source.names), folder, title, weights
    if isinstance(source, onnx.ModelProto):
        model, title = source, "the ModelProto"
    elif isinstance(source, bytes):
        model, title = _parse(source, "the model"), "the model"
    elif isinstance(source, str | os.PathLike):  # pyright: ignore[reportUnnecessaryIsInstance]
        path = Path(checked_path(source, "source"))
        title = f"'{path}'"
        try:
            model, weights = (None, None) if in_parts is None else in_parts(path)
            data = read_whole(path) if model is None else b""
        except OSError as error:
            raise OnnxImportError(f"cannot read {title}: {error.strerror or error}") from error
        except LayoutError as error:
            raise OnnxImportError(f"cannot read {title}: {error}") from error
        if model is None:
            model = _parse(data, title)
        folder = path.parent
    else:
        raise OnnxImportError(
            f"a model is a path, the bytes of a file, or a ModelProto, not of type {type(source).__name__}"
        )
    _check(model, title)
    _nodes = model.graph.node[:]  # objects that are looked at twice are made once
    _check_names(model)
    return renewed(with_sorted_nodes(model)), folder, title, weights


def _without_defaults(model: onnx.ModelProto, names: frozenset[str]) -> onnx.ModelProto:
    """A copy of the model without these initializers."""
    result = type(model)()
    result.CopyFrom(model)
    graph = result.graph
    dense = [tensor for tensor in model.graph.initializer if tensor.name not in names]
    sparse = [tensor for tensor in model.graph.sparse_initializer if tensor.values.name not in names]
    del graph.initializer[:], graph.sparse_initializer[:]
    graph.initializer.extend(dense)
    graph.sparse_initializer.extend(sparse)
    return result


def _opsets(
    imports: Iterable[onnx.OperatorSetIdProto], title: str, oldest: int = OLDEST_READ
) -> dict[str, int]:
    """Versions of operators by domain. Raises OnnxImportError if that of the default domain is not supported."""
    import onnx.defs

    result: dict[str, int] = {}
    for entry in imports:
        domain = domain_of(entry.domain)
        if result.setdefault(domain, entry.version) != entry.version:
            raise OnnxImportError(
                f"{title} uses opset {result[domain]} and opset {entry.version} of domain {quoted(domain)}"
            )
    newest, opset = onnx.defs.onnx_opset_version(), result.get("", oldest)
    if not oldest <= opset <= newest:
        todo = "convert it with onnx.version_converter" if opset < oldest else "update the onnx package"
        raise OnnxImportError(f"{title} uses opset {opset}, supported are {oldest} to {newest}; {todo}")
    return result


def _parse(data: bytes, title: str) -> onnx.ModelProto:
    import onnx
    from google.protobuf.message import DecodeError

    if not data:
        raise OnnxImportError(f"{title} is empty: 0 bytes are no ONNX model")
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        raise OnnxImportError(f"{title} is not an ONNX model, or is truncated ({len(data)} bytes)") from error
    return model


def _check(model: onnx.ModelProto, title: str) -> None:
    # Text, or a file cut at a lucky place, can pass for a message with most fields missing.
    if not model.ir_version or not model.opset_import or not model.HasField("graph"):
        missing = [
            name
            for name, there in (
                ("IR version", model.ir_version),
                ("operator set", model.opset_import),
                ("graph", model.HasField("graph")),
            )
            if not there
        ]
        raise OnnxImportError(
            f"{title} is not an ONNX model, or is truncated: it has no {' and no '.join(missing)}"
        )
    if not model.graph.output:
        raise OnnxImportError(f"{title} has a graph without outputs, or is truncated")


def _check_names(model: onnx.ModelProto) -> None:
    """Raise OnnxImportError if a name is not UTF-8: protobuf does not check, and gives bytes for such a name."""
    graph = model.graph
    for kind, values in (
        ("input", graph.input),
        ("output", graph.output),
        ("initializer", graph.initializer),
    ):
        for number, name in enumerate([value.name for value in values]):
            if isinstance(name, bytes):
                _check_name(name, f"{kind} {number} of the graph")
    # Nearly always all are sound, which one look at the texts of all nodes tells.
    texts = _texts(graph.node)
    for function in model.functions:
        texts += _texts(function.node)
        # Nothing else has attributes that stand for parameters.
        texts += [attribute.ref_attr_name for node in function.node for attribute in node.attribute]
    if bytes in map(type, texts):
        for name, number, node in _all_nodes(model):
            for text in (*_texts([node]), *(attribute.ref_attr_name for attribute in node.attribute)):
                _check_name(text, f"node {number} of {name}")
    for number, function in enumerate(model.functions):
        for text in (function.domain, function.name, function.overload, *function.input, *function.output):
            _check_name(text, f"function {number}")
        for text in (*function.attribute, *(attribute.name for attribute in function.attribute_proto)):
            _check_name(text, f"function {number}")


def _texts(nodes: Iterable[onnx.NodeProto]) -> list[str]:
    """All names in nodes but those in their subgraphs, and those of parameters."""
    texts: list[str] = []
    for node in nodes:
        texts += (node.name, node.op_type, node.domain, node.overload)
        texts += node.input[:]  # a slice is made at once
        texts += node.output[:]
        for attribute in node.attribute[:]:
            texts.append(attribute.name)
    return texts


def _all_nodes(model: onnx.ModelProto) -> Iterator[tuple[str, int, onnx.NodeProto]]:
    for number, node in enumerate(model.graph.node):
        yield "the graph", number, node
    for place, function in enumerate(model.functions):
        for number, node in enumerate(function.node):
            yield f"function {place}", number, node


def _check_name(name: str | bytes, title: str) -> None:
    if isinstance(name, bytes):
        raise OnnxImportError(f"{title} uses the name {quoted(name)}, which is not UTF-8")


def graph_inputs(graph: onnx.GraphProto, shapes: Mapping[str, Sequence[int]]) -> list[Input]:
    """Inputs that are no initializers, in order, with the shapes they say or are given. Raises OnnxImportError."""
    constants = {tensor.name for tensor in graph.initializer}
    values = [value for value in graph.input if value.name not in constants]
    for name in shapes:
        if name not in {value.name for value in values}:
            known = ", ".join(quoted(value.name) for value in values) or "none"
            raise OnnxImportError(
                f"shapes names {quoted(name)}, which is no input of the model; its inputs: {known}"
            )
    unknown = [value for value in values if value.name not in shapes and is_dynamic(value)]
    if unknown:
        raise _dynamic_inputs(unknown)
    return [_input(value, shapes.get(value.name)) for value in values]


def inputs_with_defaults(model: onnx.ModelProto) -> list[str]:
    """The inputs of which a model has initializers, which a call may give other values."""
    if model.ir_version < 4:  # before, initializers had to be listed as inputs
        return []
    graph = model.graph
    constants = {tensor.name for tensor in graph.initializer}
    constants |= {tensor.values.name for tensor in graph.sparse_initializer}
    return [value.name for value in graph.input if value.name in constants]


def is_dynamic(value: onnx.ValueInfoProto) -> bool:
    """Whether an extent of the tensor, or its shape as a whole, is not in the model."""
    type = value.type.tensor_type
    return value.type.WhichOneof("value") == "tensor_type" and (
        not type.HasField("shape") or any(_extent(dim) is None for dim in type.shape.dim)
    )


def stated_extents(value: onnx.ValueInfoProto) -> tuple[int | None, ...] | None:
    """The extents of an input, None for a symbolic one; None where the model states no shape, or no tensor."""
    type = value.type.tensor_type
    if value.type.WhichOneof("value") != "tensor_type" or not type.HasField("shape"):
        return None
    return tuple(_extent(dim) for dim in type.shape.dim)


def _extent(dim: onnx.TensorShapeProto.Dimension) -> int | None:
    return dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None


_TYPICAL = (
    (r"batch|^[nb]$", 1),
    (r"height|width|^[hw]$", 224),
    (r"chan|^c$", 3),
    (r"seq|len|time|tok|^[lst]$", 128),
)
"""Extents that a dim of such a name has in the hint of an error."""


def typical_extent(dim: onnx.TensorShapeProto.Dimension, number: int, rank: int) -> int:
    """An extent for a dim of an input of `rank` dims: that of the model, else one that networks have there."""
    known = _extent(dim)
    if known is not None:
        return known
    for pattern, extent in _TYPICAL:
        if re.search(pattern, dim.dim_param, re.IGNORECASE):
            return extent
    return 1 if number == 0 else 128 if rank < 4 else 3 if number == 1 else 224


def _dynamic_inputs(values: Sequence[onnx.ValueInfoProto]) -> OnnxImportError:
    """The error about all inputs without a static shape, with the options that would give them one."""
    problems: list[str] = []
    options: list[str] = []
    arguments: list[str] = []
    for value in values:
        dims = value.type.tensor_type.shape.dim
        numbers = [number for number, dim in enumerate(dims) if _extent(dim) is None]
        if not value.type.tensor_type.HasField("shape"):
            problems.append(f"input {quoted(value.name)} has no shape")
            options.append(f"--shape {quote(value.name)}=...")
            arguments.append(f"'{value.name}': (...)")
            continue
        names = ", ".join(
            str(number) + (f" {quoted(dims[number].dim_param)}" if dims[number].dim_param else "")
            for number in numbers
        )
        several = len(numbers) > 1
        problems.append(
            f"dim{'s' if several else ''} {names} of input {quoted(value.name)} {'are' if several else 'is'} dynamic"
        )
        extents = [typical_extent(dim, number, len(dims)) for number, dim in enumerate(dims)]
        options.append(f"--shape {quote(value.name)}={'x'.join(map(str, extents))}")
        arguments.append(f"'{value.name}': {tuple(extents)}")
    return OnnxImportError(
        f"{'; '.join(problems)}; give the shape{'s' if len(values) > 1 else ''}: {' '.join(options)} "
        f"(in Python shapes={{{', '.join(arguments)}}})"
    )


def _input(value: onnx.ValueInfoProto, given: Sequence[int] | None) -> Input:
    name, kind = value.name, value.type.WhichOneof("value")
    title = quoted(name)
    if kind != "tensor_type":
        raise UnknownTypeError(
            f"input {title} is no tensor but {kind or 'of no type'}; only tensors are supported"
        )
    type = value.type.tensor_type
    dtype = numpy_type(type.elem_type, f"input {title}")
    if given is not None:
        shape = tuple(map(int, given))
        if type.HasField("shape") and len(type.shape.dim) != len(shape):
            raise OnnxImportError(
                f"rank mismatch between shapes['{name}'] = {shape} and input {title}: "
                f"{len(shape)} != {len(type.shape.dim)}"
            )
        if any(extent < 0 for extent in shape):
            raise OnnxImportError(f"shapes['{name}'] = {shape} has a negative extent")
        return Input(name, check_shape(shape, dtype, f"input {title}"), dtype)
    extents = [dim.dim_value for dim in type.shape.dim]
    return Input(name, check_shape(extents, dtype, f"input {title}"), dtype)
