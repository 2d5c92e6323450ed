"""A graph of an ONNX model as the choice of orders sees it: nodes, and what is known of values.

Weights are not read: a model of gigabytes is as fast as its nodes are many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import cached_property, lru_cache
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from layout_ir.frontends.onnx.functions import domain_of, fresh_name
from layout_ir.frontends.onnx.import_error import OnnxImportError, quoted
from layout_ir.frontends.onnx.subgraphs import captured_names, outer_names
from layout_ir.frontends.onnx.tensor_protos import array_of
from layout_ir.passes.onnx.inferred_types import SMALL
from layout_ir.passes.onnx.model_constants import PendingTensor, has_numbers, node_constants
from layout_ir.passes.onnx.names_in_use import names_of
from layout_ir.passes.onnx.orders import Extent, Order, Shape, identity, is_identity, is_static
from layout_ir.passes.onnx.value_shapes import UNKNOWN_EXTENT, Shapes, bits_of, shape_of

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray

VIEWS = ("Flatten", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
"""Operators whose result has the elements of their operand, in another shape or order."""

InferredResults = list[tuple["onnx.TypeProto", Shape | None] | None]
"""Per result of a node, its type and shape; None where inference finds none."""


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
            t.name: t for t in proto.initializer if t.name not in overridable and has_numbers(t)
        }
        """Constants of the model that no caller may replace."""
        self.outer_constants: dict[str, onnx.TensorProto] = {}
        """Constants of the graphs around a subgraph that it uses."""
        if outer is not None:
            known = outer.constants
            self.outer_constants = {name: known[name] for name in outer_names(proto) if name in known}
        self.constants = {**self.outer_constants, **self.initializers, **node_constants(proto.node)}
        """All that are known: these, and what Constant nodes give."""
        self.agreed: Mapping[Extent, int] = {} if outer is None else outer.agreed
        """The numbers that extents of inputs count as in bytes moved, by name (`counted_extents.agreed_extents`)."""
        self.counted: Mapping[Extent, int] = {} if outer is None else outer.counted
        """The numbers that extents of inner values count as in bytes moved, by name."""
        self.pending: dict[str, PendingTensor] = {} if outer is None else outer.pending
        """Tensors of the whole model that are in another order than they are stored in."""
        self.folded: dict[str, NDArray[Any]] = {}
        """Values that have become constants; `constants` has them without elements."""
        self.computed: dict[str, NDArray[Any]] = {}
        """Elements of values that constants decide, as far as somebody computed them."""
        self._arrays: dict[str, NDArray[Any] | None] = {}
        self._forget_types()
        self.inferred: dict[tuple[object, ...], tuple[list[str], InferredResults]] = {}
        """By all that they follow from, the types and shapes of results, and the names in them that inference made up
        for extents of operands (`node_inference`)."""

    def _forget_types(self) -> None:
        """Forgets what was found by types."""
        self._shapes = Shapes(self.types, self.constants)
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

    def with_own_types(self) -> Graph:
        """The graph as the model has it, with types of its own: what is stated of them does not show here."""
        found = self.unfolded()
        found.replace_types(dict(self.types))
        found.nodes_of_model = [node.kept_as(node.proto, found) for node in self.nodes_of_model]
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
        """The node that makes each value, by its name, once no more nodes are replaced."""
        return {name: node for node in self.nodes for name in node.outputs if name}

    @cached_property
    def users(self) -> dict[str, list[Node]]:
        """The nodes that use each value, by its name, as the model has them."""
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

    def set_known_type(self, name: str, type: onnx.TypeProto, shape: Shape) -> None:
        """States the type of a value, of which more is known than before, and its shape."""
        self.types[name] = type
        self._shapes[name] = shape
        self._elements.pop(name, None)
        self._nbytes.clear()

    def sized_shape(self, name: str) -> Shape | None:
        """The shape of a value for those extents for which bytes are compared; it decides nothing else."""
        known = self.sizes is self.types or name not in self.sizes or name in self.constants
        return self.shape(name) if known else shape_of(self.sizes[name])

    def nbytes(self, name: str) -> int:
        """The size of a value in bytes, with what extents count as of which nothing is said.

        A view has the size of what it is a view of, which may say more: a product of extents has no name. It may say
        less, too: of an Expand to computed extents nothing is known, and of the heads that are cut of it, all.
        """
        found = self._nbytes.get(name)
        if found is None:
            source = known = name
            least = self._unnamed(source)
            while least and source in self._view_of:
                source = self._view_of[source]
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
        if is_static(shape):
            return 0
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
        agreed = self.agreed.get(extent)
        return self.counted.get(extent, UNKNOWN_EXTENT) if agreed is None else agreed

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

        That is DequantizeLinear, an operator and QuantizeLinear side by side, between integers of 8 bits or fewer. The
        integers between QuantizeLinear and DequantizeLinear are outside of it, and so is a Transpose of its own between
        DequantizeLinear and QuantizeLinear.
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
            takers = [n for name in names for n in users.get(name, ()) if not is_transpose(n)]
            is_dequantized = maker.op_type == "DequantizeLinear"
            is_taken = bool(takers) and all(n.op_type == "QuantizeLinear" for n in takers)
            if is_taken and results.isdisjoint(names):
                integers = [] if is_dequantized else [n.outputs[0] for n in takers]
            else:
                integers = [maker.inputs[0]] if is_dequantized else []
            if integers and all(map(self.is_of_bytes, integers)):
                found.update(names)
        return frozenset(found)

    def is_of_bytes(self, name: str) -> bool:
        """Whether the elements of a value have 8 bits or fewer, as integers that runtimes compute on; or nothing is
        known of them."""
        return not self.element_type(name) or self.element_bits(name) <= 8

    @cached_property
    def _view_of(self) -> dict[str, str]:
        """The operand of each node that changes the shape or the order of dims alone, by its result."""
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

    def can_be_transposed(self, name: str) -> bool:
        """Whether a Transpose of the model's opset takes a value, as none before 21 takes floats of 8 bits; or its
        element type is not known."""
        element = self.element_type(name)
        return not element or element in _transposed_types(self.opsets.get("", 1))

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
            return self.pending[name].elements(self.folder)
        return array_of(self.constants[name], self.folder, f"initializer {quoted(name)}")


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

    def dim(self, axis: int, rank: int) -> int:
        """The number of the dim that an axis names, from the end where it is negative.

        Raises OnnxImportError where there is no such dim: the node is not valid, and taken for one along some other dim
        it would become valid in the model that goes out.
        """
        if not -rank <= axis < rank:
            raise OnnxImportError(
                f"{self.op_type} {quoted(self.outputs[0])}: axis {axis} is not in {-rank}..{rank - 1}"
            )
        return axis % rank

    def axis(self, default: int, rank: int) -> int:
        """The number of the dim that the attribute `axis` names. Raises OnnxImportError as `dim` does."""
        return self.dim(self.int("axis", default), rank)

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

    @property
    def gives_all_extents(self) -> bool:
        """Whether a Shape gives all extents of its operand, as it does where `start` is said to be 0."""
        attributes = self.attributes
        return not attributes or ("end" not in attributes and not self.int("start", 0))

    def given_extents(self) -> Shape | None:
        """The extents that a Shape gives, from its `start` up to its `end`; None where the rank is not known."""
        shape = self.shape(0)
        if shape is None or self.gives_all_extents:
            return shape
        return tuple([shape[dim] for dim in self.given_dims(len(shape))])

    def given_dims(self, rank: int) -> range:
        """The dims of which a Shape of a tensor of `rank` gives the extents."""
        return range(rank)[self.int("start", 0) : self.int("end", rank)]

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


@lru_cache
def _transposed_types(opset: int) -> frozenset[int]:
    """The element types that a Transpose of this opset takes, as TensorProto numbers them."""
    import onnx
    import onnx.defs

    (constraint,) = onnx.defs.get_schema("Transpose", opset).type_constraints
    allowed = {text.removeprefix("tensor(").removesuffix(")") for text in constraint.allowed_type_strs}
    return frozenset(number for name, number in onnx.TensorProto.DataType.items() if name.lower() in allowed)
