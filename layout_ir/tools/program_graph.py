"""A program as a graph to draw: its ops, the tensors between them in their Formats, the reorders that touch memory.

Constants are told with the ops that use them, and are nodes only where a reorder moves them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    NameLoc,
    StringAttr,
    UnregisteredOp,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import ConstantLike

from layout_ir.diagnostics import name_of_op
from layout_ir.dialects import nn
from layout_ir.dialects.layout import (
    CastOp,
    FillPadsOp,
    ReorderOp,
    ViewOp,
    format_of,
    has_layout,
    is_tensor,
    layout_of,
)
from layout_ir.drawing.drawn_graph import DrawnEdge, DrawnGraph, DrawnNode, NodeKind
from layout_ir.drawing.format_pictures import Use, format_pictures
from layout_ir.errors import shape_text
from layout_ir.passes.reorder_report import describe, format_name, memory_cost, producer_of

_ELEMENTS = 16
"""Elements of an attribute up to which it is shown."""


def drawn_program(module: ModuleOp, reasons: Mapping[Operation, str] | None = None) -> DrawnGraph:
    """The graph of all functions of `module`. `reasons` says of reorders why they are there; of others, the ops on
    both sides are named.

    An op has the same id in every program made from one, as long as it has its name or its place among its like.
    """
    return _Graph(reasons or {}).of(module)


class _Graph:
    """The nodes and edges found so far."""

    def __init__(self, reasons: Mapping[Operation, str]):
        self.reasons = reasons
        self.nodes: dict[str, DrawnNode] = {}
        self.edges: list[DrawnEdge] = []
        self.sources: dict[SSAValue, str] = {}
        self.seen = Counter[str]()

    def of(self, module: ModuleOp) -> DrawnGraph:
        ops = [op for op in module.walk() if op is not module]
        targets: list[tuple[Operation, str]] = []
        for op in ops:
            self._arguments(op)
            if isinstance(op, FuncOp) or (_is_constant(op) and not _is_moved(op)):
                continue
            if not op.operands and not op.results and not op.successors:
                continue
            key = self._add(_node(op, self.reasons))
            targets.append((op, key))
            for result in op.results:
                self.sources[result] = key
        for op, key in targets:
            for operand in op.operands:
                if (source := self.sources.get(operand)) is not None:
                    self.edges.append(_edge(source, key, operand))
            for block in op.successors:
                for argument in block.args:
                    self.edges.append(_edge(key, self.sources[argument], argument))
        return DrawnGraph(tuple(self.nodes.values()), tuple(self.edges))

    def _arguments(self, op: Operation) -> None:
        """Nodes for the arguments of functions and of blocks that are branched to; a region's come from its op."""
        for region in op.regions:
            for k, block in enumerate(region.blocks):
                for argument in block.args:
                    if k == 0 and not isinstance(op, FuncOp):
                        self.sources[argument] = self._id(op)
                        continue
                    name = argument.name_hint or f"%{argument.index}"
                    what = "input" if k == 0 else "block argument"
                    self.sources[argument] = self._add(DrawnNode(f"{what} {name}", what, "input", name))

    def _id(self, op: Operation) -> str:
        """The id that an op is going to get: its own node comes next."""
        node = _node(op, self.reasons)
        return self._unique(node.id, self.seen[node.id] + 1)

    def _add(self, node: DrawnNode) -> str:
        self.seen[node.id] += 1
        key = self._unique(node.id, self.seen[node.id])
        self.nodes[key] = DrawnNode(
            key, node.label, node.kind, node.name, node.detail, node.nbytes, node.reason
        )
        return key

    @staticmethod
    def _unique(key: str, count: int) -> str:
        return f"{key}\n{count}"


def _is_constant(op: Operation) -> bool:
    # An unregistered op may have any trait, says xDSL.
    return isinstance(op, nn.ConstantOp) or op.has_trait(ConstantLike, value_if_unregistered=False)


def _is_moved(op: Operation) -> bool:
    """Whether a reorder reads a result of `op`."""
    return any(
        isinstance(use.operation, ReorderOp | FillPadsOp) for result in op.results for use in result.uses
    )


def _node(op: Operation, reasons: Mapping[Operation, str]) -> DrawnNode:
    """The node of an op; its id does not yet tell it from those of the same kind and name."""
    name = op.location.desc.data if isinstance(op.location, NameLoc) else ""
    if isinstance(op, ReorderOp | FillPadsOp):
        cost = memory_cost(op)
        change = f"{format_name(op.input)} → {format_name(op.result)}"
        if cost is None or cost[1]:
            reason = reasons.get(op) or _reason(op)
            nbytes = None if cost is None else cost[0]
            return DrawnNode(f"copy {change} {_side(op)}", change, "copy", name, "", nbytes, reason)
        return DrawnNode(f"view {change} {_side(op)}", op.name, "view", change, "leaves memory as it is")
    label = name_of_op(op)
    if isinstance(op, ReturnOp):
        return DrawnNode("result", describe(op), "output")
    kind: NodeKind = "op"
    if isinstance(op, nn.OpaqueOp):
        kind, label = "opaque", op.op_type.data
    elif isinstance(op, UnregisteredOp):
        kind = "opaque"
    elif _is_constant(op):
        kind = "constant"
    elif isinstance(op, ViewOp | CastOp):
        kind = "view"
    return DrawnNode(f"{label} {name}", label, kind, name, "\n".join(_details(op)))


def _side(op: ReorderOp | FillPadsOp) -> str:
    source = producer_of(op.input)
    return "" if isinstance(source, Block) else describe(source)


def _reason(op: ReorderOp | FillPadsOp) -> str:
    source = producer_of(op.input)
    producer = "the caller" if isinstance(source, Block) else describe(source)
    consumers = [describe(use.operation) for use in op.result.uses]
    more = f" and {len(consumers) - 1} more" if len(consumers) > 1 else ""
    consumer = consumers[0] + more if consumers else "nothing"
    if isinstance(op, FillPadsOp):
        return f"{consumer} reads pads that {producer} leaves as they are"
    return f"{producer} makes the one and {consumer} needs the other"


def _details(op: Operation) -> Iterator[str]:
    """Attributes and constant operands, one a line."""
    for name, attribute in sorted({**op.attributes, **op.properties}.items()):
        # xDSL keeps the name of an unregistered op among its attributes.
        if name != "op_name__" and (text := _attribute(attribute)) is not None:
            yield f"{name} = {text}"
    for operand in op.operands:
        if isinstance(operand.owner, Operation) and _is_constant(operand.owner):
            yield f"constant {_value_name(operand)} {_shape(operand)} {_element(operand)} {_layout(operand)}".strip()


def _attribute(attribute: Attribute) -> str | None:
    """A number, a short text or a short list; None for what would be long."""
    match attribute:
        case IntegerAttr() | FloatAttr():
            return str(attribute.value.data)
        case StringAttr():
            return repr(attribute.data) if len(attribute.data) <= 80 else None
        case DenseArrayBase():
            values = cast("DenseArrayBase[IntegerType]", attribute).get_values()
            return str(list(values)) if len(values) <= _ELEMENTS else None
        case ArrayAttr():
            texts = [_attribute(item) for item in attribute.data[: _ELEMENTS + 1]]
            known = [text for text in texts if text is not None]
            return f"[{', '.join(known)}]" if len(known) == len(texts) <= _ELEMENTS else None
        case _:
            return None


def _edge(source: str, target: str, value: SSAValue) -> DrawnEdge:
    return DrawnEdge(source, target, _value_name(value), _shape(value), _element(value), _layout(value))


def _value_name(value: SSAValue) -> str:
    return "" if value.name_hint is None else f"%{value.name_hint}"


def _shape(value: SSAValue) -> str:
    if not is_tensor(value.type):
        return ""
    return shape_text(None if extent < 0 else extent for extent in value.type.get_shape())


def _element(value: SSAValue) -> str:
    return str(value.type.element_type if is_tensor(value.type) else value.type)


def _layout(value: SSAValue) -> str:
    return format_name(value) if has_layout(value.type) and format_of(value.type) is not None else ""


def program_pictures(modules: Iterable[ModuleOp]) -> dict[str, str]:
    """For each Format of the tensors in `modules`, as edges name it, an SVG of a small tensor in it."""
    return format_pictures(_uses(modules))


def _uses(modules: Iterable[ModuleOp]) -> Iterator[Use]:
    for module in modules:
        for value in (value for op in module.walk() for value in (*op.operands, *op.results)):
            if name := _layout(value):
                shape = value.type.get_shape() if is_tensor(value.type) else ()
                yield name, shape, partial(layout_of, value.type)
