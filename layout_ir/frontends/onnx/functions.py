"""Inlining of a model's local functions.

The size of the result is computed first: 21 functions, each of which calls the next one twice, make 2^21 nodes from a
file of 2 KB. A model may grow `GROWTH`-fold, a small one to `FLOOR_NODES` and `FLOOR_BYTES`.

Each node keeps the operator versions that its function asks for; all nodes of a subgraph (of If, Loop) are of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from layout_ir.frontends.onnx.import_error import OnnxImportError, quoted
from layout_ir.frontends.onnx.subgraphs import graphs_of, graphs_within, nodes_within

if TYPE_CHECKING:
    import onnx

GROWTH = 4
FLOOR_NODES = 20_000
FLOOR_BYTES = 32 << 20

Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Call:
    """A node of the graph after inlining."""

    proto: onnx.NodeProto
    title: str
    """The node in messages: its number, name and op; one from a function behind the call in the graph."""
    opsets: Mapping[str, int]
    """Versions of the operators, by domain ("" is the default one)."""


def domain_of(domain: str) -> str:
    """`domain`, or "" for "ai.onnx", the other name of the default domain."""
    return "" if domain == "ai.onnx" else domain


def node_name(proto: onnx.NodeProto) -> str:
    """The name of a node; one without a name goes by its first output."""
    return proto.name or next(iter(proto.output), "")


def node_title(proto: onnx.NodeProto, number: int) -> str:
    """The node in messages: number, name and op."""
    return f"node {number} {quoted(node_name(proto))} ({quoted(proto.op_type)[1:-1]})"


def inlined(model: onnx.ModelProto, opsets: Mapping[str, int]) -> list[Call]:
    """The nodes of the graph, with those of functions in place of their calls.

    Raises OnnxImportError where a function calls itself or is called wrongly, where there would be too many nodes, or
    where a function that is called in a subgraph uses other versions of operators than that.
    """
    nodes = model.graph.node
    if not model.functions:
        return [Call(node, node_title(node, number), opsets) for number, node in enumerate(nodes)]
    functions = called_functions(model, opsets)
    check_size(nodes, functions)
    return list(_Inliner(model, functions).calls(nodes, opsets, ""))


def called_functions(model: onnx.ModelProto, opsets: Mapping[str, int]) -> dict[Key, onnx.FunctionProto]:
    """The functions of a model by what their calls say of them; `opsets` are the versions of the operators.

    ONNX leaves open what a node means that has the name of an operator and of a function. In ONNX Runtime and in the
    evaluator of the onnx package it is the operator where the domain is one of the standard, and so it is here.

    Raises OnnxImportError where a function is defined twice.
    """
    functions: dict[Key, onnx.FunctionProto] = {}
    for function in model.functions:
        key = (domain_of(function.domain), function.name, function.overload)
        if key in functions:
            raise OnnxImportError(f"function {_word(function)} is defined twice")
        functions[key] = function
    return {key: function for key, function in functions.items() if not _is_standard(key, opsets)}


def _is_standard(key: Key, opsets: Mapping[str, int]) -> bool:
    """Whether the standard has an operator of that domain and name, in the version that is used."""
    import onnx.defs

    domain, name, _ = key
    try:
        onnx.defs.get_schema(name, opsets.get(domain, 1), domain)
    except onnx.defs.SchemaError:
        return False
    return True


def _key(node: onnx.NodeProto) -> Key:
    return (domain_of(node.domain), node.op_type, node.overload)


def _word(function: onnx.FunctionProto) -> str:
    return quoted(f"{function.domain}.{function.name}" if function.domain else function.name)


def check_size(nodes: Sequence[onnx.NodeProto], functions: Mapping[Key, onnx.FunctionProto]) -> None:
    """Raises OnnxImportError where a function calls itself, or where the inlined model would be too large."""
    count, bytes = written_out(nodes, functions)
    written = [*nodes, *(node for function in functions.values() for node in function.node)]
    most_nodes = max(FLOOR_NODES, GROWTH * len(_with_nodes_within(written)))
    most_bytes = max(FLOOR_BYTES, GROWTH * sum(node.ByteSize() for node in written))
    for what, there, most in (("nodes", count, most_nodes), ("bytes", bytes, most_bytes)):
        if there > most:
            raise too_large(there, what, f"at most {most} are imported from a model of this size")


def too_large(count: int, what: str, most: str) -> OnnxImportError:
    """The error that functions make so many nodes, or bytes; `most` says how many are taken."""
    word = count if count < 2**63 else "more than 2^63"
    return OnnxImportError(
        f"the functions of the model, written out at their calls, make {word} {what}; {most}"
    )


def written_out(
    nodes: Sequence[onnx.NodeProto], functions: Mapping[Key, onnx.FunctionProto]
) -> tuple[int, int]:
    """How many nodes, and bytes of them, there are with the bodies of functions in place of their calls.

    Raises OnnxImportError where a function calls itself.
    """
    sizes: dict[Key, tuple[int, int]] = {}

    def size(body: Sequence[onnx.NodeProto]) -> tuple[int, int]:
        """Nodes and bytes, a call counting as a node; needs the sizes of what is called."""
        inner = _with_nodes_within(body)
        called = [sizes[_key(node)] for node in inner if _key(node) in functions]
        return (
            len(inner) + sum(count for count, _ in called),
            sum(node.ByteSize() for node in body) + sum(bytes for _, bytes in called),
        )

    for root in functions:
        # Depth first, without recursion: chains may be long. A function comes twice: before and after what it calls.
        path: list[Key] = []
        open_keys: set[Key] = set()
        stack = [(root, False)]
        while stack:
            key, done = stack.pop()
            if done:
                sizes[key] = size(functions[key].node)
                open_keys.discard(path.pop())
            elif key in open_keys:
                chain = " -> ".join(_word(functions[k]) for k in [*path[path.index(key) :], key][:8])
                raise OnnxImportError(f"function {_word(functions[key])} calls itself: {chain}")
            elif key not in sizes:
                path.append(key)
                open_keys.add(key)
                stack.append((key, True))
                called = dict.fromkeys(_key(node) for node in _with_nodes_within(functions[key].node))
                stack += [(other, False) for other in called if other in functions]
    return size(nodes)


def _with_nodes_within(nodes: Sequence[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """The nodes, and those of their subgraphs."""
    return [each for node in nodes for each in ((node, *nodes_within(node)) if node.attribute else (node,))]


def _is_same_operator(node: onnx.NodeProto, one: int, other: int) -> bool:
    """Whether the operator of a node is the same in two versions of its domain: none between them changed it."""
    if one == other:
        return True
    import onnx.defs

    try:
        first, second = (
            onnx.defs.get_schema(node.op_type, version, domain_of(node.domain)) for version in (one, other)
        )
    except onnx.defs.SchemaError:
        return False
    return first.since_version == second.since_version


def take_versions(call: Call, opsets: dict[str, int], place: str) -> None:
    """Adds to `opsets`, the versions of operators in a place, those of domains that only this node of it uses.

    Raises OnnxImportError, naming `place`, where the node, of a function of other versions, is another operator there.
    """
    if call.opsets == opsets:
        return
    for node in (call.proto, *nodes_within(call.proto)):
        domain = domain_of(node.domain)
        if domain not in call.opsets:
            continue
        version = opsets.setdefault(domain, call.opsets[domain])
        if not _is_same_operator(node, version, call.opsets[domain]):
            raise OnnxImportError(
                f"{call.title}: is of version {call.opsets[domain]} of the operators, but is another operator in "
                f"version {version} of {place}"
            )


@dataclass(slots=True)
class _Frame:
    """A body that is being inlined, with the values and attributes that its names have at the call."""

    nodes: Iterator[tuple[int, onnx.NodeProto]]
    opsets: Mapping[str, int]
    names: dict[str, str] | None
    """The names that stand for those of the body; None for the graph, whose names stand for themselves."""
    attributes: Mapping[str, onnx.AttributeProto]
    word: str
    title: str
    """The call in the graph."""


class _Inliner:
    def __init__(self, model: onnx.ModelProto, functions: Mapping[Key, onnx.FunctionProto]):
        self.functions = functions
        self.taken = set[str]()
        for graph in graphs_within(model.graph):
            self.taken.update(value.name for value in (*graph.input, *graph.output, *graph.initializer))
            self.taken.update(name for node in graph.node for name in (*node.input, *node.output))
        self.number = 0

    def calls(self, nodes: Sequence[onnx.NodeProto], opsets: Mapping[str, int], title: str) -> Iterator[Call]:
        """The nodes of a graph, with those of functions in place of their calls. `title` is the node in the graph of
        the model that this is a subgraph of, if it is one."""
        stack = [_Frame(enumerate(nodes), opsets, None, {}, "", title)]
        while stack:
            frame = stack[-1]
            entry = next(frame.nodes, None)
            if entry is None:
                stack.pop()
                continue
            number, proto = entry
            title = node_title(proto, number)
            if frame.title:
                title = (
                    f"{frame.title}: {title} of {f'function {frame.word}' if frame.word else 'its subgraph'}"
                )
            here = proto if frame.names is None else self._renamed(proto, frame, frame.names)
            function = self.functions.get(_key(proto))
            if function is None:
                yield self._without_inner_calls(Call(here, title, frame.opsets))
                continue
            called, passed = self._enter(function, here, frame, title)
            for node in passed:
                yield Call(node, title, frame.opsets)
            stack.append(called)

    def _without_inner_calls(self, call: Call) -> Call:
        """A node, with the nodes of functions in place of their calls in its subgraphs."""
        if all(_key(node) not in self.functions for node in nodes_within(call.proto)):
            return call
        import onnx

        proto, opsets = onnx.NodeProto(), dict(call.opsets)
        proto.CopyFrom(call.proto)
        for graph in graphs_of(proto):
            inner = list(self.calls(graph.node, call.opsets, call.title))
            for entry in inner:
                take_versions(entry, opsets, "the subgraph in which the function is called")
            nodes = [onnx.NodeProto.FromString(entry.proto.SerializeToString()) for entry in inner]
            del graph.node[:]
            graph.node.extend(nodes)
        return Call(proto, call.title, opsets)

    def _fresh(self, name: str) -> str:
        """A name for a value inside a function, which nothing else has."""
        while True:
            self.number += 1
            fresh = f"{name}_{self.number}"
            if fresh not in self.taken:
                self.taken.add(fresh)
                return fresh

    def _enter(
        self, function: onnx.FunctionProto, call: onnx.NodeProto, frame: _Frame, title: str
    ) -> tuple[_Frame, list[onnx.NodeProto]]:
        """The body for a call, and nodes for results that are inputs of the function."""
        import onnx.helper

        word = _word(function)
        for what, given, known in (
            ("inputs", call.input, function.input),
            ("outputs", call.output, function.output),
        ):
            if len(given) > len(known):
                raise OnnxImportError(
                    f"{title}: has {len(given)} {what}, but function {word} has {len(known)}"
                )
            if len(set(known)) != len(known):
                raise OnnxImportError(
                    f"{title}: function {word} names one of its {what} twice: {list(known)}"
                )
        for name in (name for node in function.node for name in node.output):
            if name in function.input:
                raise OnnxImportError(f"{title}: function {word} computes its own input {quoted(name)}")
        names = dict.fromkeys(function.input, "") | dict(zip(function.input, call.input, strict=False))
        passed: list[onnx.NodeProto] = []
        for inner, outer in zip(function.output, call.output, strict=False):
            if outer and inner in names:
                passed.append(onnx.helper.make_node("Identity", [names[inner]], [outer]))
            elif outer:
                names[inner] = outer
        attributes = {attribute.name: attribute for attribute in function.attribute_proto}
        known = {*function.attribute, *attributes}
        for attribute in call.attribute:
            if attribute.name not in known:
                raise OnnxImportError(
                    f"{title}: attribute {attribute.name} is no parameter of function {word}, "
                    f"which has {', '.join(sorted(known)) or 'none'}"
                )
            attributes[attribute.name] = attribute
        opsets = {**frame.opsets, **{domain_of(e.domain): e.version for e in function.opset_import}}
        nodes = enumerate(function.node)
        return _Frame(nodes, opsets, names, attributes, word, frame.title or title), passed

    def _renamed(self, proto: onnx.NodeProto, frame: _Frame, names: dict[str, str]) -> onnx.NodeProto:
        """A copy of a node of a function with the names and attributes of its call."""
        import onnx

        result = onnx.NodeProto()
        result.CopyFrom(proto)
        for field in (result.input, result.output):
            for position, name in enumerate(field):
                if name and name not in names:
                    names[name] = self._fresh(name)
                field[position] = names[name] if name else ""
        del result.attribute[:]
        for attribute in proto.attribute:
            if not attribute.ref_attr_name:
                copy = result.attribute.add()
                copy.CopyFrom(attribute)
            elif attribute.ref_attr_name in frame.attributes:
                given = frame.attributes[attribute.ref_attr_name]
                if attribute.type and attribute.type != given.type:
                    kinds = [onnx.AttributeProto.AttributeType.Name(a.type) for a in (attribute, given)]
                    raise OnnxImportError(
                        f"{frame.title}: attribute {given.name} of function {frame.word} "
                        f"is of type {kinds[1]}, but {attribute.name} there is of type {kinds[0]}"
                    )
                copy = result.attribute.add()
                copy.CopyFrom(given)
                copy.name = attribute.name
        for graph in graphs_of(result):
            self._rename_subgraph(graph, frame, names)
        return result

    def _rename_subgraph(self, graph: onnx.GraphProto, frame: _Frame, names: Mapping[str, str]) -> None:
        """Gives a subgraph of a function's node the names of the call; its own values get fresh ones, as an outer value
        that it uses may have one of theirs."""
        inner = dict(names)
        for value in (*graph.input, *graph.initializer):
            inner[value.name] = value.name = self._fresh(value.name)
        for tensor in graph.sparse_initializer:
            inner[tensor.values.name] = tensor.values.name = self._fresh(tensor.values.name)
        for node in graph.node:
            node.CopyFrom(self._renamed(node, frame, inner))
        for value in graph.output:
            value.name = inner.get(value.name, value.name)
        del graph.value_info[:]


def fresh_name(name: str, taken: set[str]) -> str:
    """`name`, or with a number behind it where it is taken already; taken from now on."""
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    taken.add(found)
    return found
