"""Random instances of every nn op, and what each gives, according to PyTorch in double precision.

numbers.py      numbers as PyTorch has them, and as buffers store them
cases.py        a case, and what cases are drawn from
elementwise.py, indexing.py, normalization.py, products.py, reduction.py, shape.py, windows.py
                the ops, each with its table

A case holds logical values only; how they lie is the affair of the tests. Values are rounded to the element type by
PyTorch, so that the oracle starts from the very numbers that the buffers hold.
"""

from __future__ import annotations

from random import Random

from layout_ir.dialects import nn
from tests.backends.reference.catalog import (
    elementwise,
    indexing,
    normalization,
    products,
    reduction,
    shape,
    windows,
)
from tests.backends.reference.catalog.cases import Case, Maker

MAKERS: dict[type[nn.NNOp], Maker] = {
    **elementwise.MAKERS,
    **indexing.MAKERS,
    **windows.MAKERS,
    **products.MAKERS,
    **normalization.MAKERS,
    **reduction.MAKERS,
    **shape.MAKERS,
}


def case(rng: Random, op: type[nn.NNOp], dtype: str = "f32") -> Case:
    """A random instance of `op` on elements of `dtype`."""
    return MAKERS[op](rng, op, dtype)
