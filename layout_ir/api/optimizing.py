"""`optimize_onnx`: an ONNX model in, the same model out with the layouts that cost a runtime least.

For blocked channels a model is first what ONNX Runtime makes of it before it looks at layouts: convolutions that have
taken in normalizations, activations and pads, without which a choice of layouts would be about other nodes than run.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextvars import Context
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from layout_ir.argument_checks import check_flags, check_model_name, checked_shapes
from layout_ir.errors import LayoutError, public
from layout_ir.forking import loading
from layout_ir.passes.onnx import model_certificate, optimize_model
from layout_ir.passes.onnx.blocked_channels import has_blocks
from layout_ir.passes.onnx.consumers import consumer_named

if TYPE_CHECKING:
    import onnx

    from layout_ir.backends.onnxruntime.graph_contents import GraphContents
    from layout_ir.frontends.onnx.model import Source
    from layout_ir.passes.onnx.optimize_model import Boundary
    from layout_ir.passes.onnx.optimized_model import OptimizedModel


@public
def optimize_onnx(
    source: Source,
    target: str = "onnx",
    *,
    inputs: Boundary = "keep",
    outputs: Boundary = "keep",
    shapes: Mapping[str, Sequence[int]] | None = None,
    certificate: bool = False,
    time_limit: float | None = optimize_model.SEARCH_SECONDS,
) -> OptimizedModel:
    """The model with the layouts that cost `target` least.

    "onnx" is the standard and "ort-cpu" is ONNX Runtime, for which values have orders of dims. "ort-cpu-blocked" is
    ONNX Runtime on a processor like this one, whose blocked channels they may have besides: the model goes out as the
    installed ONNX Runtime fuses it, with nodes of its own domains, for that runtime alone, and the proof is about the
    fused model. Where nothing is to be in blocks, or is in blocks already (nodes on blocked channels stay as they are),
    the result is that for "ort-cpu", which it has as its target, and says why in its notes.

    `layout_ir.passes.onnx.optimize_model` says what the other arguments are, and what is raised; LayoutError also where
    ONNX Runtime is needed and not installed, or does not take the model.
    """
    check_flags(certificate=certificate)
    check_model_name(source)
    shapes = checked_shapes(shapes)
    optimize = partial(optimize_model.optimize_orders, source, inputs=inputs, outputs=outputs, shapes=shapes)
    consumer = consumer_named(target)
    if not consumer.block:
        return optimize(target, certificate=certificate, time_limit=time_limit)
    begin = time.monotonic()

    def seconds_left() -> float | None:
        return None if time_limit is None else max(begin + time_limit - time.monotonic(), 0.0)

    first = optimize("ort-cpu", time_limit=time_limit)
    note = "no value is to be in blocks: the model is optimized for ort-cpu"
    if has_blocks(first.stored):
        note = (
            "the model has nodes on blocked channels: their layouts were chosen when it was made, and stay; the rest "
            f"is optimized for ort-cpu ({target} is for the model that it was made from)"
        )
    elif consumer.may_have_blocks(first.stored):
        fused, sizes, own = _fused(first, shapes)
        second = optimize_model.optimize_orders(
            fused, target, shapes=sizes, certificate=certificate, time_limit=seconds_left()
        )
        if has_blocks(second.stored):
            _state_boundary(second.stored.graph, first.stored.graph)
            second.notes.append(
                f"ONNX Runtime by itself leaves {own.transposes} Transposes, {own.reorder_inputs} reorders into blocks "
                f"and {own.reorder_outputs} out of them"
            )
            return replace(
                second, before=first.before, obligations=first.obligations, transposed=first.transposed
            )
    result = optimize("ort-cpu", certificate=True, time_limit=seconds_left()) if certificate else first
    result.notes.append(note)
    return result


def _state_boundary(graph: onnx.GraphProto, before: onnx.GraphProto) -> None:
    """Gives the inputs and outputs of a graph what is said of them `before`: names of extents, documentation.

    ONNX Runtime writes the types that it infers, and nothing besides. A tensor without a shape keeps the inferred one,
    as a model is not valid without.
    """
    for values, own in ((graph.input, before.input), (graph.output, before.output)):
        stated = {value.name: value for value in own}
        for value in values:
            if (said := stated.get(value.name)) is not None:
                inferred = type(said.type)()
                inferred.CopyFrom(value.type)
                value.CopyFrom(said)
                if said.type.HasField("tensor_type") and not said.type.tensor_type.HasField("shape"):
                    value.type.CopyFrom(inferred)


def check_proof(
    certificate: dict[str, Any], source: Source, target: str, shapes: Mapping[str, Sequence[int]]
) -> str:
    """Raises LayoutError where a certificate is of another model than `source`; returns what it was found to be about.

    That is the model itself, as it went out; with blocked channels it is what ONNX Runtime makes of the model that
    came in, inputs and outputs kept, which is fused again for this.
    """
    if not consumer_named(target).block:
        model_certificate.check_model(certificate, source, target, shapes)
        return "the model"
    first = optimize_model.optimize_orders(source, "ort-cpu", shapes=shapes)
    if has_blocks(first.stored):
        raise LayoutError(
            f"the certificate is for {target}, and the model has nodes on blocked channels: give the one that it was "
            f"made from"
        )
    fused, sizes, _ = _fused(first, shapes)
    model_certificate.check_model(certificate, fused, target, sizes)
    return "the model as the installed ONNX Runtime fuses it"


def _fused(
    first: OptimizedModel, shapes: Mapping[str, Sequence[int]] | None
) -> tuple[onnx.ModelProto, dict[str, list[int]], GraphContents]:
    """What ONNX Runtime makes of a model, the shapes of its inputs in the orders that they have now, and what it would
    run with the layouts that it chooses itself."""
    with loading:
        from layout_ir.backends.onnxruntime.fused_model import fused_model
        from layout_ir.backends.onnxruntime.graph_contents import contents_left

    orders = {entry.name: entry.order for entry in first.obligations}
    sizes = {
        name: [shape[d] for d in orders.get(name, range(len(shape)))]
        for name, shape in (shapes or {}).items()
    }
    with tempfile.TemporaryDirectory(prefix="layout-ir-") as folder:
        path = os.path.join(folder, "model.onnx")
        # In a context of its own: what a caller writes may wait for other results, this file is read now.
        Context().run(first.save, path)
        own = contents_left(path, "the model", level="all")
        return fused_model(path), sizes, own
