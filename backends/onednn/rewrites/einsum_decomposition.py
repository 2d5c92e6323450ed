"""Einsum as transpositions and products of matrices.

    bhid,bhjd->bhij        matmul(first, second with j and d exchanged), in batches of b and h

Dims are those that both operands and the result have (a batch), that both have and the result has not (summed), and
that one has (rows, columns); each kind becomes one dim. Dims that "..." stands for get names. A term that names a dim
twice stays opaque, and so does an equation that does not say its result.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import prod
from string import ascii_letters

from xdsl.ir import SSAValue

from layout_ir.backends.onednn.rewrites.opaque_node import OpaqueNode, Unsupported
from layout_ir.dialects import nn
from layout_ir.dialects.layout import PermuteOp, ReshapeOp
from layout_ir.dialects.nn.tensor_types import shape_of

_MOST_TERMS = 32
"""Tensors of an Einsum at most, as many as NumPy's own takes in all of its releases: all pairs are looked at, again for
each product."""


def product_of_terms(node: OpaqueNode) -> SSAValue:
    """The result of an Einsum node, by products of two tensors each, that of the fewest elements next."""
    left, arrow, out = str(node.attribute("equation")).replace(" ", "").partition("->")
    terms: list[str] = left.split(",")
    if not arrow or len(terms) != len(node.inputs) or len(terms) > _MOST_TERMS:
        raise Unsupported
    sides = [node.input(number) for number in range(len(terms))]
    terms, out = _without_ellipses(terms, out, [len(shape_of(side)) for side in sides])
    if any(len(set(term)) != len(term) for term in (*terms, out)) or not set(out) <= set("".join(terms)):
        raise Unsupported
    if [len(term) for term in terms] != [len(shape_of(side)) for side in sides]:
        raise Unsupported
    extents: dict[str, int] = {}
    for term, side in zip(terms, sides, strict=True):
        extents.update(
            (name, extent) for name, extent in zip(term, shape_of(side), strict=True) if extent != 1
        )
    for number, (term, side) in enumerate(zip(terms, sides, strict=True)):
        # Along an extent of 1 beside a longer one an operand is the same: it lacks that dim.
        kept = [d for d, name in enumerate(term) if shape_of(side)[d] != 1 or name not in extents]
        if len(kept) < len(term):
            terms[number] = "".join(term[d] for d in kept)
            sides[number] = node.insert(ReshapeOp(side, [shape_of(side)[d] for d in kept]))
    extents = {name: extents.get(name, 1) for name in "".join(terms)}
    while len(terms) > 2:
        products = {pair: _kept(terms, pair, out) for pair in combinations(range(len(terms)), 2)}
        (first, second), kept = min(
            products.items(), key=lambda item: prod(extents[name] for name in item[1])
        )
        product = _product(node, [sides[first], sides[second]], [terms[first], terms[second]], kept)
        rest = [k for k in range(len(terms)) if k not in (first, second)]
        sides = [product, *(sides[k] for k in rest)]
        terms = [kept, *(terms[k] for k in rest)]
    return _product(node, sides, terms, out)


def _without_ellipses(terms: Sequence[str], out: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The terms, and that of the result, with names for the dims that "..." stands for, equally many in all of them."""
    counts = {rank - len(term) + 3 for term, rank in zip(terms, ranks, strict=True) if "..." in term}
    if not counts:
        return [*terms], out
    names = [name for name in ascii_letters if not any(name in term for term in terms)]
    count = counts.pop()
    if counts or not 0 <= count <= len(names) or "..." not in out:
        raise Unsupported
    *named, result = (term.replace("...", "".join(names[:count]), 1) for term in (*terms, out))
    return named, result


def _kept(terms: Sequence[str], pair: tuple[int, int], out: str) -> str:
    """The dims of the product of two terms that other terms or the result have."""
    others = set(out).union(*(term for k, term in enumerate(terms) if k not in pair))
    return "".join(name for name in dict.fromkeys(terms[pair[0]] + terms[pair[1]]) if name in others)


def _product(node: OpaqueNode, sides: list[SSAValue], terms: list[str], out: str) -> SSAValue:
    """A product of matrices, in batches of the dims that both operands and the result have."""
    for number, term in enumerate(terms):
        # What one operand alone has, and the result has not, is summed first.
        others = {name for other in terms if other is not term for name in other} | set(out)
        axes = tuple(d for d, name in enumerate(term) if name not in others)
        if axes:
            sides[number] = node.apply(nn.ReduceSumOp, sides[number], axes=axes, keepdims=False)
        terms[number] = "".join(name for name in term if name in others)
    if len(terms) == 1:
        return _ordered(node, sides[0], terms[0], out)
    first, second = terms
    given = [dict(zip(term, shape_of(side), strict=True)) for term, side in zip(terms, sides, strict=True)]
    extents = given[0] | given[1]
    if any(side[name] != extents[name] for side in given for name in side):
        raise Unsupported  # an extent of 1 is broadcast
    both = [name for name in first if name in second]
    batch = "".join(name for name in both if name in out)
    summed = "".join(name for name in both if name not in out)
    rows = "".join(name for name in first if name not in second)
    columns = "".join(name for name in second if name not in first)

    def size(names: str) -> int:
        return prod(extents[name] for name in names)

    a = _ordered(node, sides[0], first, batch + rows + summed)
    b = _ordered(node, sides[1], second, batch + summed + columns)
    lead = tuple(extents[name] for name in batch)
    a = node.insert(ReshapeOp(a, (*lead, size(rows), size(summed))))
    b = node.insert(ReshapeOp(b, (*lead, size(summed), size(columns))))
    product = node.apply(nn.MatmulOp, a, b)
    names = batch + rows + columns
    return _ordered(node, node.insert(ReshapeOp(product, [extents[name] for name in names])), names, out)


def _ordered(node: OpaqueNode, value: SSAValue, names: str, wanted: str) -> SSAValue:
    """`value`, whose dims have these names, with its dims in another order."""
    return value if names == wanted else node.insert(PermuteOp(value, [names.index(name) for name in wanted]))
