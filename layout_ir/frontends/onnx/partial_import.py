"""The import of as much of a graph as can be known now: the rest is imported when the run time knows more.

What stops is a node whose results are of types that only the run time knows, and with it all nodes behind it. The
others become a module whose results are the values that the rest uses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp

from layout_ir.frontends.onnx.constants import Constant
from layout_ir.frontends.onnx.functions import Call
from layout_ir.frontends.onnx.import_error import is_unknown_type
from layout_ir.frontends.onnx.importer import GraphImport
from layout_ir.frontends.onnx.model import Model
from layout_ir.frontends.onnx.subgraphs import used_names

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Prefix:
    """What of a graph could be imported, and what is left for when more is known."""

    module: ModuleOp | None
    """Computes `names` from inputs of the graph; None where nothing is to be computed."""
    names: Sequence[str]
    constants: Mapping[str, NDArray[Any]]
    """Values computed at import that are left to be used, or are outputs of the graph."""
    rest: Sequence[onnx.NodeProto]
    """The nodes that are left, in order."""


def import_prefix(
    model: Model,
    *,
    shapes: Mapping[str, Sequence[int]],
    unknown: Collection[str] = (),
    constants: Mapping[str, NDArray[Any]] | None = None,
) -> Prefix:
    """Of a loaded model that is to run (`to_run`) all nodes but those whose results are of types that only the run time
    knows, and all behind these, or behind values `unknown` that the graph is not given.

    `constants` are values that the graph uses and does not have: as initializers they would be copied. Raises
    OnnxImportError where anything else stops a node.
    """
    return _PrefixImport(model, {}, keep_quantized=True, converts=True, constants=constants).prefix(
        shapes, unknown
    )


class _PrefixImport(GraphImport):
    def prefix(self, shapes: Mapping[str, Sequence[int]], unknown: Collection[str]) -> Prefix:
        inputs = self._inputs(shapes)
        for name in unknown:
            self._define(name, "a value that is given")
        self.uses = Counter(value.name for value in self.graph.output)
        obstacles, missing, live = self._nodes(self._live(self.model.calls), unknown)
        for _, error in obstacles:
            if not is_unknown_type(error):
                raise error
        rest, wanted = self._left(live, missing)
        names: list[str] = []
        constants: dict[str, NDArray[Any]] = {}
        given = {value.name for value in inputs} | set(unknown) | set(self.constants)
        given |= {tensor.name for tensor in self.graph.initializer}
        for name in wanted:
            if name in given or name in missing or name in self.structured:
                continue
            value = self._value(name, "the graph")
            if isinstance(value, Constant):
                constants[name] = value.array
            else:
                names.append(name)
        module = self._function(inputs, names) if names else None
        return Prefix(module, names, constants, [call.proto for call in rest])

    def _left(self, live: Sequence[Call], missing: set[str]) -> tuple[list[Call], dict[str, None]]:
        """The nodes that are left where these values are missing, and the names that they and the outputs use.

        A sequence that they use is made by its node, which is left as well.
        """
        left = {id(call) for call in live if not missing.isdisjoint(call.proto.output)}
        while True:
            rest = [call for call in live if id(call) in left]
            wanted = dict.fromkeys(value.name for value in self.graph.output)
            for call in rest:
                wanted |= dict.fromkeys(used_names(call.proto))
            makers = {
                id(call)
                for call in live
                if any(name in wanted and name in self.structured for name in call.proto.output)
            }
            if makers <= left:
                return rest, wanted
            left |= makers
