"""In which orders the tensors of a matrix product can lie, beside each other.

The dims of a tensor in memory are labels: numbers of dims of the result, and one more for the dim that is summed over.
A product without flags is x[b, m, k] w[b, k, n] with all b in any order, or w[b, n, k] x[b, k, m]: its operands swapped
and all three transposed. With the flags of ONNX Runtime's FusedMatMul each operand may be there transposed, or with its
rows in front of the stack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

from layout_ir.passes.onnx.model_graph import Node
from layout_ir.passes.onnx.node_models.node_option import (
    Candidates,
    NodeOption,
)
from layout_ir.passes.onnx.orders import Order, identity

Labels = tuple[int, ...]
"""The dims of a tensor in memory as numbers of dims of the product: those of the result, then the one summed over."""

Products = Callable[[int, Labels, int, int, int], Iterator[tuple[Labels, Labels, Labels]]]
"""The products in which tensor number k (x, w or y) has these labels, given the ranks of x, w and y."""


def dim_labels(x: int, w: int, rank: int, k: int) -> tuple[Labels, Labels, Labels]:
    """The labels of the dims of x, w and y: numbers of dims of y, and `k`."""
    rows, columns = rank - 2, rank - 1
    return (
        (*range(rank - x, rank - 2), rows, k),
        (*range(rank - w, rank - 2), k, columns),
        identity(rank),
    )


def found_options(
    node: Node, ins: Candidates, outs: Candidates, products: Products, right: int = 1
) -> Iterator[tuple[tuple[Labels, Labels, Labels], NodeOption]]:
    """The products that some order of x, w or y leads to, each with the labels of all three in memory.

    `right` is the number of the input w.
    """
    shapes = node.shape(0), node.shape(right), node.result_shape()
    if None in shapes:
        return
    x, w, rank = (len(shape or ()) for shape in shapes)
    if min(x, w) < 2:
        return
    plain_ins, plain_outs = node.plain_orders
    tensors = tuple(ins[0]), tuple(ins[right]), tuple(outs[0])
    between, behind = plain_ins[1:right], plain_ins[right + 1 :]
    for labels, (mine, other, result) in _all_led_to(products, tensors, x, w, rank):
        yield labels, NodeOption((mine, *between, other, *behind), (result, *plain_outs[1:]))


_Found = tuple[tuple[Labels, Labels, Labels], tuple[Order, Order, Order]]
"""A product by the labels in memory of x, w and y, and the orders of these."""


@lru_cache(maxsize=1024)
def _all_led_to(
    products: Products, tensors: tuple[tuple[Order, ...], ...], x: int, w: int, rank: int
) -> tuple[_Found, ...]:
    """The products in which x, w or y lies in one of these orders."""
    found: dict[tuple[Labels, Labels, Labels], tuple[Order, Order, Order]] = {}
    for number, orders in enumerate(tensors):
        for order in orders:
            found.update(_led_to(products, number, order, x, w, rank))
    return tuple(found.items())


@lru_cache(maxsize=4096)
def _led_to(products: Products, number: int, order: Order, x: int, w: int, rank: int) -> tuple[_Found, ...]:
    """The products in which tensor `number` lies in `order`, by the labels in memory, and the orders of all three."""
    tables = dim_labels(x, w, rank, rank)
    given = tuple([tables[number][d] for d in order])

    def order_of(table: Labels, labels: Labels) -> Order:
        return tuple([table.index(label) for label in labels])

    return tuple(
        (
            labels,
            (order_of(tables[0], labels[0]), order_of(tables[1], labels[1]), order_of(tables[2], labels[2])),
        )
        for labels in products(number, given, x, w, rank)
    )


def has_swapped(node: Node, option: NodeOption, right: int = 1) -> bool:
    """Whether x is the right operand in an option of a product without flags; `right` is the number of the input w."""
    x, w, y = node.shape(0) or (), node.shape(right) or (), node.result_shape() or ()
    table, *_ = dim_labels(len(x), len(w), len(y), len(y))
    return is_swapped(tuple([table[d] for d in option.ins[0]]), len(y))


def is_swapped(x: Labels, k: int) -> bool:
    """Whether x, in memory, is the right operand: the dim summed over is not its last."""
    return x[-1:] != (k,)


def plain_products(
    number: int, given: Labels, x: int, w: int, rank: int
) -> Iterator[tuple[Labels, Labels, Labels]]:
    """The labels of x, w, y in memory, for each way to compute the product in which tensor `number` is `given`."""
    m, n, k = rank - 2, rank - 1, rank
    lead = identity(rank)[:-2]
    if w == 2:
        yield from _one_matrix(number, given, (*lead, m), n, k)
        return
    if x == 2:
        places = {0: 1, 1: 0, 2: 2}
        for right, left, result in _one_matrix(places[number], given, (*lead, n), m, k):
            yield left, right, result
        return
    plain = ((m, k), (k, n), (m, n))[number]
    if set(given[-2:]) != set(plain):
        return
    swapped = given[-2:] != plain
    lead = given[:-2]
    if number != 2 and len(given) < rank:
        lead = (*range(rank - len(given)), *lead)
    yield from _stacked(lead, x, w, rank, swapped=swapped)


def _one_matrix(
    number: int, given: Labels, free: Labels, c: int, k: int
) -> Iterator[tuple[Labels, Labels, Labels]]:
    """The labels of a stack, of one matrix for all of it, and of the result, where tensor `number` is `given`.

    The stack has the dims `free`, in any order, and `k`; the matrix `k` and `c`; the result `free` and `c`. Either `k`
    is the last dim of the stack, or the last but one; with that, `c` has the same place in the result.
    """
    if number == 1:
        if given == (k, c):
            yield (*free, k), given, (*free, c)
        else:
            yield (*free[:-1], k, free[-1]), given, (*free[:-1], c, free[-1])
        return
    mine, other = (k, c) if number == 0 else (c, k)
    if mine not in given[-2:]:
        return
    is_last = given[-1] == mine
    matrix = (k, c) if is_last else (c, k)
    moved = tuple(other if d == mine else d for d in given)
    yield (given, matrix, moved) if number == 0 else (moved, matrix, given)


def _stacked(
    lead: Labels, x: int, w: int, rank: int, *, swapped: bool
) -> Iterator[tuple[Labels, Labels, Labels]]:
    """The product of stacks whose dims lie as `lead` says; an operand of fewer dims has the last of them."""
    m, n, k = rank - 2, rank - 1, rank
    stacks: list[Labels] = []
    for own in (x, w):
        mine = tuple(d for d in lead if d >= rank - own)
        if lead[len(lead) - len(mine) :] != mine:
            return  # it would need dims of one element in between
        stacks.append(mine)
    if swapped:
        yield (*stacks[0], k, m), (*stacks[1], n, k), (*lead, n, m)
    else:
        yield (*stacks[0], m, k), (*stacks[1], k, n), (*lead, m, n)


def is_turned_left(x: Labels, w: Labels, y: Labels) -> bool:
    """Whether x alone is there with rows and columns transposed, and w is the right operand as it is."""
    return w[-1] == y[-1] and x[-1] == y[-2] and (len(x) == 2 or x[-2] == w[-2])


def fused_products(
    number: int, given: Labels, x: int, w: int, rank: int
) -> Iterator[tuple[Labels, Labels, Labels]]:
    """The labels of x, w, y in memory for each product with flags in which tensor `number` is `given`."""
    m, n, k = rank - 2, rank - 1, rank
    r, c = m, n
    if w == 2:
        if number == 1:
            lead, r = identity(rank)[:-2], m
        else:
            inner = k if number == 0 else n
            if inner not in given[-2:]:
                return
            lead, r = given[:-2], next(d for d in given[-2:] if d != inner)
        stacks = lead, ()
    elif x == 2:
        if number == 0:
            lead, c = identity(rank)[:-2], n
        else:
            inner = k if number == 1 else m
            if inner not in given[-2:]:
                return
            lead, c = given[:-2], next(d for d in given[-2:] if d != inner)
        stacks = (), lead
    else:
        ends = ({m, k}, {k, n}, {m, n})[number]
        if set(given[-2:]) == ends:
            lead = given[:-2]
        elif number < 2 and {given[0], given[-1]} == ends:
            lead = given[1:-1]
        else:
            return
        if number < 2 and len(given) < rank:
            lead = (*range(rank - len(given)), *lead)
        stacks = tuple(tuple(d for d in lead if d >= rank - own) for own in (x, w))
        if any(lead[len(lead) - len(mine) :] != mine for mine in stacks):
            return
    # The kernel takes rows in front of the stack for operands of one rank only.
    lefts, rights = _turns(stacks[0], r, k, x == w), _turns(stacks[1], k, c, x == w)
    for left in lefts if number != 0 else [given]:
        for right in rights if number != 1 else [given]:
            for result in ((*lead, r, c), (*lead, c, r)) if number != 2 else (given,):
                if left in lefts and right in rights:
                    yield left, right, result


def _turns(stack: Labels, rows: int, columns: int, rows_first: bool) -> list[Labels]:
    """The ways in which an operand may lie in memory; `rows_first` is whether its rows may be in front of the stack."""
    found = [(*stack, rows, columns), (*stack, columns, rows)]
    if stack and rows_first:
        found += [(rows, *stack, columns), (columns, *stack, rows)]
    return found
