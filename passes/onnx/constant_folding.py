"""Transposes of values that constants alone decide, computed now.

Other nodes of constants stay: what is computed from an initializer may be larger than that, and a runtime folds it
anyway. So a Transpose is folded where all that leads to it are small nodes on constants and its result is no larger
than those; one behind a DequantizeLinear is not, or the weights would not be quantized any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING, Any, cast

from layout_ir.errors import LayoutError
from layout_ir.frontends.onnx.budget import STEPS_PER_ELEMENT, Budget
from layout_ir.frontends.onnx.functions import Call, node_title
from layout_ir.frontends.onnx.made_up_extents import is_made_up
from layout_ir.frontends.onnx.subgraphs import graphs_of
from layout_ir.passes.onnx.constant_views import constant_view
from layout_ir.passes.onnx.inferred_types import SMALL
from layout_ir.passes.onnx.model_graph import Graph, Node, transpose_perm
from layout_ir.passes.onnx.node_inference import infer_results
from layout_ir.passes.onnx.orders import Extent, Shape, is_static
from layout_ir.passes.onnx.value_shapes import type_with_shape

if TYPE_CHECKING:
    from numpy.typing import NDArray

_QUANTIZATION = ("DequantizeLinear", "QuantizeLinear")
_PARTS = ("Flatten", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze")
"""Operators whose result is their operand, or a part of it, in another shape."""
_BY_REFERENCE = (*_PARTS, "ConstantOfShape", "Einsum", "Expand", "LayerNormalization", "Size")
"""Operators that the reference of the onnx package computes, in all their versions, as the standard defines them;
`frontends/onnx/evaluation.py` has more of these."""

_INT32, _INT64 = 6, 7
"""Integers, as TensorProto numbers element types."""
_ON_EXTENTS = ("Cast", "Concat", "Gather", "Identity", "Slice", "Squeeze", "Unsqueeze")
"""Operators that say which extents of a tensor a list of integers has."""


def fold_constant_transposes(graph: Graph) -> None:
    """Makes constants of the Transposes of `graph` that constants decide, and drops what only led to them."""
    if not _may_fold(graph):
        return
    evaluation = Evaluation(graph, graph.computed)
    evaluation.decide_all(graph.nodes)
    found: dict[str, NDArray[Any]] = {}
    for node in graph.nodes:
        name = node.outputs[0] if node.outputs else ""
        if name in evaluation.decided and _is_candidate(node, graph):
            array = evaluation.array(name)
            if array is not None and array.nbytes <= max(evaluation.source_bytes(name), 8 * SMALL):
                found[name] = array
    if found:
        graph.make_constant(found)


def _may_fold(graph: Graph) -> bool:
    """Whether constants and shapes may decide what some Transpose takes."""
    if not any(_is_candidate(node, graph) for node in graph.nodes):
        return False
    if all(node.op_type != "Shape" for node in graph.nodes):
        return True
    # To follow extents takes long, and mostly leads to no Transpose.
    possible = {"", *graph.constants}
    for node in graph.nodes:
        if node.op_type == "Shape" or possible.issuperset(node.inputs):
            if _is_candidate(node, graph):
                return True
            possible.update(node.outputs)
        elif (node.op_type == "Split" or node.op_type in _ON_EXTENTS) and _is_list(node):
            possible.update(node.outputs)  # of a list of extents, parts may be known
    return False


def _is_list(node: Node) -> bool:
    """Whether the result of a node may be a list, or a single element."""
    shape = node.result_shape()
    return shape is None or len(shape) < 2


def constant_integers(graph: Graph) -> dict[str, NDArray[Any]]:
    """The `decided_integers` that nothing else has to be found out for; `graph` keeps what was computed."""
    evaluation = Evaluation(graph)
    evaluation.decide_all(graph.nodes)
    found: dict[str, NDArray[Any]] = {}
    for node in graph.nodes:
        if has_open_results(node):
            found |= evaluation.integers_of(node)
    graph.computed = evaluation.computed()
    return found


def decided_integers(graph: Graph, known: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The lists of integers, and single ones, that constants and known shapes decide: shapes, axes, starts.

    Only those that a node reads of whose results not all extents are known; shape inference may know more with them.
    Shapes of results that follow are found on the way, so that those which decide further integers are known as well.
    What is `known` was found before, and the types of the graph were inferred with it.
    """
    evaluation = Evaluation(graph, {**graph.computed, **known})
    found: dict[str, NDArray[Any]] = {}
    changed: set[str] = set()
    before = 0
    for number, node in enumerate(graph.nodes):
        if not has_open_results(node):
            continue
        # Most graphs have none of these: what leads to one is looked at when one comes to it.
        evaluation.decide_all(graph.nodes[before : number + 1])
        before = number + 1
        read = evaluation.integers_of(node)
        found |= read
        if not read and node.op_type in ("Reshape", "Range") and not node.domain:
            read = evaluation.asked_shape(node) if node.op_type == "Reshape" else {}
            shape = None if read else evaluation.named_shape(node)
            if shape is not None:
                name = node.outputs[0]
                graph.set_known_type(name, type_with_shape(graph.types[name], shape), shape)
                changed.add(name)
        if not read.keys() <= known.keys() or not changed.isdisjoint(node.inputs):
            changed.update(infer_results(graph, node, read))
    return found


def decided_conditions(graph: Graph) -> dict[str, bool]:
    """The conditions of the Ifs of a graph, and of those in it, that its constants and known shapes decide, by name."""
    import onnx

    evaluation = Evaluation(graph)
    found: dict[str, bool] = {}
    before = 0
    for number, node in enumerate(graph.nodes):
        names = {name for name in node.captures if graph.element_type(name) == onnx.TensorProto.BOOL}
        if node.op_type == "If" and not node.domain:
            names.update(node.inputs[:1])
        if not names:
            continue
        evaluation.decide_all(graph.nodes[before:number])
        before = number
        for name in names:
            array = None
            if name in evaluation.decided:
                array = evaluation.array(name)
            elif name in graph.constants:
                array = graph.small_constant(name)
            if array is not None and array.size == 1:
                found[name] = bool(array.all())
    return found


def has_open_results(node: Node) -> bool:
    """Whether some extent of a result of a node is not known."""
    shape_of = node.graph.shape
    for name in node.outputs:
        if name:
            shape = shape_of(name)
            if shape is None or not is_static(shape):
                return True
    return False


def _is_of_one_value(node: Node) -> bool:
    """Whether a node has one result, an operator of ONNX that quantizes nothing, and no subgraphs."""
    if node.domain or len(node.outputs) != 1 or not node.outputs[0] or node.op_type in _QUANTIZATION:
        return False
    return node.graph.is_alone or not graphs_of(node.proto)


def _is_candidate(node: Node, graph: Graph) -> bool:
    return (
        node.op_type == "Transpose"
        and transpose_perm(node) is not None
        and node.inputs[0] not in graph.constants
    )


def _is_named(extents: Sequence[Extent]) -> bool:
    """Whether extents are numbers, or have names that the model gives."""
    return all(isinstance(n, int) or (n is not None and not is_made_up(n)) for n in extents)


def _quotient(extents: Sequence[Extent], others: Sequence[Extent]) -> Extent:
    """What a product of extents is, divided by that of others: a number, or a name; None where it is neither."""
    if not _is_named((*extents, *others)):
        return None
    names = [n for n in extents if isinstance(n, str)]
    for name in [n for n in others if isinstance(n, str)]:
        if name not in names:
            return None
        names.remove(name)
    above, below = (prod(n for n in given if isinstance(n, int)) for given in (extents, others))
    if below <= 0 or above % below or len(names) > 1 or (names and above != below):
        return None
    return names[0] if names else above // below


class Evaluation:
    """What constants and known shapes decide in a graph, computed for those that are asked for."""

    def __init__(self, graph: Graph, known: Mapping[str, NDArray[Any]] | None = None):
        self.graph = graph
        self.budget = Budget()
        self.decided: dict[str, Node] = {}
        """The nodes that give the values which are decided, in order, by name of the value."""
        self._arrays: dict[str, NDArray[Any] | None] = dict(known or {})
        """The elements; None where they could not be computed, or would cost too much."""
        self._small: dict[tuple[object, ...], NDArray[Any] | None] = {}
        """The results of small nodes, by operator, attributes and operands."""
        self._told: set[str] = set()
        """The values that shapes decide, which were computed from no constants."""
        self._extents: dict[str, Shape] = {}
        """Integers that are extents of tensors, of which not all are known, by name."""
        self._sums: dict[str, tuple[Extent, Extent]] = {}
        """The terms of sums of two such integers, by name."""

    def decide_all(self, nodes: Iterable[Node]) -> None:
        """Adds those of `nodes`, in order, whose output constants and known shapes decide."""
        constants, decided = self.graph.constants, self.decided
        for node in nodes:
            if node.op_type == "Shape":
                shape = node.given_extents()
                is_decided = shape is not None and is_static(shape)
                if shape is not None and not is_decided:
                    self._extents[node.outputs[0]] = shape
            else:
                is_decided = False
                for name in node.inputs:
                    if name:
                        is_decided = name in constants or name in decided
                        if not is_decided:
                            break
            if is_decided and _is_of_one_value(node):
                decided[node.outputs[0]] = node
            elif node.domain:
                continue
            elif node.op_type == "Split":
                self._split_list(node)
            elif self._extents and node.op_type in _ON_EXTENTS:
                self._follow_extents(node)
            elif self._extents and node.op_type == "Add":
                terms = [self.extents(name) for name in node.inputs]
                if all(term is not None and len(term) == 1 for term in terms):
                    first, second = cast("list[Shape]", terms)
                    self._sums[node.outputs[0]] = first[0], second[0]

    def _follow_extents(self, node: Node) -> None:
        """Says what a node gives whose operands are extents; where those that it takes are known, it is decided."""
        name = node.outputs[0]
        if node.op_type == "Gather":
            shape, places = self._extents.get(node.inputs[0]), node.known_ints(1)
            if shape is None or places is None or any(not -len(shape) <= k < len(shape) for k in places):
                return
            self._set(node, name, [shape[k] for k in places], cast("tuple[int, ...]", node.shape(1)))
        elif node.op_type == "Concat":
            parts = [self._part(source) for source in node.inputs]
            if None not in parts:
                self._extents[name] = tuple([extent for part in parts for extent in part or ()])
        elif node.op_type == "Slice":
            picked = self._picked(node)
            if picked is not None:
                self._set(node, name, picked, (len(picked),))
        elif node.inputs[0] in self._extents:
            extents, to = self._extents[node.inputs[0]], node.int("to", _INT64)
            # An extent that is not known is no reason to refuse 32 bits: of one that they cannot hold nobody reads.
            is_exact = all(not isinstance(n, int) or n < 1 << 31 for n in extents)
            if to == _INT64 or (to == _INT32 and is_exact):
                self._extents[name] = extents

    def _part(self, name: str) -> Shape | None:
        """The integers of a part of a list, None for each that nothing is known of; None for too many of them."""
        found, shape = self.extents(name), self.graph.shape(name)
        if found is None and shape is not None and len(shape) == 1 and shape[0] in (1, 2, 3, 4):
            return (None,) * int(shape[0] or 0)
        return found

    def _picked(self, node: Node) -> list[Extent] | None:
        """The part of a list of extents that a Slice takes; None where it is not known which."""
        extents = self._extents.get(node.inputs[0])
        if extents is None or node.opset < 10:
            return None
        given = [self.extents(node.input(k)) if node.input(k) else () for k in range(1, 5)]
        starts, ends, axes, steps = [part if part is None or is_static(part) else None for part in given]
        if not starts or not ends or axes not in ((), (0,), (-1,)) or steps is None:
            return None
        start, end, step = (cast(int, part[0]) for part in (starts, ends, steps or (1,)))
        return list(extents[start:end:step]) if step > 0 else None

    def _split_list(self, node: Node) -> None:
        """Says what the parts of a list of integers are, where the list is decided or is one of extents."""
        shapes = [node.result_shape(k) for k in range(len(node.outputs))]
        sizes = [shape[0] if shape and len(shape) == 1 else None for shape in shapes]
        if not all(isinstance(n, int) and 0 <= n <= SMALL for n in sizes):
            return
        name = node.inputs[0]
        is_list = name in self._extents or self.graph.element_type(name) in (_INT32, _INT64)
        extents = self.extents(name) if is_list else None
        counts = cast("list[int]", sizes)
        if extents is None or len(extents) != sum(counts):
            return
        for part, begin, count in zip(node.outputs, accumulate([0, *counts]), counts, strict=False):
            if part:
                self._set(node, part, extents[begin : begin + count], (count,))

    def _set(self, node: Node, name: str, extents: Sequence[Extent], shape: tuple[int, ...]) -> None:
        """Says what the integers are that a node gives, a list or a single one: decided where all are known."""
        import numpy as np
        import onnx.helper

        element = self.graph.element_type(name)
        if not is_static(tuple(extents)):
            self._extents[name] = tuple(extents)
        elif element in (_INT32, _INT64):
            self.decided[name] = node
            self._arrays[name] = np.array(extents, onnx.helper.tensor_dtype_to_np_dtype(element)).reshape(
                shape
            )
            self._told.add(name)

    def extents(self, name: str) -> Shape | None:
        """The integers of a list, or a single one, where each is decided or an extent of a tensor; None for others."""
        if name in self._extents:
            return self._extents[name]
        array = self.graph.small_constant(name) if name in self.graph.constants else None
        if name in self.decided:
            array = self.array(name)
        if array is None or array.dtype.kind not in "iu" or array.ndim > 1 or array.size > SMALL:
            return None
        return tuple([int(n) for n in array.flat])

    def asked_shape(self, node: Node) -> dict[str, NDArray[Any]]:
        """What shape inference may take for the shape that a Reshape is asked for, by name: 0, which keeps an extent,
        for one that is not known but is that of the operand in its place. Empty where others are not known."""
        import numpy as np

        name, source, known = node.input(1), node.shape(0), node.result_shape()
        asked = self._extents.get(name)
        if asked is None or source is None or node.int("allowzero", 0):
            return {}
        if known is not None and not any(extent is None or is_made_up(extent) for extent in known):
            return {}  # all of it has numbers, or names of the inputs
        kept = [isinstance(n, str) and k < len(source) and n == source[k] for k, n in enumerate(asked)]
        if not all(is_kept or isinstance(n, int) for n, is_kept in zip(asked, kept, strict=True)):
            return {}
        values = [0 if is_kept else n for n, is_kept in zip(asked, kept, strict=True)]
        return {name: np.array(values, np.int64)}

    def named_shape(self, node: Node) -> Shape | None:
        """The shape of the result of a Reshape, or of a Range, by the names of the extents that it is asked for; None
        where no more is known by them than without."""
        if node.op_type == "Range":
            count, before = self._count(node), node.result_shape()
            return None if count is None or before == (count,) else (count,)
        source, before, asked = node.shape(0), node.result_shape(), self._extents.get(node.input(1))
        if asked is None or source is None or before is None or len(before) != len(asked):
            return None
        is_literal = bool(node.int("allowzero", 0))
        wanted = [
            (source[k] if k < len(source) else None) if extent == 0 and not is_literal else extent
            for k, extent in enumerate(asked)
        ]
        if wanted.count(-1) == 1:
            place = wanted.index(-1)
            wanted[place] = _quotient(source, [*wanted[:place], *wanted[place + 1 :]])
        shape = [
            extent if _is_named([extent]) and not isinstance(known, int) else known
            for extent, known in zip(wanted, before, strict=True)
        ]
        return tuple(shape) if tuple(shape) != before else None

    def _count(self, node: Node) -> Extent | None:
        """How many numbers a Range gives, from 0 up to an extent or from one extent on as many as another one says: the
        positions of the tokens behind those of a cache."""
        start, limit, step = (self.extents(name) for name in node.inputs)
        if step != (1,):
            return None
        terms = self._sums.get(node.inputs[1], (None, None)) if limit is None else (0, *limit)
        found = None
        if len(terms) == 2 and _is_named(terms):
            found = terms[1] if start == terms[:1] else terms[0] if start == terms[1:] else None
        return found

    def source_bytes(self, name: str) -> int:
        """The bytes of the constants that a value which was computed depends on."""
        total = 0
        seen, waiting = {name}, [name]
        while waiting:
            source = waiting.pop()
            node = self.decided.get(source)
            if node is None:
                total += self.graph.nbytes(source)
            elif node.op_type != "Shape" and source not in self._told:
                new = {name for name in node.inputs if name} - seen
                seen |= new
                waiting += new
        return total

    def array(self, name: str) -> NDArray[Any] | None:
        """The elements of a value that is decided; None where they cannot be computed, or would cost too much."""
        waiting = [] if name in self._arrays else [name]
        while waiting:
            node = self.decided[waiting[-1]]
            missing = [
                source
                for source in (node.inputs if node.op_type != "Shape" else ())
                if source in self.decided and source not in self._arrays
            ]
            waiting += missing
            if not missing:
                self._add(waiting.pop(), node)
        return self._arrays[name]

    def integers_of(self, node: Node) -> dict[str, NDArray[Any]]:
        """The lists of integers, and single ones, that a node reads behind its first operand and that are decided."""
        return {
            name: array
            for name in node.inputs[1:]
            if name in self.decided
            and (array := self.array(name)) is not None
            and array.dtype.kind in "iu"
            and array.ndim < 2
            and array.size <= SMALL
        }

    def computed(self) -> dict[str, NDArray[Any]]:
        """All values that were computed so far."""
        return {name: array for name, array in self._arrays.items() if array is not None}

    def _add(self, name: str, node: Node) -> None:
        try:
            self._arrays[name] = self._computed(node)
        except LayoutError:
            self._arrays[name] = None  # what is wrong with the node is not for us to say

    def _computed(self, node: Node) -> NDArray[Any] | None:
        import numpy as np

        if node.op_type == "Shape":
            return np.array(node.given_extents(), np.int64)
        arrays: list[NDArray[Any] | None] = []
        for name in node.inputs:
            array = None
            if name:
                array = self._constant(name) if name in self.graph.constants else self._arrays[name]
                if array is None:
                    return None
            arrays.append(array)
        # What needs no memory of its own, or little, is not for the budget; the operators of shapes are NumPy's.
        result = node.result_shape()
        few = result is not None and is_static(result) and prod(cast("tuple[int, ...]", result)) <= SMALL
        is_small = few and all(a is None or a.size <= SMALL for a in arrays)
        if not is_small:
            return self._evaluated(node, arrays, is_small=False)
        # Networks compute the same few integers in one block after the other.
        given = [None if a is None else (a.dtype.str, a.shape, a.tobytes()) for a in arrays]
        attributes = [attribute.SerializeToString() for attribute in node.proto.attribute[:]]
        key = node.op_type, *given, *attributes
        if key not in self._small:
            self._small[key] = self._evaluated(node, arrays, is_small=True)
        return self._small[key]

    def _constant(self, name: str) -> NDArray[Any]:
        small = self.graph.small_constant(name)  # read once
        return self.graph.elements(name) if small is None else small

    def _evaluated(
        self, node: Node, arrays: list[NDArray[Any] | None], *, is_small: bool
    ) -> NDArray[Any] | None:
        # Most models are optimized without.
        from layout_ir.frontends.onnx.constants import Constant
        from layout_ir.frontends.onnx.folding import fold
        from layout_ir.frontends.onnx.node import Node as FoldedNode

        if node.op_type in (_BY_REFERENCE if is_small else _PARTS):
            return self._by_reference(node, arrays)
        call = Call(node.proto, node_title(node.proto, 0), self.graph.opsets)
        results = fold(
            FoldedNode(call, [None if a is None else Constant(a, "") for a in arrays], self.budget)
        )
        return None if results is None else results[0]

    def _by_reference(self, node: Node, arrays: list[NDArray[Any] | None]) -> NDArray[Any] | None:
        given = {name: a for name, a in zip(node.inputs, arrays, strict=True) if a is not None}
        size = max((array.size for array in given.values()), default=0)
        if self.budget.spend(size * 8, STEPS_PER_ELEMENT * size) is not None:
            return None
        view = constant_view(node, arrays)
        if view is not None:
            return view
        import numpy as np
        import onnx
        import onnx.helper
        from onnx.reference import ReferenceEvaluator

        unknown = onnx.TypeProto()
        graph = onnx.helper.make_graph(
            [node.proto],
            "part",
            [onnx.helper.make_value_info(name, unknown) for name in given],
            [onnx.helper.make_value_info(node.outputs[0], unknown)],
        )
        imports = [onnx.helper.make_opsetid("", self.graph.opsets.get("", 1))]
        evaluator: Any = ReferenceEvaluator(onnx.helper.make_model(graph, opset_imports=imports))
        try:
            (result,) = evaluator.run(None, given)
        except Exception:
            return None  # whatever the reference raises for inputs that do not fit
        return cast("NDArray[Any]", result) if isinstance(result, np.ndarray) else None
