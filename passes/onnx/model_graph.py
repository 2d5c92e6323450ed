"""A graph of an ONNX model as the choice of orders sees it: nodes, and what is known of values.

Weights are not read: a model of gigabytes is as fast as its nodes are many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import cached_property, lru_cache, partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from layout_ir.frontends.onnx.functions import domain_of, fresh_name
from layout_ir.frontends.onnx.import_error import quoted
from layout_ir.frontends.onnx.subgraphs import captured_names, graphs_of
from layout_ir.frontends.onnx.tensor_protos import array_of
from layout_ir.passes.onnx.inferred_types import (
    BY_TYPES_ALONE,
    SMALL,
    inferred_results,
    inferred_types,
)
from layout_ir.passes.onnx.orders import Extent, Order, Shape, identity, is_identity, is_static

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray

UNKNOWN_EXTENT = 64
"""The extent for which a dim of an input counts whose extent only the run time knows, in bytes moved.

Those that are the first of an input count as 1. That goes by the name of the extent: a value has the same size in any
order of its dims. Extents of other values count as what they are for inputs of that size, if that can be inferred, or
follows from Reshapes (`counted_extents`).
"""


VIEWS = ("Flatten", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
"""Operators whose result has the elements of their operand, in another shape or order."""


class PendingTensor(NamedTuple):
    """A tensor that is stored outside of the model, and the order in which it is wanted: nobody has read it yet."""

    stored: onnx.TensorProto
    order: Order


class _Shapes(dict[str, Shape | None]):
    """The shapes of values by name, found when they are asked for first: of `constants`, or what `types` say."""

    def __init__(self, types: Mapping[str, onnx.TypeProto], constants: Mapping[str, onnx.TensorProto]):
        super().__init__()
        self._types = types
        self._constants = constants
        self._known: dict[bytes, Shape | None] = {}
        """By type, as it is stored: values of a network have few types."""

    def __missing__(self, name: str) -> Shape | None:
        shape = self[name] = self._found(name)
        return shape

    def _found(self, name: str) -> Shape | None:
        if name in self._constants:
            return tuple(self._constants[name].dims[:])
        type = self._types.get(name)
        if type is None:
            return None
        stored = type.SerializeToString()
        if stored not in self._known:
            self._known[stored] = _shape_of(type)
        return self._known[stored]


class Graph:
    """A graph, or a subgraph of a node; `types` has the type of each value as far as it is known."""

    def __init__(
        self,
        proto: onnx.GraphProto,
        opsets: Mapping[str, int],
        folder: Path | None,
        types: dict[str, onnx.TypeProto],
        *,
        overridable: frozenset[str] = frozenset(),
        outer: Graph | None = None,
        taken: set[str] | None = None,
        is_alone: bool = False,
        sizes: Mapping[str, onnx.TypeProto] | None = None,
        functions: frozenset[tuple[str, str]] = frozenset(),
        claimed: frozenset[str] = frozenset(),
    ):
        self.proto = proto
        self.outer = outer
        """The graph around a subgraph, whose values it may use by name."""
        self.is_alone = is_alone
        """Whether it is known that no node has subgraphs."""
        if taken is not None:
            self.taken = taken
        self.opsets = opsets
        self.folder = folder
        self.types = types
        self.functions = functions
        """Domains and names of the local functions of the model, which mean what their bodies say."""
        self.claimed = claimed
        """Values of which more is known than can be inferred: because the file says so."""
        self.sizes = types if sizes is None else sizes
        """Types for one choice of the extents that only the run time knows."""
        self.initializers = {
            t.name: t for t in proto.initializer if t.name not in overridable and _has_numbers(t)
        }
        """Constants of the model that no caller may replace."""
        self.constants: dict[str, onnx.TensorProto] = dict(self.initializers)
        """These, and what Constant nodes give."""
        for node in proto.node:
            if node.op_type == "Constant" and domain_of(node.domain) == "" and len(node.attribute) == 1:
                tensor = _constant_of(node.attribute[0])
                if tensor is not None and _has_numbers(tensor):
                    self.constants[node.output[0]] = tensor
        self.batches: frozenset[Extent] = frozenset() if outer is None else outer.batches
        """The names of extents that count as 1 in bytes moved."""
        self.counted: Mapping[Extent, int] = {} if outer is None else outer.counted
        """By name, what extents of inner values count as in bytes moved."""
        self.pending: dict[str, PendingTensor] = {} if outer is None else outer.pending
        """Tensors of the whole model that are in another order than they are stored in."""
        self.folded: dict[str, NDArray[Any]] = {}
        """Values that have become constants; `constants` has them without elements."""
        self.computed: dict[str, NDArray[Any]] = {}
        """Elements of values that constants decide, as far as somebody computed them."""
        self._arrays: dict[str, NDArray[Any] | None] = {}
        self._forget_types()
        self._inferred: dict[tuple[object, ...], list[tuple[onnx.TypeProto, Shape | None] | None]] = {}
        """The types and shapes of results by all that they follow from."""

    def _forget_types(self) -> None:
        """Forgets what was found by types."""
        self._shapes = _Shapes(self.types, self.constants)
        self.shape: Callable[[str], Shape | None] = self._shapes.__getitem__
        """The shape of a value; None where not even its rank is known, or where it is no tensor."""
        self._elements: dict[str, int] = {}
        self._nbytes: dict[str, int] = {}
        """Sizes of values, until more is known of a type."""

    def replace_types(self, types: dict[str, onnx.TypeProto]) -> None:
        """States the types of all values anew, of a graph for which no extents were chosen."""
        self.types = self.sizes = types
        self._forget_types()

    @cached_property
    def taken(self) -> set[str]:
        """All names of the model, none of which a new value may have."""
        if not self.is_alone:
            return names_of(self.proto)
        values = (*self.proto.input, *self.proto.output, *self.proto.initializer)
        names = {value.name for value in values}
        for node in self.nodes_of_model:
            names.add(node.proto.name)
            names.update(node.inputs)
            names.update(node.outputs)
        return names

    @cached_property
    def nodes_of_model(self) -> list[Node]:
        """The nodes in order, as the model has them."""
        return [Node(proto, self) for proto in self.proto.node]

    @cached_property
    def nodes(self) -> list[Node]:
        """The nodes in order, without those that constants and merged views replace."""
        return list(self.nodes_of_model)

    def unfolded(self) -> Graph:
        """The graph as the model has it, with the types that are known by now."""
        found = copy(self)
        found.constants = {name: tensor for name, tensor in self.constants.items() if name not in self.folded}
        found.folded = {}
        for name in ("nodes", "makers", "uses"):
            found.__dict__.pop(name, None)
        return found

    def release(self) -> None:
        """Lets go of the nodes, after which nobody may ask for them.

        They refer to the graph, and the graph to them: without this they wait for the garbage collector, which has to
        look at all of them for it.
        """
        for name in ("nodes", "nodes_of_model", "makers", "users"):
            self.__dict__.pop(name, None)

    @cached_property
    def makers(self) -> dict[str, Node]:
        """By name of a value, the node that makes it, once no more nodes are replaced."""
        return {name: node for node in self.nodes for name in node.outputs if name}

    @cached_property
    def users(self) -> dict[str, list[Node]]:
        """By name of a value, the nodes that use it, as the model has them."""
        users: dict[str, list[Node]] = {}
        for node in self.nodes_of_model:
            for name in (*node.inputs, *node.captures):
                users.setdefault(name, []).append(node)
        return users

    @cached_property
    def uses(self) -> Counter[str]:
        """How often nodes and results of the graph use a value, once no more nodes are replaced."""
        results = [value.name for value in self.proto.output]
        return Counter([*(n for node in self.nodes for n in (*node.inputs, *node.captures)), *results])

    def make_constant(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Makes constants of these values, and drops the nodes that nobody needs any more because of it."""
        self._add_constants(arrays)
        results = {value.name for value in self.proto.output}
        needed: set[str] = set()
        kept: list[Node] = []
        unused = {name for node in self.nodes for name in node.outputs}
        unused -= {name for node in self.nodes for name in (*node.inputs, *node.captures)} | results
        for node in reversed(self.nodes):
            folded = all(name in arrays for name in node.outputs)
            # What nobody needed before is not for us to drop.
            if not folded and any(
                name in needed or name in results or name in unused for name in node.outputs
            ):
                kept.append(node)
                needed.update((*node.inputs, *node.captures))
        self.nodes = kept[::-1]

    @cached_property
    def _own(self) -> set[str]:
        """Names that the graph defines itself."""
        own = {value.name for value in self.proto.input}
        return own | {name for node in self.proto.node for name in node.output[:]}

    def _add_constants(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        import onnx
        import onnx.helper

        self.folded.update(arrays)
        self._nbytes.clear()
        for name, array in arrays.items():
            self._elements.pop(name, None)
            self._shapes.pop(name, None)  # inference may not have known it
            element = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
            self.constants[name] = onnx.TensorProto(name=name, data_type=element, dims=array.shape)

    def fresh(self, name: str) -> str:
        """`name`, or with a number behind it where the graph has it already; taken from now on."""
        return fresh_name(name, self.taken)

    def add_ints(self, values: Sequence[int], name: str) -> str:
        """A new constant of 64-bit integers; returns its name."""
        import numpy as np

        name = self.fresh(name)
        self._add_constants({name: np.array(values, np.int64)})
        return name

    def set_shape(self, name: str, shape: Shape, like: str) -> None:
        """States the shape of a new value, which has elements of the type of value `like`."""
        self.set_type(name, shape, self.element_type(like))

    def set_type(self, name: str, shape: Shape | None, element_type: int) -> None:
        """States the shape of a value, as far as it is known, and the number of its element type."""
        self._shapes[name] = shape
        self._elements[name] = element_type
        self._nbytes.clear()

    def set_places(self, before: Graph, places: Mapping[str, tuple[str, Order]]) -> None:
        """States the types of values by name, each a value of the graph before in an order of its dims."""
        shapes, elements = self._shapes, self._elements
        shape_of, element_of = before.shape, before.element_type
        for name, (root, order) in places.items():
            shape = shape_of(root)
            if shape is not None and not is_identity(order):
                shape = tuple([shape[d] for d in order])
            shapes[name] = shape
            elements[name] = element_of(root)
        self._nbytes.clear()

    def infer_results(self, node: Node, read: Mapping[str, NDArray[Any]]) -> list[str]:
        """Finds the types of the results of a node where `read` has the elements of inputs that are no constants.

        Returns the names of those of which more is known now.
        """
        elements: dict[str, NDArray[Any]] = {}
        if node.domain or node.op_type not in BY_TYPES_ALONE:
            small = {name: self.small_constant(name) for name in node.inputs if name and name not in read}
            elements = {**read, **{name: array for name, array in small.items() if array is not None}}
        # Blocks of a network have nodes that are alike.
        given = [elements.get(name) for name in node.inputs]
        key = (
            *(node.op_type, node.domain, len(node.inputs), len(node.outputs)),
            *map(self._type_key, node.inputs),
            *[None if array is None else (array.dtype.str, array.shape, array.tobytes()) for array in given],
            *[attribute.SerializeToString() for attribute in node.proto.attribute],
        )
        results = self._inferred.get(key)
        if results is None:
            types = {name: self.types[name] for name in node.inputs if name in self.types}
            found = inferred_results(node.proto, types, elements, self.opsets)
            by_place = [
                (found[name], _shape_of(found[name])) if name in found else None for name in node.outputs
            ]
            results = self._inferred[key] = by_place
        known: list[str] = []
        for name, result in zip(node.outputs, results, strict=True):
            if name and result is not None:
                type, found_shape = result
                before, shape = self.shape(name), found_shape
                if shape is not None and before is not None:
                    shape = _more_known(before, shape)
                if shape is not None and shape != before:
                    self.types[name] = type if shape == found_shape else _of_shape(type, shape)
                    self._shapes[name] = shape
                    self._elements.pop(name, None)
                    self._nbytes.clear()
                    known.append(name)
        return known

    def _type_key(self, name: str) -> object:
        """What tells the type of a value from others."""
        type = self.types.get(name)
        if type is None:
            return None
        shape = self.shape(name)
        return type.SerializeToString() if shape is None else (shape, type.tensor_type.elem_type)

    def sized_shape(self, name: str) -> Shape | None:
        """The shape of a value for those extents for which bytes are compared; it decides nothing else."""
        known = self.sizes is self.types or name not in self.sizes or name in self.constants
        return self.shape(name) if known else _shape_of(self.sizes[name])

    def nbytes(self, name: str) -> int:
        """The size of a value in bytes, with what extents count as of which nothing is said.

        A view has the size of what it is a view of, which may say more: a product of extents has no name. It may say
        less, too: of an Expand to computed extents nothing is known, and of the heads that are cut of it, all.
        """
        found = self._nbytes.get(name)
        if found is None:
            source, views = name, self._view_of
            known, least = source, self._unnamed(source)
            while source in views and least:
                source = views[source]
                unnamed = self._unnamed(source)
                if unnamed <= least:
                    known, least = source, unnamed
            extents = [self.counted_extent(n) for n in self.sized_shape(known) or ()]
            found = self._nbytes[name] = -(-prod(extents) * self.element_bits(known) // 8)
        return found

    def _unnamed(self, name: str) -> int:
        """How many extents of a value are no numbers and no extents of inputs; more than any has for unknown ranks."""
        shape = self.sized_shape(name)
        if shape is None:
            return UNKNOWN_EXTENT
        return sum(not isinstance(n, int) and n not in self.input_extents for n in shape)

    @cached_property
    def input_extents(self) -> frozenset[str]:
        """The names of the extents of inputs."""
        shapes = (self.shape(value.name) or () for value in self.proto.input)
        return frozenset(n for shape in shapes for n in shape if isinstance(n, str))

    def counted_extent(self, extent: Extent) -> int:
        """What an extent counts as in bytes moved."""
        if isinstance(extent, int):
            return extent
        return 1 if extent in self.batches else self.counted.get(extent, UNKNOWN_EXTENT)

    def extents_of_its_own(self) -> set[str | None]:
        """The extents of values that are no numbers and no extents of inputs: their names, and None where one is not
        known, or not even the rank."""
        found: set[str | None] = set()
        for node in self.nodes_of_model:
            for name in filter(None, node.outputs):
                shape = self.shape(name)
                if shape is None:
                    found.add(None)
                elif not is_static(shape):
                    found.update([n for n in shape if not isinstance(n, int) and n not in self.input_extents])
        return found

    @cached_property
    def quantized(self) -> frozenset[str]:
        """The floats inside of what runtimes compute on integers, and what Transposes make of them.

        That is DequantizeLinear, an operator and QuantizeLinear side by side. The integers between QuantizeLinear and
        DequantizeLinear are outside of it, and so is a Transpose of its own between DequantizeLinear and
        QuantizeLinear.
        """
        if all(node.op_type != "QuantizeLinear" for node in self.nodes_of_model):
            return frozenset()
        users = self.users
        results = {value.name for value in self.proto.output}
        found: set[str] = set()
        for maker in self.nodes_of_model:
            if is_transpose(maker) or maker.op_type == "QuantizeLinear" or len(maker.outputs) != 1:
                continue
            names = [maker.outputs[0]]
            for name in names:
                names += [node.outputs[0] for node in users.get(name, ()) if is_transpose(node)]
            takers = {n.op_type for name in names for n in users.get(name, ()) if not is_transpose(n)}
            if not results.isdisjoint(names):
                takers.add("result")
            if (takers == {"QuantizeLinear"}) == (maker.op_type != "DequantizeLinear"):
                found.update(names)
        return frozenset(found)

    @cached_property
    def _view_of(self) -> dict[str, str]:
        """By result of a node that changes the shape or the order of dims alone, its operand."""
        views = (node for node in self.nodes_of_model if node.op_type in VIEWS and not node.domain)
        return {node.outputs[0]: node.inputs[0] for node in views if node.inputs and node.outputs}

    def element_bits(self, name: str) -> int:
        """The bits of an element of a value; 32 where its type is not known."""
        return bits_of(self.element_type(name))

    def element_type(self, name: str) -> int:
        """The number of the element type of a value, as TensorProto has it; 0 where it is not known."""
        known = self._elements.get(name)
        if known is None:
            if name in self.constants:
                known = self.constants[name].data_type
            else:
                type = self.types.get(name)
                known = 0 if type is None else type.tensor_type.elem_type
            self._elements[name] = known
        return known

    def small_constant(self, name: str) -> NDArray[Any] | None:
        """The elements of a constant of at most `SMALL` elements; None where the value is none, or larger.

        Raises OnnxImportError where the elements do not fit the shape, or cannot be read.
        """
        if name not in self._arrays:
            tensor = self.constants.get(name)
            known = tensor is not None and prod(tensor.dims[:]) <= SMALL
            self._arrays[name] = self.elements(name) if known else None
            if tensor is None and self.outer is not None and name not in self._own:
                self._arrays[name] = self.outer.small_constant(name)
        return self._arrays[name]

    def elements(self, name: str) -> NDArray[Any]:
        """The elements of a constant. Raises OnnxImportError as `small_constant`."""
        if name in self.folded:
            return self.folded[name]
        if name in self.pending:
            stored, order = self.pending[name]
            return array_of(stored, self.folder, f"initializer {quoted(name)}").transpose(order)
        return array_of(self.constants[name], self.folder, f"initializer {quoted(name)}")


def _has_numbers(tensor: onnx.TensorProto) -> bool:
    """Whether the elements of a tensor are numbers; strings are left as they are."""
    return tensor.data_type not in (tensor.UNDEFINED, tensor.STRING)


def _constant_of(attribute: onnx.AttributeProto) -> onnx.TensorProto | None:
    """The tensor that a Constant node gives; None for strings and sparse tensors."""
    import onnx

    kinds = onnx.TensorProto
    match attribute.name:
        case "value":
            return attribute.t if attribute.HasField("t") else None
        case "value_int":
            return kinds(data_type=kinds.INT64, int64_data=[attribute.i])
        case "value_ints":
            return kinds(data_type=kinds.INT64, dims=[len(attribute.ints)], int64_data=attribute.ints)
        case "value_float":
            return kinds(data_type=kinds.FLOAT, float_data=[attribute.f])
        case "value_floats":
            return kinds(data_type=kinds.FLOAT, dims=[len(attribute.floats)], float_data=attribute.floats)
        case _:
            return None


def _shape_of(type: onnx.TypeProto) -> Shape | None:
    """The shape of a type; None for one that is no tensor, or of unknown rank."""
    tensor = type.tensor_type  # an empty one where it is no tensor
    if not tensor.HasField("shape"):
        return None
    return tuple([_extent(dim) for dim in tensor.shape.dim[:]])


def _extent(dim: onnx.TensorShapeProto.Dimension) -> Extent:
    """An extent; one below 0, which some exporters write for any, is not known."""
    if dim.HasField("dim_value"):
        return dim.dim_value if dim.dim_value >= 0 else None
    return dim.dim_param or None


def _more_known(before: Shape, found: Shape) -> Shape:
    """What two shapes of one value say together: an extent's number, or else the name that was found, unless that is
    made up."""
    if len(before) != len(found):
        return found

    def known(one: Extent, other: Extent) -> Extent:
        is_less = other is None or is_made_up(other) or (isinstance(one, int) and not isinstance(other, int))
        return one if is_less and one is not None else other

    return tuple([known(*pair) for pair in zip(before, found, strict=True)])


def _of_shape(given: onnx.TypeProto, shape: Shape) -> onnx.TypeProto:
    """The type with extents of which more is known."""
    made = type(given)()
    made.CopyFrom(given)
    for dim, extent in zip(made.tensor_type.shape.dim, shape, strict=True):
        if isinstance(extent, int):
            dim.dim_value = extent
        elif extent is not None:
            dim.dim_param = extent
    return made


class Node:
    """A node, with what the models of nodes ask."""

    origin: Node | None = None
    """The node of the graph before that this one is as it was, on the same tensors."""

    def __init__(self, proto: onnx.NodeProto, graph: Graph):
        self.proto = proto
        self.graph = graph
        self.op_type = proto.op_type
        domain = proto.domain
        self.domain = domain and domain_of(domain)
        # A slice of a repeated field is a list, made at once; to go over the field takes three times as long.
        self.inputs = tuple(proto.input[:])
        self.outputs = tuple(proto.output[:])
        self.captures: Sequence[str] = () if graph.is_alone else captured_names(proto)
        """Outer values that the subgraphs of the node use by name."""

    def kept_as(self, proto: onnx.NodeProto, graph: Graph) -> Node:
        """The node in the graph that was written, as `proto`, where it is as it was, and so are its tensors."""
        kept = Node.__new__(Node)
        kept.proto, kept.graph = proto, graph
        kept.op_type, kept.domain = self.op_type, self.domain
        kept.inputs, kept.outputs, kept.captures = self.inputs, self.outputs, self.captures
        kept.origin = self
        return kept

    @property
    def opset(self) -> int:
        """The version of the operators of its domain."""
        return self.graph.opsets.get(self.domain, 1)

    @cached_property
    def attributes(self) -> dict[str, onnx.AttributeProto]:
        """The attributes by name."""
        return {attribute.name: attribute for attribute in self.proto.attribute[:]}

    def int(self, name: str, default: int) -> int:
        """An integer attribute."""
        attribute = self.attributes.get(name)
        return default if attribute is None else attribute.i

    def ints(self, name: str) -> tuple[int, ...] | None:
        """An attribute that is a list of integers; None where it is not given."""
        attribute = self.attributes.get(name)
        return None if attribute is None else tuple(attribute.ints[:])

    @cached_property
    def perm(self) -> tuple[int, ...] | None:
        """The attribute of a Transpose, whether it fits or not; None where it is not given."""
        # Of a Transpose, nobody asks for other attributes.
        found = [tuple(each.ints[:]) for each in self.proto.attribute[:] if each.name == "perm"]
        return found[-1] if found else None

    def text(self, name: str, default: str) -> str:
        """A string attribute."""
        attribute = self.attributes.get(name)
        return default if attribute is None else attribute.s.decode("utf-8", "replace")

    def input(self, number: int) -> str:
        """The name of an input, empty where it is left out."""
        return self.inputs[number] if number < len(self.inputs) else ""

    def shape(self, number: int) -> Shape | None:
        """The shape of an input."""
        name = self.input(number)
        return self.graph.shape(name) if name else None

    def result_shape(self, number: int = 0) -> Shape | None:
        """The shape of an output."""
        name = self.outputs[number] if number < len(self.outputs) else ""
        return self.graph.shape(name) if name else None

    @cached_property
    def plain_orders(self) -> tuple[tuple[Order, ...], tuple[Order, ...]]:
        """The orders of the model itself, of the inputs and of the outputs; () for a value of unknown rank."""
        if self.origin is not None:
            return self.origin.plain_orders
        shapes = [self.graph.shape(name) if name else None for name in (*self.inputs, *self.outputs)]
        orders = [() if shape is None else identity(len(shape)) for shape in shapes]
        return tuple(orders[: len(self.inputs)]), tuple(orders[len(self.inputs) :])

    def known_ints(self, number: int) -> tuple[int, ...] | None:
        """The integers of a constant input; None where it is left out, large, or computed at run time."""
        name = self.input(number)
        array = self.graph.small_constant(name) if name else None
        if array is None or array.dtype.kind not in "iu":
            return None
        return tuple(array.ravel().tolist())


def is_transpose(node: Node) -> bool:
    """Whether a node is a Transpose, of a value of whatever rank."""
    return node.op_type == "Transpose" and not node.domain and bool(node.input(0)) and bool(node.outputs)


def transpose_perm(node: Node) -> Order | None:
    """The `perm` of a Transpose whose rank is known, and fits; None for any other node."""
    if node.op_type != "Transpose" or node.domain or len(node.inputs) != 1 or len(node.outputs) != 1:
        return None
    if not node.inputs[0] or not node.outputs[0]:
        return None
    shape = node.shape(0)
    perm = node.perm
    if perm is None and shape is not None:
        perm = tuple(reversed(range(len(shape))))
    if perm is None or not _is_permutation(perm) or (shape is not None and len(shape) != len(perm)):
        return None
    return perm


@lru_cache(maxsize=4096)
def _is_permutation(perm: Order) -> bool:
    return sorted(perm) == list(range(len(perm)))


def graphs_of_model(
    model: onnx.ModelProto,
    folder: Path | None,
    shapes: Mapping[str, Sequence[int]],
    pending: dict[str, PendingTensor],
    known: Mapping[str, NDArray[Any]] | None = None,
    stated: Mapping[str, onnx.TypeProto] | None = None,
) -> list[Graph]:
    """The graph of a model and all subgraphs of its nodes, inner ones behind those around them.

    `folder` is that of the model's file, for external data; `shapes` fixes shapes of inputs; `pending` has the tensors
    that are not in the order they are stored in, and takes more of them; `known` has what constants decide, and
    `stated` types that shape inference does not find.
    """
    opsets = {domain_of(entry.domain): entry.version for entry in model.opset_import}
    overridable = overridable_names(model)
    functions = frozenset((domain_of(f.domain), f.name) for f in model.functions)
    infer = partial(inferred_types, model, overridable, known=known or {}, stated=stated or {})
    tables = infer(shapes={})
    sized = infer(shapes=shapes) if shapes else tables
    is_alone = len(tables) == 1
    taken = None if is_alone else names_of(model.graph)
    graphs = [
        Graph(
            model.graph, opsets, folder, tables[0], overridable=overridable, taken=taken, is_alone=is_alone,
            sizes=sized[0], functions=functions, claimed=tables[0].claimed,
        )
    ]  # fmt: skip
    graphs[0].pending = pending
    first = (_shape_of(tables[0][v.name]) for v in model.graph.input if v.name in tables[0])
    graphs[0].batches = frozenset(shape[0] for shape in first if shape and isinstance(shape[0], str))
    waiting = [] if is_alone else [graphs[0]]
    while waiting:
        outer = waiting.pop(0)
        for node in outer.proto.node:
            for graph in graphs_of(node) if node.attribute else ():
                k = len(graphs)
                types = {**outer.types, **tables[k]}
                sizes = types if sized is tables else {**outer.sizes, **sized[k]}
                graphs.append(
                    Graph(
                        graph,
                        opsets,
                        folder,
                        types,
                        outer=outer,
                        taken=taken,
                        sizes=sizes,
                        functions=functions,
                        claimed=tables[k].claimed,
                    )
                )
                waiting.append(graphs[-1])
    if not shapes:
        counted = _counted_extents(graphs, infer)
        for graph in graphs:
            graph.counted = counted
    return graphs


def _counted_extents(
    graphs: Sequence[Graph], infer: Callable[..., Sequence[Mapping[str, onnx.TypeProto]]]
) -> dict[Extent, int]:
    """What extents of the graphs of a model are, by name, where those of its inputs are what they count as."""
    sizes = agreed_shapes(graphs[0])
    # A value has the extents of an input wherever it has their names: there is nothing to find out about those.
    if not sizes or all(graph.extents_of_its_own() <= {None} for graph in graphs):
        return {}
    counted: dict[Extent, int] = {}
    for graph, types in zip(graphs, infer(shapes=sizes), strict=True):
        found = named_sizes(graph, {name: _shape_of(type) for name, type in types.items()})
        counted = {**found, **counted}
    return counted


def agreed_shapes(graph: Graph) -> dict[str, list[int]]:
    """The shapes of the inputs of which not all extents are known, each being what it counts as."""
    inputs = {value.name: graph.shape(value.name) for value in graph.proto.input}
    return {
        name: [graph.counted_extent(n) for n in shape]
        for name, shape in inputs.items()
        if shape and not is_static(shape)
    }


def named_sizes(graph: Graph, shapes: Mapping[str, Shape | None]) -> dict[Extent, int]:
    """What the extents of a graph are, by name, where its values have these `shapes`."""
    found: dict[Extent, int] = {}
    for name, sized in shapes.items():
        shape = graph.shape(name)
        if shape is not None and sized is not None and len(shape) == len(sized):
            for extent, size in zip(shape, sized, strict=True):
                if isinstance(extent, str) and isinstance(size, int):
                    found.setdefault(extent, size)
    return found


def rewritten_graph(
    model: onnx.ModelProto,
    before: Graph,
    places: Mapping[str, tuple[str, Order]],
    origins: Sequence[Node | None] = (),
) -> Graph:
    """The graph of a model that was written in place of `before`, with the types of its values.

    By name of a value, `places` says which value of the graph before it is, and in which order of its dims; `origins`
    has the node that each node is as it was, on the same tensors, if there is one; none is known where it is empty.
    """
    graph = Graph(
        model.graph,
        {domain_of(entry.domain): entry.version for entry in model.opset_import},
        before.folder,
        {},
        overridable=overridable_names(model),
        taken=before.taken,
        is_alone=before.is_alone,
        functions=before.functions,
        claimed=frozenset(name for name, (root, _) in places.items() if root in before.claimed),
    )
    graph.pending, graph.batches, graph.counted = before.pending, before.batches, before.counted
    graph.set_places(before, places)
    graph.nodes_of_model = [
        Node(proto, graph) if origin is None else origin.kept_as(proto, graph)
        for proto, origin in zip(model.graph.node, origins or [None] * len(model.graph.node), strict=True)
    ]
    return graph


def is_made_up(extent: Extent) -> bool:
    """Whether an extent has a name that shape inference made up (unk__0)."""
    return isinstance(extent, str) and extent.startswith("unk__")


def overridable_names(model: onnx.ModelProto) -> frozenset[str]:
    """The names of inputs: of initializers, those that callers may give another value."""
    # Before IR version 4, initializers had to be listed as inputs.
    return frozenset(value.name for value in model.graph.input) if model.ir_version >= 4 else frozenset()


def names_of(graph: onnx.GraphProto) -> set[str]:
    """All names in a graph and its subgraphs, of values and of nodes."""
    names: set[str] = set()
    waiting = [graph]
    while waiting:
        found = waiting.pop()
        names.update(v.name for v in (*found.input, *found.output, *found.initializer))
        for node in found.node:
            names.update((node.name, *node.input[:], *node.output[:]))
            if node.attribute:
                waiting += graphs_of(node)
    return names


@lru_cache(maxsize=64)
def bits_of(element_type: int) -> int:
    """The bits of an ONNX element type; those of a byte for strings, of which nothing is known."""
    import numpy as np
    import onnx
    import onnx.helper

    word = onnx.TensorProto.DataType.Name(cast(Any, element_type)) if element_type else "UNDEFINED"
    for suffix, bits in (("INT4", 4), ("FLOAT4E2M1", 4), ("INT2", 2), ("STRING", 8), ("UNDEFINED", 32)):
        if word.endswith(suffix):
            return bits
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element_type)).itemsize * 8
