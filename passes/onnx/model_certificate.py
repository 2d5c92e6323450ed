"""Whether a certificate speaks of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from layout_ir.errors import LayoutError
from layout_ir.frontends.onnx.model import read_model
from layout_ir.passes.onnx.consumers import consumer_named
from layout_ir.passes.onnx.order_selection import model_problem
from layout_ir.passes.onnx.reachable_orders import OrderPropagation
from layout_ir.passes.onnx.typed_graphs import reached_orders, typed_graphs

if TYPE_CHECKING:
    from layout_ir.frontends.onnx.model import Source


def check_model(
    certificate: dict[str, Any], source: Source, target: str, shapes: Mapping[str, Sequence[int]]
) -> None:
    """Raises LayoutError where the problem of a model, as it is, is not that of the certificate."""
    from layout_ir.passes.selection.translation.origin import compare_problems

    model, folder = read_model(source)
    consumer = replace(consumer_named(target), transpose_kib=_transpose_kib(certificate))
    if consumer.counts_kernel_moves and not _says(certificate, "kernel_moves", default=True):
        consumer = consumer.without_kernel_moves()
    if consumer.moves_by_element and _says(certificate, "weighs_dims", default=False):
        consumer = replace(consumer, weighs_dims=True)
    graphs = typed_graphs(model, folder, shapes, {}, {}, {})
    problem = model_problem(reached_orders(graphs, OrderPropagation(consumer)), consumer)
    compare_problems(certificate, problem.numbers)


def _transpose_kib(certificate: dict[str, Any]) -> int:
    """What a Transpose counts as in a certificate. Raises LayoutError for what is no such number."""
    origin = certificate.get("origin")
    kib: object = cast("dict[str, Any]", origin).get("transpose_kib", 1) if isinstance(origin, dict) else 1
    if not isinstance(kib, int) or isinstance(kib, bool) or not 0 < kib < 1 << 32:
        raise LayoutError(f"origin: transpose_kib = {kib!r} is no number from 1 to {(1 << 32) - 1}")
    return kib


def _says(certificate: dict[str, Any], what: str, *, default: bool) -> bool:
    """What a certificate says of what counts in it; `default` where it says nothing."""
    origin = certificate.get("origin")
    said: object = cast("dict[str, Any]", origin).get(what) if isinstance(origin, dict) else None
    return said if isinstance(said, bool) else default
