"""The primitives for an op, the one that is expected to be fastest first.

The library takes the first for which it has an implementation that is not its reference. Constant operands have no
layout here: they are packed into what the implementation asks for. What is left without a candidate is computed by a
compiled loop, or runs by the NumPy reference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.ir import Operation

from layout_ir.backends.onednn.library import Refused
from layout_ir.backends.onednn.op_primitives import (
    convolutions,
    elementwise_functions,
    matrix_products,
    normalizations,
    pools,
    resizes,
)
from layout_ir.backends.onednn.op_primitives.primitive_operands import (
    FLOATS,
    Candidates,
    Operand,
    OpPrimitive,
    Values,
)
from layout_ir.backends.onednn.primitives import (
    Argument,
    Request,
)
from layout_ir.dialects import nn
from layout_ir.dialects.layout import dtype_of

Builder = Callable[[Any, Values], Candidates]


def candidates(op: Operation, values: Values) -> Candidates:
    """The primitives to ask for, best first; none for an op that the library lacks, or other elements than floats.

    Raises Refused from one that the library cannot say: there may be others behind it.
    """
    builders = builders_of(op)
    tensors = (*op.operands, *op.results)
    types = {dtype_of(value.type) for value in tensors}
    wanted = (*FLOATS, "i8", "ui8") if isinstance(op, nn.MaxPoolOp) else FLOATS
    if not builders or len(types) > 1 or not types <= set(wanted):
        return
    if any(not values.layout(value).nelems for value in tensors):
        return
    for build in builders:
        try:
            yield from build(op, values)
        except Refused:
            continue


def builders_of(op: Operation) -> tuple[Builder, ...]:
    """What gives primitives for ops like `op`, the builder of the best first."""
    return _BUILDERS.get(type(op), ())


def _concat(op: nn.ConcatOp, values: Values) -> Candidates:
    axis = op.axis
    if any(axis in values.layout(value).padded_dims() for value in op.operands):
        return
    y = values.descriptor(op.result, writes=True)
    given = [values.operand(value) for value in op.operands]
    sources = tuple(descriptor for _, descriptor in given)
    request = Request("concat", (y, len(given), axis, sources))
    operands: dict[int, Operand] = {
        Argument.MULTIPLE_SRC + k: operand for k, (operand, _) in enumerate(given)
    }
    yield OpPrimitive(request, operands, y, values.layout(op.result).shape)


_BUILDERS: dict[type[Operation], tuple[Builder, ...]] = {
    nn.ConvOp: (convolutions.convolution,),
    nn.ConvTransposeOp: (convolutions.disjoint_deconvolution, convolutions.deconvolution),
    nn.MatmulOp: (matrix_products.matmul,),
    nn.GemmOp: (matrix_products.gemm, matrix_products.transposed_gemm),
    nn.MaxPoolOp: (pools.pool,),
    nn.AvgPoolOp: (pools.pool,),
    nn.GlobalAvgPoolOp: (pools.global_pool,),
    nn.GlobalMaxPoolOp: (pools.global_pool,),
    nn.ResizeOp: (resizes.resampling,),
    nn.SoftmaxOp: (normalizations.softmax,),
    nn.LogSoftmaxOp: (normalizations.softmax,),
    nn.LayerNormOp: (normalizations.layer_norm,),
    nn.BatchNormOp: (normalizations.batch_norm,),
    nn.LrnOp: (normalizations.lrn,),
    nn.ConcatOp: (_concat,),
    **dict.fromkeys(pools.REDUCTIONS, (pools.reduction_as_pool, pools.reduction)),
    **dict.fromkeys(elementwise_functions.FUNCTIONS, (elementwise_functions.eltwise,)),
    **dict.fromkeys(
        elementwise_functions.BINARY,
        (elementwise_functions.eltwise, elementwise_functions.binary_alike, elementwise_functions.binary),
    ),
    nn.PowOp: (elementwise_functions.eltwise,),
    nn.PReluOp: (elementwise_functions.eltwise, elementwise_functions.prelu),
}
