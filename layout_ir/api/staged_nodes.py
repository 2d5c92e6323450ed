"""Nodes of an ONNX model that are compiled part by part while they run.

What an importer can give types is a program; the first nodes that it cannot (a NonZero, a Reshape to a shape that is
computed) end a part. When the part has run, their operands are known. Those that say what a node does, as the shape of
a Reshape, become constants of the next part, which is compiled for their values; a node whose result depends on its
data is evaluated by the reference. Then the rest of the nodes is the next part, for the shapes that came out.

    nodes -> | part for these shapes and values |-> values -> | next part for those that came |-> ...

Each part is kept for the shapes and values that it was compiled for, so that a call whose numbers lead to known shapes
compiles nothing. Compiling takes a second where the reference takes milliseconds for what is behind the large
operators (boxes that are selected, tokens of an expert), and some numbers never come again: for shapes that come the
first time, such nodes run by the reference, and are compiled when they come again, later where more take turns than are
kept. Values that are no tensors of our element types (sequences, texts, floats of 8 bits) go from node to node by the
reference, and so does a Loop that no program has types for, but for what its trips have in common (`loop_body`).
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from threading import RLock
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from layout_ir.api.model_nodes import bf16
from layout_ir.backends.onednn.plan_runner import PlanRunner
from layout_ir.backends.onednn.plan_steps import RunnablePlan
from layout_ir.backends.reference.node_evaluation import NodeEvaluation
from layout_ir.elements.element_types import ELEMENT_TYPES
from layout_ir.elements.numpy_types import Array
from layout_ir.errors import LayoutError
from layout_ir.forking import fork_safe, loading

if TYPE_CHECKING:
    import onnx
    from xdsl.dialects.builtin import ModuleOp

    from layout_ir.api.loop_body import LoopBody

    class CompilePart(Protocol):
        """Compiles the program of a part, which it may change; one to be `kept` is for other processes, too."""

        def __call__(self, module: ModuleOp, *, kept: bool) -> RunnablePlan: ...


_KEPT = 16
"""For how many shapes and values of its inputs a part stays compiled."""

_REMEMBERED = 1024
"""How many shapes and values that came once are remembered for when they come again."""

MOST_ELEMENTS = 64
"""Elements of a parameter at most: shapes, axes, counts."""

_PARAMETERS = frozenset(
    """
    K M axes axis block_shape cond constant_value delta depth dft_length ends fft_length frame_length frame_step
    image_shape k limit output_shape pads repeats roi scales shape size sizes split start starts steps
    """.split()  # noqa: SIM905
)
"""Inputs that say what a node does, as the schemas of ONNX name them."""

CHEAP_OPERATORS = frozenset(
    """
    Abs Acos Add And ArgMax ArgMin Asin Atan BatchNormalization BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor
    Cast CastLike Ceil Celu Clip Compress Concat Constant ConstantOfShape Cos Cosh CumSum DequantizeLinear Div Elu
    Equal Erf Exp Expand EyeLike Flatten Floor Gather GatherElements GatherND Gelu Gemm Greater GreaterOrEqual
    HardSigmoid HardSwish Identity InstanceNormalization IsInf IsNaN LayerNormalization LeakyRelu
    Less LessOrEqual Log LogSoftmax MatMul Max Mean Min Mish Mod Mul Neg NonMaxSuppression NonZero Not OneHot Or PRelu
    Pad Pow QuantizeLinear RMSNormalization Range Reciprocal ReduceL1 ReduceL2 ReduceLogSumExp ReduceMax ReduceMean
    ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape RoiAlign Round ScatterElements ScatterND Selu Shape
    Sigmoid Sign Sin Sinh Size Slice Softmax Softplus Softsign Split Sqrt Squeeze Sub Sum Tan Tanh Tile TopK Transpose
    Trilu Unique Unsqueeze Where Xor
    """.split()  # noqa: SIM905
)
"""Operators that the reference computes by calls of NumPy on whole tensors: as many, whatever the extents.

Those with windows are not among them (Conv, MaxPool, GridSample), whose passes over the tensors are as many as a window
has elements, nor those that go over elements in Python (Resize), those with subgraphs, and those for which the
reference fails in itself (GroupNormalization). Whatever is not named is compiled at once.
"""


@dataclass(frozen=True, eq=False)
class NodeContext:
    """What nodes of one model have in common."""

    versions: Mapping[str, int]
    """Of the operators, by domain."""
    stated: Mapping[str, onnx.ValueInfoProto]
    """What the model says of the types of values, by name."""
    compile: CompilePart
    threads: int
    checked: bool
    """That of `PlanRunner`."""
    repeatable: bool = False
    """Whether nodes are computed in one way at all calls: none by the reference first, and compiled later."""


@dataclass(frozen=True, eq=False)
class _Part:
    """What a part is for some shapes and values: a program, nodes by the reference, and what follows."""

    names: Sequence[str]
    runnable: RunnablePlan | None
    runner: PlanRunner | None
    constants: Mapping[str, Any]
    """Values that are known without it, which its nodes use or what follows."""
    evaluated: Sequence[NodeEvaluation]
    following: _Stage | None

    def run(self, known: dict[str, Any]) -> None:
        """Adds what the part gives to the values that are known."""
        known |= self.constants
        if self.runner is not None and self.runnable is not None:
            arrays = [_row_major(known[name]) for name in self.runnable.input_names]
            found = self.runner.on_arrays(arrays)
            for name, array, place in zip(self.names, found, self.runner.plan.results, strict=True):
                known[name] = array.view(bf16()) if place.dtype == "bf16" else array
        for nodes in self.evaluated:
            known |= zip(nodes.outputs, nodes(known), strict=True)


@dataclass(eq=False)
class _Stage:
    """The nodes that are left at some point, with the constants that they use."""

    nodes: Sequence[onnx.NodeProto]
    constants: Mapping[str, Any]
    inputs: Sequence[str]
    """Values that are known when the stage begins, and used by its nodes."""
    varying: Sequence[str]
    """Those of the inputs whose types differ from call to call."""
    parameters: tuple[str, ...] = ()
    """Inputs that are constants of the parts."""
    parts: OrderedDict[Any, _Part] = field(default_factory=OrderedDict[Any, _Part])
    seen: OrderedDict[Any, int] = field(default_factory=OrderedDict[Any, int])
    """For what there were calls that no part was compiled for, and how many."""
    often: int = 2
    """From how many calls for the same shapes and values on a part is compiled for them."""
    by_reference: _Part | None = None
    """The nodes in front that are cheap by the reference, for any shapes."""
    is_first: bool = True
    """Whether the stage follows the first part of the stage before, and that of those before as well."""

    def key(self, known: Mapping[str, Any]) -> Any:
        """What a part is compiled for."""
        types = [_type(known[name]) for name in self.varying]
        return tuple(types + [known[name].tobytes() for name in self.parameters])

    def part(self, key: Any) -> _Part | None:
        """The part that was compiled for this."""
        found = self.parts.get(key)
        if found is not None:
            self.parts.move_to_end(key)
        return found

    def comes_often(self, key: Any) -> bool:
        """Whether a call is one of so many with this that a part is worth it."""
        calls = self.seen.pop(key, 0) + 1
        if calls >= self.often:
            return True
        self.seen[key] = calls
        if len(self.seen) > _REMEMBERED:
            self.seen.popitem(last=False)
        return False

    def keep(self, key: Any, part: _Part) -> None:
        """Keeps a part, in place of the one that was not needed for the longest time where there are too many."""
        self.parts[key] = part
        if len(self.parts) > _KEPT:
            self.parts.popitem(last=False)
            # Where more shapes take turns than are kept, each would be compiled again and again. Where cheap nodes
            # are in front, which run meanwhile, parts are dropped as often as the number of calls doubles at most.
            self.often *= 2


class StagedNodes:
    """Nodes in order, parts of which are compiled when they are reached."""

    def __init__(
        self,
        nodes: Sequence[onnx.NodeProto],
        constants: Mapping[str, Any],
        inputs: Sequence[str],
        outputs: Sequence[str],
        context: NodeContext,
        parameters: Sequence[str] = (),
    ) -> None:
        """`inputs` are the values that are known at a call, `outputs` those that are asked for. `parameters` are inputs
        whose numbers parts are compiled for; others are found by what nodes need."""
        self._outputs = outputs
        self._context = context
        self._first = _Stage(nodes, constants, inputs, inputs, tuple(parameters))
        self._bodies: OrderedDict[Any, LoopBody] = OrderedDict()
        self._lock = RLock()
        fork_safe(self._lock)

    def run(self, known: dict[str, Any]) -> None:
        """Adds the outputs, and what lies between, to the values that are known."""
        stage: _Stage | None = self._first
        while stage is not None:
            part = self._part(stage, known)
            part.run(known)
            stage = part.following

    # Parts ------------------------------------------------------------------------------------------------------

    def _part(self, stage: _Stage, known: Mapping[str, Any]) -> _Part:
        with self._lock:
            found = stage.part(stage.key(known))
        if found is not None:
            return found
        with loading, self._lock:  # what compiles imports: a process that forks takes the two in this order
            while True:
                key = stage.key(known)
                found = stage.part(key)
                if found is not None:
                    return found
                if not self._context.repeatable and stage.parts and not stage.comes_often(key):
                    found = self._by_reference(stage)
                    if found is not None:
                        return found
                made = self._new_part(stage, known)
                if made is not None:
                    stage.keep(key, made)
                    return made

    def _by_reference(self, stage: _Stage) -> _Part | None:
        """The cheap nodes in front of a stage by the reference; None where there are none."""
        if stage.by_reference is None:
            count = 0
            while count < len(stage.nodes) and is_cheap(stage.nodes[count]):
                count += 1
            if not count:
                return None
            nodes, left = stage.nodes[:count], stage.nodes[count:]
            made = {name for node in nodes for name in node.output if name}
            following = self._following(left, stage.constants, {*stage.inputs, *made}, is_first=False)
            wanted = {*self._outputs, *(() if following is None else following.inputs)} & made
            evaluated = [self._evaluation(nodes, sorted(wanted))]
            stage.by_reference = _Part(
                (), None, None, _taken(evaluated, stage.constants), evaluated, following
            )
        return stage.by_reference

    def _evaluation(
        self,
        nodes: Sequence[onnx.NodeProto],
        outputs: Sequence[str] | None = None,
        *,
        trips: Mapping[tuple[str, ...], LoopBody] | None = None,
    ) -> NodeEvaluation:
        from layout_ir.backends.onednn.node_kernels import node_kernels

        kernels = replace(node_kernels(self._context.threads), trips=trips or {})
        return NodeEvaluation(nodes, self._context.versions, outputs, kernels=kernels)

    def _ready(self, node: onnx.NodeProto, constants: Mapping[str, Any]) -> NodeEvaluation:
        """The evaluation of a node whose inputs are known; `constants` are values that are the same in all calls of a
        part."""
        if node.op_type != "Loop" or node.domain or self._context.repeatable:
            return self._evaluation([node])  # of a Loop, first trips show what is compiled for later ones
        return self._evaluation([node], trips={tuple(node.output): self._body(node, constants)})

    def _body(self, node: onnx.NodeProto, constants: Mapping[str, Any]) -> LoopBody:
        """The body of a Loop, one for all parts in which the constants that it takes are the same."""
        from layout_ir.api.loop_body import LoopBody
        from layout_ir.frontends.onnx.subgraphs import captured_names, graphs_of

        taken = {name: constants[name] for name in captured_names(node) if name in constants}
        found = [name for name in taken if name not in self._first.constants]
        key = *node.output, *((name, _numbers(taken[name])) for name in found)
        if key not in self._bodies:
            self._bodies[key] = LoopBody(graphs_of(node)[0], taken, self._context)
            if len(self._bodies) > _KEPT:
                self._bodies.popitem(last=False)
        return self._bodies[key]

    def _following(
        self,
        nodes: Sequence[onnx.NodeProto],
        constants: Mapping[str, Any],
        given: set[str],
        varying: set[str] | None = None,
        *,
        is_first: bool,
    ) -> _Stage | None:
        """The stage of the nodes that are left, of values `given`, of which the types of `varying` are not known (of
        none where it is left out); None where no nodes are."""
        from layout_ir.frontends.onnx.subgraphs import used_names

        if not nodes:
            return None
        used = dict.fromkeys(name for node in nodes for name in used_names(node))
        inputs = [name for name in used if name in given]
        return _Stage(
            nodes,
            {name: constants[name] for name in used if name in constants},
            inputs,
            [name for name in inputs if varying is None or name in varying],
            is_first=is_first,
        )

    def _new_part(self, stage: _Stage, known: Mapping[str, Any]) -> _Part | None:
        """The part for these values; None where more of them are to be parameters first."""
        from layout_ir.frontends.onnx.model import load
        from layout_ir.frontends.onnx.partial_import import import_prefix
        from layout_ir.frontends.onnx.subgraphs import used_names

        tensors = [name for name in stage.inputs if is_tensor(known[name]) and name not in stage.parameters]
        unknown = [name for name in stage.inputs if not is_tensor(known[name])]
        fixed = {
            **stage.constants,
            **{name: known[name] for name in stage.inputs if name in stage.parameters},
        }
        constants = {name: value for name, value in fixed.items() if is_tensor(value)}
        others = {name: value for name, value in fixed.items() if name not in constants}
        model = load(self._model(stage, known, tensors, others))
        shapes = {name: known[name].shape for name in tensors}
        prefix = import_prefix(model, shapes=shapes, unknown=unknown, constants=constants)
        # A node of that model would keep all of its weights.
        own = {id(call.proto): node for call, node in zip(model.calls, stage.nodes, strict=True)}
        rest = [own[id(node)] if id(node) in own else _copied(node) for node in prefix.rest]
        there = {*stage.inputs, *stage.constants, *prefix.constants}
        ready = [node for node in rest if all(name in there for name in used_names(node))]
        more = {name for node in ready for name in self._parameters_of(node) if name in tensors}
        more = {name for name in more if known[name].size <= MOST_ELEMENTS}
        if more:
            stage.parameters += tuple(sorted(more))
            return None
        if rest and not ready and prefix.module is None:
            raise LayoutError(f"nothing gives the inputs of {rest[0].op_type} ({rest[0].output[0]})")
        # Sizes differ from call to call without end: kept is what the first calls of a process need.
        is_first = stage.is_first and not stage.parts
        runnable = None if prefix.module is None else self._context.compile(prefix.module, kept=is_first)
        evaluated = [self._ready(node, {**stage.constants, **prefix.constants}) for node in ready]
        found = {name for nodes in evaluated for name in nodes.outputs}
        done = {id(node) for node in ready}
        following = self._following(
            [node for node in rest if id(node) not in done],
            {**stage.constants, **prefix.constants},
            {*stage.inputs, *prefix.names, *found},
            found,
            is_first=is_first,
        )
        return _Part(
            prefix.names,
            runnable,
            None
            if runnable is None
            else PlanRunner(runnable.plan, threads=runnable.threads, checked=self._context.checked),
            {**prefix.constants, **_taken(evaluated, stage.constants)},
            evaluated,
            following,
        )

    def _model(
        self, stage: _Stage, known: Mapping[str, Any], tensors: Sequence[str], constants: Mapping[str, Any]
    ) -> onnx.ModelProto:
        """The nodes of a stage as a model of those outputs that they give, with these of its constants."""
        import onnx
        import onnx.helper
        import onnx.numpy_helper

        made = {name for node in stage.nodes for name in node.output}
        outputs = [name for name in self._outputs if name in made]
        graph = onnx.GraphProto(name="part", node=stage.nodes)
        for name in tensors:
            number = onnx.helper.np_dtype_to_tensor_dtype(known[name].dtype)
            graph.input.append(onnx.helper.make_tensor_value_info(name, number, known[name].shape))
        graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items())
        graph.output.extend(
            self._context.stated.get(name, onnx.ValueInfoProto(name=name)) for name in outputs
        )
        graph.value_info.extend(
            value for name, value in self._context.stated.items() if name in made and name not in outputs
        )
        imports = [onnx.helper.make_opsetid(*entry) for entry in self._context.versions.items()]
        return onnx.helper.make_model(graph, opset_imports=imports)

    def _parameters_of(self, node: onnx.NodeProto) -> Iterator[str]:
        """The inputs of a node that say what it does."""
        import onnx.defs

        if node.op_type in ("ConstantOfShape", "If") and not node.domain:
            yield node.input[0]
            return
        try:
            schema = onnx.defs.get_schema(
                node.op_type, self._context.versions.get(node.domain, 1), node.domain
            )
        except onnx.defs.SchemaError:
            return
        for formal, name in zip(schema.inputs, node.input, strict=False):
            if name and formal.name in _PARAMETERS:
                yield name

    # What it is, for people -------------------------------------------------------------------------------------

    def parts(self) -> Iterator[RunnablePlan]:
        """The programs of the parts that were compiled so far."""
        for part in self._all_parts():
            if part.runnable is not None:
                yield part.runnable
        for body in self._bodies.values():
            yield from body.parts()

    def evaluated(self) -> Counter[str]:
        """The operators of nodes that the reference evaluates between them in all calls, as far as they are known."""
        found = {tuple(nodes.outputs): nodes for part in self._all_parts() for nodes in part.evaluated}
        return sum(
            (body.evaluated() for body in self._bodies.values()),
            Counter(operator for nodes in found.values() for operator in nodes.operators),
        )

    def _all_parts(self) -> Iterator[_Part]:
        left = [self._first]
        while left:
            stage = left.pop()
            yield from stage.parts.values()
            parts = (*stage.parts.values(), stage.by_reference)
            left += [part.following for part in parts if part is not None and part.following is not None]


_OURS = {known.array_name for known in ELEMENT_TYPES if not (known.is_packed or known.is_narrow_float)}


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor of an element type that programs compute with."""
    array: Any = value
    return isinstance(value, np.ndarray) and _is_ours(array.dtype)


@cache
def _is_ours(dtype: np.dtype[Any]) -> bool:
    return dtype.name in _OURS


def _type(value: Any) -> Any:
    """What a part is compiled for of a value that is no parameter; None for what is no tensor."""
    return (value.dtype, value.shape) if is_tensor(value) else None


def _copied(node: onnx.NodeProto) -> onnx.NodeProto:
    """A node of a branch, by itself."""
    copy = type(node)()
    copy.CopyFrom(node)
    return copy


def _numbers(value: Any) -> Any:
    """What two values that are the same have in common: the numbers of tensors."""
    if not is_tensor(value):
        return id(value)
    return value.dtype, value.shape, sha256(np.ascontiguousarray(value).view(np.uint8).data).digest()


def _row_major(array: Array) -> Array:
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def _taken(evaluated: Sequence[NodeEvaluation], constants: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the constants that nodes take."""
    names = {name for nodes in evaluated for name in nodes.inputs}
    return {name: constants[name] for name in names if name in constants}


def is_cheap(node: onnx.NodeProto) -> bool:
    """Whether the reference computes a node by a few calls of NumPy; of an If, the nodes of both branches."""
    if node.op_type == "If":
        return all(is_cheap(inner) for attribute in node.attribute for inner in attribute.g.node)
    return node.op_type in CHEAP_OPERATORS and not node.domain
