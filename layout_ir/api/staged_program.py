"""A model whose shapes depend on numbers, compiled part by part while it runs (`staged_nodes`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from layout_ir.api.call_inputs import Inputs
from layout_ir.api.model_nodes import ModelNodes
from layout_ir.api.staged_nodes import NodeContext, StagedNodes
from layout_ir.backends.onednn.plan_steps import RunnablePlan
from layout_ir.forking import loading

if TYPE_CHECKING:
    from layout_ir.api.staged_nodes import CompilePart
    from layout_ir.frontends.onnx.model import AnySource


class StagedProgram:
    """A model of which parts are compiled when they are reached, for shapes of its inputs that are given."""

    def __init__(
        self,
        source: AnySource,
        shapes: Mapping[str, Sequence[int]] | None,
        compile_part: CompilePart,
        threads: int,
        *,
        checked: bool = False,
        repeatable: bool = False,
    ) -> None:
        """`checked` is that of `PlanRunner`, `repeatable` that of `compile`.

        Raises LayoutError where the model cannot be imported for other reasons than types that are not known.
        """
        with loading:
            from layout_ir.frontends.onnx.model import load

        self._model = model = ModelNodes(load(source))
        self._shapes = {name: tuple(shape) for name, shape in (shapes or {}).items()}
        self.threads = threads
        self.input_names = model.input_names
        self.result_names = model.result_names
        context = NodeContext(model.versions, model.stated, compile_part, threads, checked, repeatable)
        self._nodes = StagedNodes(
            model.nodes, model.constants, model.input_names, model.result_names, context
        )

    def __call__(self, inputs: Inputs) -> list[Any]:
        """The outputs: arrays, or what the reference makes of other values."""
        known = self._model.inputs(inputs, self._shapes)
        self._nodes.run(known)
        return self._model.results(known)

    def parts(self) -> Iterator[RunnablePlan]:
        """The programs of the parts that were compiled so far."""
        return self._nodes.parts()

    def evaluated(self) -> Counter[str]:
        """The operators of nodes that the reference evaluates between them in all calls, as far as they are known."""
        return self._nodes.evaluated()
