"""A model with dynamic extents in sections, most of which need nothing new for a size that comes for the first time.

Of a decoder whose cache of keys and values grows by a word per call, most nodes see the same shapes at every word:
those of the one word that is new. Only attention and its mask see the length. So the nodes are cut in two kinds, by
what was found for two sizes that differ as others are expected to (`cut`): those for which the values that they take
and give have the same types and, as far as they are known without data, the same numbers; and all others.

    embedding | mask | first projections | attention | last projections, first of the next layer | attention | ...
      fixed    varies       fixed           varies                      fixed                      varies

A section of fixed nodes is compiled once, and again where shapes come that it has not seen (`staged_nodes`): what it is
compiled for are the shapes and numbers of a call, so that nothing depends on whether the cut is a good one. Varying
nodes run by the reference, which takes any shape; a section in which some are not worth that is compiled for each
shape, once for all layers in which it is the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from layout_ir.api.call_inputs import Inputs
from layout_ir.api.model_nodes import ModelNodes
from layout_ir.api.staged_nodes import MOST_ELEMENTS, NodeContext, StagedNodes, is_cheap
from layout_ir.backends.onednn.plan_steps import RunnablePlan
from layout_ir.backends.reference.node_evaluation import NodeEvaluation
from layout_ir.elements.numpy_types import Array
from layout_ir.errors import LayoutError

if TYPE_CHECKING:
    import onnx

    from layout_ir.api.staged_nodes import CompilePart
    from layout_ir.frontends.onnx.model import AnySource
    from layout_ir.frontends.onnx.values import Value

    Shapes = Mapping[str, Sequence[int]]

_LEAST_SHARE = 0.5
"""Which part of the nodes that compute something must be fixed: with less, there is little to share."""


@dataclass(frozen=True, eq=False)
class _Section:
    """Nodes that run together. Those that are compiled may know values by other names than the model does."""

    run: StagedNodes | NodeEvaluation
    inputs: Mapping[str, str]
    """By the name of a value in the model, its name in the section."""
    outputs: Mapping[str, str]

    def add(self, known: dict[str, Any]) -> None:
        """Adds the outputs to the values of the model that are known."""
        if isinstance(self.run, NodeEvaluation):
            known |= zip(self.run.outputs, self.run(known), strict=True)
            return
        own = {name: known[outer] for outer, name in self.inputs.items()}
        self.run.run(own)
        known |= {outer: own[name] for outer, name in self.outputs.items()}


class SectionedProgram:
    """A model in sections, for any shapes of its inputs. Any number of threads may call it at a time."""

    def __init__(self, cut: Cut, compile_part: CompilePart, threads: int, *, checked: bool = False) -> None:
        """`checked` is that of `PlanRunner`."""
        self._model = model = cut.model
        self._constants = cut.constants
        self.threads = threads
        self.input_names = model.input_names
        self.result_names = model.result_names
        context = NodeContext(model.versions, model.stated, compile_part, threads, checked)
        self.sections = list(_sections(cut, context))

    def __call__(self, inputs: Inputs) -> list[Any]:
        """The outputs, in memory of their own."""
        known = self._model.inputs(inputs)
        taken = set(map(id, (*known.values(), *self._constants.values())))
        self.run(known)
        results = self._model.results(known)
        for number, value in enumerate(results):
            if isinstance(value, np.ndarray):
                array = cast("Array", value)
                if array.base is not None or id(array) in taken:
                    results[number] = array.copy()
                taken.add(id(array))
        return results

    def run(self, known: dict[str, Any]) -> None:
        """Adds what the nodes give to the inputs that are known; what no input has a part in is added as well."""
        known |= self._constants
        for section in self.sections:
            section.add(known)

    def parts(self) -> Iterator[RunnablePlan]:
        """The programs that were compiled so far, each once."""
        for nodes in dict.fromkeys(section.run for section in self.sections):
            if isinstance(nodes, StagedNodes):
                yield from nodes.parts()

    def evaluated(self) -> Counter[str]:
        """The operators of nodes that the reference evaluates in all calls, as far as they are known."""
        found = Counter[str]()
        for nodes in (section.run for section in self.sections):
            found += Counter(nodes.operators) if isinstance(nodes, NodeEvaluation) else nodes.evaluated()
        return found


@dataclass(frozen=True, eq=False)
class Cut:
    """The nodes of a model in groups, of which those with odd numbers vary."""

    model: ModelNodes
    groups: Sequence[Sequence[onnx.NodeProto]]
    constants: Mapping[str, Any]
    """The values that no input has a part in."""
    numbers: frozenset[str]
    """Few integers that follow from shapes alone."""


def cut(source: AnySource, one: Shapes, other: Shapes) -> Cut | None:
    """A model cut by what its values are for two sets of shapes of its inputs. None where too little of it is fixed,
    where types of values depend on numbers, and where its functions are of several versions of operators.

    Raises OnnxImportError where the model cannot be imported for these shapes.
    """
    from layout_ir.frontends.onnx.import_error import OnnxImportError, is_unknown_type
    from layout_ir.frontends.onnx.importer import import_values
    from layout_ir.frontends.onnx.model import load
    from layout_ir.frontends.onnx.written_functions import has_function, with_functions

    model = load(source)
    try:
        values = [import_values(model, shapes=shapes) for shapes in (one, other)]
    except OnnxImportError as error:
        if is_unknown_type(error):
            return None
        raise
    try:
        found = _grouped(ModelNodes(model), *values)
    except LayoutError:
        return None
    varying = (
        []
        if found is None
        else [node for nodes in found.groups[1::2] for node in nodes if has_function(node)]
    )
    if not varying:
        return found
    # Of a function, too, only some nodes vary.
    model = with_functions(model, values[1], {name for node in varying for name in node.output if name})
    try:
        values = [import_values(model, shapes=shapes) for shapes in (one, other)]
    except OnnxImportError:
        return found
    return _grouped(ModelNodes(model), *values) or found


def _grouped(model: ModelNodes, one: Mapping[str, Value], other: Mapping[str, Value]) -> Cut | None:
    """The nodes in groups by their kinds: each behind those that it needs, and as early as it can be."""
    from layout_ir.frontends.onnx.constants import Constant
    from layout_ir.frontends.onnx.subgraphs import used_names

    constants = dict(model.constants)
    left: list[tuple[onnx.NodeProto, list[str]]] = []
    for node in _without_equal_ones(model):
        used = used_names(node)
        made = [name for name in node.output if name]
        given = [value for name in made if isinstance(value := other.get(name), Constant)]
        if all(name in constants for name in used) and len(given) == len(made):
            constants |= {name: value.array for name, value in zip(made, given, strict=True)}
        else:
            left.append((node, used))
    varying = {name for name in other if name not in constants and _differ(one.get(name), other[name])}
    wanted = set(model.result_names)
    live: list[tuple[onnx.NodeProto, list[str]]] = []
    for node, used in reversed(left):
        if not wanted.isdisjoint(node.output):
            wanted.update(used)
            live.append((node, used))
    groups: list[list[onnx.NodeProto]] = []
    made_in: dict[str, int] = {}
    computing = [0, 0]
    for node, used in reversed(live):
        varies = not varying.isdisjoint((*used, *node.output))
        number = int(varies)
        for name in used:
            before = made_in.get(name, 0)
            number = max(number, before + (before % 2 != varies))
        groups += [[] for _ in range(number + 1 - len(groups))]
        groups[number].append(node)
        made_in |= dict.fromkeys(node.output, number)
        computing[varies] += not all(isinstance(other.get(name), Constant) for name in node.output if name)
    if computing[0] < _LEAST_SHARE * sum(computing):
        return None
    numbers = frozenset(
        name
        for name, value in other.items()
        if isinstance(value, Constant)
        and value.array.dtype.kind in "iu"
        and value.array.size <= MOST_ELEMENTS
    )
    return Cut(model, groups, {name: array for name, array in constants.items() if name in wanted}, numbers)


def _without_equal_ones(model: ModelNodes) -> Iterator[onnx.NodeProto]:
    """The nodes of a model but those that compute what one before them does.

    Each layer has the nodes for mask and positions anew where they stand in a function. An output of the model, and a
    value that a subgraph takes, keeps its own node.
    """
    import onnx

    from layout_ir.frontends.onnx.subgraphs import captured_names

    kept = {*model.result_names, *(name for node in model.nodes for name in captured_names(node))}
    names: dict[str, str] = {}
    seen: dict[tuple[Any, ...], onnx.NodeProto] = {}
    for node in model.nodes:
        if not names.keys().isdisjoint(node.input):
            given, node = node, onnx.NodeProto()
            node.CopyFrom(given)
            node.input[:] = [names.get(name, name) for name in given.input]
        if is_cheap(node) and kept.isdisjoint(node.output):
            attributes = sorted(
                attribute.SerializeToString(deterministic=True) for attribute in node.attribute
            )
            key = node.op_type, *node.input, *map(bool, node.output), *attributes
            known = seen.setdefault(key, node)
            if known is not node:
                names |= zip(node.output, known.output, strict=True)
                continue
        yield node


def _differ(one: Value | None, other: Value) -> bool:
    """Whether a value is of another type, or of other numbers, for another size."""
    from layout_ir.frontends.onnx.constants import Constant, array_bytes
    from layout_ir.frontends.onnx.values import dtype_of, shape_of

    if one is None or isinstance(one, Constant) != isinstance(other, Constant):
        return True
    if shape_of(one) != shape_of(other) or dtype_of(one) != dtype_of(other):
        return True
    if not (isinstance(one, Constant) and isinstance(other, Constant)):
        return False
    return array_bytes(one.array) != array_bytes(other.array)


def _sections(cut: Cut, context: NodeContext) -> Iterator[_Section]:
    from layout_ir.backends.onednn.node_kernels import node_kernels
    from layout_ir.frontends.onnx.subgraphs import captured_names, used_names

    kernels = node_kernels(context.threads)
    used_in = [dict.fromkeys(name for node in nodes for name in used_names(node)) for nodes in cut.groups]
    needed = set(cut.model.result_names)
    after: list[set[str]] = []
    for used in reversed(used_in):
        after.append(set(needed))
        needed.update(used)
    shared: dict[str, StagedNodes] = {}
    for number, (nodes, used, later) in enumerate(zip(cut.groups, used_in, reversed(after), strict=True)):
        if not nodes:
            continue
        made = dict.fromkeys(name for node in nodes for name in node.output if name)
        inputs = [name for name in used if name not in made and name not in cut.constants]
        outputs = [name for name in made if name in later]
        constants = {name: cut.constants[name] for name in used if name in cut.constants}
        varies = number % 2 == 1
        if varies and all(map(is_cheap, nodes)):
            evaluation = NodeEvaluation(nodes, context.versions, outputs, types_fit=True, kernels=kernels)
            yield _Section(evaluation, {}, {})
            continue
        parameters = [name for name in inputs if name in cut.numbers]
        given = _Nodes(nodes, constants, inputs, outputs, parameters)
        if varies and not any(map(captured_names, nodes)):
            yield _shared(given, context, shared)
        else:
            run = StagedNodes(*given[:4], context, parameters)
            yield _Section(run, {name: name for name in inputs}, {name: name for name in outputs})


class _Nodes(NamedTuple):
    """Nodes of a section, and the values that they use and give, as `StagedNodes` takes them."""

    nodes: Sequence[onnx.NodeProto]
    constants: Mapping[str, Any]
    inputs: Sequence[str]
    outputs: Sequence[str]
    parameters: Sequence[str]


def _shared(given: _Nodes, context: NodeContext, shared: dict[str, StagedNodes]) -> _Section:
    """A section whose values have names by their place in it, so that equal ones are compiled together."""
    import onnx

    names: dict[str, str] = {}
    renamed: list[onnx.NodeProto] = []
    for node in given.nodes:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.ClearField("name")
        copy.ClearField("doc_string")
        for field in (copy.input, copy.output):
            field[:] = [names.setdefault(name, f"v{len(names)}") if name else "" for name in field]
        renamed.append(copy)
    own = {names[name]: array for name, array in given.constants.items()}
    stated = {names[name]: context.stated[name] for name in names if name in context.stated}
    digest = sha256()
    for copy in renamed:
        digest.update(copy.SerializeToString(deterministic=True))
    for name in sorted(own):
        array = np.ascontiguousarray(own[name])
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(repr(array.tolist()).encode() if array.dtype.hasobject else array.tobytes())
    for name in sorted(stated):
        digest.update(f"{name} ".encode() + stated[name].type.SerializeToString(deterministic=True))
    renames = {name: names[name] for name in given.inputs}, {name: names[name] for name in given.outputs}
    parameters = [names[name] for name in given.parameters]
    digest.update(repr([*(list(each.values()) for each in renames), parameters]).encode())
    key = digest.hexdigest()
    if key not in shared:
        values: dict[str, onnx.ValueInfoProto] = {}
        for name, value in stated.items():
            values[name] = onnx.ValueInfoProto(name=name, type=value.type)
        own_context = replace(context, stated=values)
        inputs, outputs = (list(each.values()) for each in renames)
        shared[key] = StagedNodes(renamed, own, inputs, outputs, own_context, parameters)
    return _Section(shared[key], *renames)
