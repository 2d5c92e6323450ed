"""oneDNN as a target: the formats that the installed library answers to `any`, per convolution.

Where the library cannot be asked (not installed, no CPU engine, an element type it has no kernel for), its kernels for
AVX2 are taken from `onednn_kernels`; `missing` says so.

What it is asked: everything `any`; input and output in nchw, in nhwc, in blocks of 8 and of 16. Rates go by
the implementation that answers: those of `onednn_kernels` for AVX2, and 1 for the reference (measured at 0.05 to 0.1
operations per ns, and rates are whole numbers). What rates do not
say, and they do not say much, is in the price model that comes with the package for the instructions of the kernels,
which are the costs of this target (`LibraryCosts`), and of the targets `avx2` and `avx512`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from xdsl.ir import Operation

from layout_ir.algebra.layout import Layout
from layout_ir.interfaces import LayoutOption
from layout_ir.passes.selection.costs.cost_model import CostModel
from layout_ir.passes.selection.costs.cost_table import shipped_costs
from layout_ir.passes.selection.options import onednn_kernels, onednn_query
from layout_ir.passes.selection.options.conv_kernels import (
    ConvKernel,
    ConvShape,
    activation,
    grouped_rate,
    weight,
)

FLOATS = ("f32", "bf16", "f16")


def missing() -> str | None:
    """Why the library is not asked; None where it is."""
    reason = onednn_query.unavailable()
    return None if reason is None else f"oneDNN cannot be asked ({reason}): its rules for AVX2 are used"


def conv_kernels(conv: ConvShape) -> Iterator[ConvKernel]:
    """The kernels that the installed library answers, or those of the rule where it has none or cannot be asked."""
    answers = _asked(conv) if conv.dtype in FLOATS and onednn_query.unavailable() is None else ()
    yield from answers or onednn_kernels.kernels(conv, 8)


@lru_cache(maxsize=4096)
def _asked(conv: ConvShape) -> tuple[ConvKernel, ...]:
    """The library's kernels; empty where it has none for this convolution."""
    rank = conv.spatial_rank
    row_major = activation(rank, "ncS")
    wanted = [None, row_major, activation(rank, "nSc")]
    wanted += [activation(rank, "ncS", ("c", block)) for block in (8, 16) if conv.channels % block == 0]
    found: list[ConvKernel] = []
    for fmt in wanted:
        answer = onednn_query.ask(conv, fmt, fmt)
        if answer is not None:
            # Weights without a name stay as they are until the network is compiled, where the library packs them.
            w = weight(rank, "oiS") if answer.w is None else answer.w
            kernel = ConvKernel(answer.x, w, answer.y, _rate(answer, conv))
            found = [
                kernel,
                *(k for k in found if (k.x, k.y) != (kernel.x, kernel.y) or k.rate > kernel.rate),
            ]
    return tuple(reversed(found))


def _rate(answer: onednn_query.Answer, conv: ConvShape) -> int:
    if "ref" in answer.implementation:
        return 1
    if "gemm" in answer.implementation and "brg" not in answer.implementation:
        rate = onednn_kernels.PRODUCT
        return grouped_rate(rate, conv.inputs_per_group, conv.outputs_per_group) if conv.group > 1 else rate
    last = activation(conv.spatial_rank, "nSc")
    rate = onednn_kernels.LAST if answer.x == answer.y == last else onednn_kernels.BLOCKED
    if conv.is_depthwise:
        return rate // 2
    return grouped_rate(rate, conv.inputs_per_group, conv.outputs_per_group) if conv.group > 1 else rate


class LibraryCosts(CostModel):
    """The costs of the library's kernels: by the shipped price model of the instructions that they use here, or of the
    given ones, avx2 or avx512.

    It is read when the first cost is asked for, and brings NumPy.
    """

    tells_constants = True
    tells_offsets = False

    def __init__(self, extension: str | None = None):
        super().__init__()
        self.extension = extension

    def _prices(self) -> CostModel:
        return shipped_prices(self.extension or onednn_query.vector_extension())

    def for_op(self, op: Operation, option: LayoutOption, shapes: Sequence[tuple[int, ...]]) -> int:
        """The price of running `op` as `option`, in nanoseconds."""
        return self._prices().for_op(op, option, shapes)

    def reorder(self, source: Layout, destination: Layout, dtype: str) -> int:
        """The price of a reorder, in nanoseconds; 0 where a cast does it."""
        return self._prices().reorder(source, destination, dtype)

    def fill(self, layout: Layout, dtype: str) -> int:
        """The price of writing the pads of a tensor."""
        return self._prices().fill(layout, dtype)


@lru_cache(maxsize=2)
def shipped_prices(extension: str) -> CostModel:
    """The costs by the shipped price model for avx2 or avx512."""
    return shipped_costs(f"onednn-{extension}")
