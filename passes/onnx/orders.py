"""Orders of dims: in which order a tensor of an ONNX model has the dims of a value.

ONNX knows dense, row-major tensors only, so a layout of a value is an order of its dims: (0, 2, 3, 1) is a tensor whose
dims are dims 0, 2, 3, 1 of the value, as Transpose with that `perm` makes it.

A dim of one element may lie anywhere without a difference in memory. Extents are numbers, names of extents that the
run time knows, or None for one of which nothing is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

Order = tuple[int, ...]
Extent = int | str | None
Shape = tuple[Extent, ...]


@lru_cache(maxsize=64)
def identity(rank: int) -> Order:
    """The order of the value itself."""
    return tuple(range(rank))


@lru_cache(maxsize=4096)
def is_identity(order: Order) -> bool:
    """Whether the tensor is the value as it is."""
    return order == identity(len(order))


@lru_cache(maxsize=4096)
def inverse(order: Order) -> Order:
    """Per dim of the value, its place in the tensor."""
    places = [0] * len(order)
    for place, dim in enumerate(order):
        places[dim] = place
    return tuple(places)


@lru_cache(maxsize=4096)
def compose(inner: Order, outer: Order) -> Order:
    """The order of x in which y lies in order `outer`, where y is x in order `inner`: y = Transpose(x, inner)."""
    return tuple([inner[dim] for dim in outer])


@lru_cache(maxsize=4096)
def transposition(source: Order, target: Order) -> Order:
    """The `perm` of the Transpose that makes a tensor in order `target` of one in order `source`."""
    places = inverse(source)
    return tuple([places[dim] for dim in target])


@lru_cache(maxsize=4096)
def without_units(order: Order, shape: Shape | None) -> Order:
    """The dims in this order that are not of one element: they tell which element is at which address."""
    return order if shape is None or 1 not in shape else tuple([d for d in order if shape[d] != 1])


def turns_the_first_dim(perm: Sequence[int]) -> bool:
    """Whether all dims but the first keep their order, but for the last, and the first comes behind some of them."""
    rank = len(perm)
    return rank > 2 and [*perm[:-2]] == [*range(1, rank - 1)] and {*perm[-2:]} == {0, rank - 1}


def same_memory(source: Order, target: Order, shape: Shape) -> bool:
    """Whether tensors in both orders hold the same elements at the same addresses: only dims of one element moved."""
    return without_units(source, shape) == without_units(target, shape)


@lru_cache(maxsize=4096)
def is_static(shape: Shape) -> bool:
    """Whether all extents are numbers."""
    return all(isinstance(extent, int) for extent in shape)


def is_same_shape(one: Shape | None, other: Shape | None) -> bool:
    """Whether two shapes are known to be the same: extents have the same numbers, or the same names."""
    return one is not None and one == other and None not in one


# Reshapes ---------------------------------------------------------------------------------------------------------

Group = tuple[range, range]


@lru_cache(maxsize=4096)
def reshape_groups(source: Shape, target: Shape) -> tuple[Group, ...]:
    """The dims of both sides of a reshape, cut into as many groups as have the same product of extents.

    Extents that have no number count as equal where they have the same name. The last group takes the rest of both
    sides, whatever is in it: of a reshape, all elements are the same.
    """
    head, i, j = _matched(source, target)
    tail, up, vp = _matched(source[i:][::-1], target[j:][::-1])
    m, n = len(source) - up, len(target) - vp
    middle: list[Group] = [(range(i, m), range(j, n))] if i < m or j < n else []
    mirrored = [
        (
            range(len(source) - a.stop, len(source) - a.start),
            range(len(target) - b.stop, len(target) - b.start),
        )
        for a, b in reversed(tail)
    ]
    return (*head, *middle, *mirrored)


def _matched(source: Shape, target: Shape) -> tuple[list[Group], int, int]:
    """Groups from the front on, as far as products are seen to be equal, and how many dims they take."""
    groups: list[Group] = []
    i = j = 0
    while True:
        match = _first_group(source[i:], target[j:])
        if match is None:
            return groups, i, j
        groups.append((range(i, i + match[0]), range(j, j + match[1])))
        i, j = i + match[0], j + match[1]


def _first_group(source: Shape, target: Shape) -> tuple[int, int] | None:
    """How many dims of either side the shortest group at the front takes; None where there is none."""
    if not source or not target:
        # What is left of one side are dims of one element, or there is nothing.
        if source and source[0] == 1:
            return 1, 0
        return (0, 1) if target and target[0] == 1 else None
    if source[0] == target[0] and source[0] is not None:
        return 1, 1
    if source[0] == 1 or target[0] == 1:
        return (1, 0) if source[0] == 1 else (0, 1)
    taken = [0, 0]
    numbers = [1, 1]
    names: list[tuple[str, ...]] = [(), ()]
    shapes = (source, target)
    while not (all(taken) and numbers[0] == numbers[1] and names[0] == names[1]):
        # The side that is behind takes a dim: by its number, or else by how many extents without one it has.
        behind = 0 if (numbers[0], len(names[0])) <= (numbers[1], len(names[1])) else 1
        if taken[behind] == len(shapes[behind]):
            behind = 1 - behind
        if taken[behind] == len(shapes[behind]):
            return None
        extent = shapes[behind][taken[behind]]
        taken[behind] += 1
        if extent is None:
            return None
        if isinstance(extent, int):
            numbers[behind] *= extent
        else:
            names[behind] = tuple(sorted((*names[behind], extent)))
    return taken[0], taken[1]


@lru_cache(maxsize=4096)
def reshaped_order(source: Shape, target: Shape, order: Order) -> Order | None:
    """The order in which the reshaped value lies in the same memory, where the value lies in `order`.

    None where there is none: dims that are joined do not lie side by side.
    """
    groups = reshape_groups(source, target)
    group_of = {d: k for k, (dims, _) in enumerate(groups) for d in dims if source[d] != 1}
    result: list[int] = []
    last_dim: dict[int, int] = {}
    last = -1
    for dim in order:
        if dim not in group_of:
            continue
        k = group_of[dim]
        if k in last_dim:
            if k != last or dim < last_dim[k]:
                return None
        else:
            result += groups[k][1]
        last_dim[k], last = dim, k
    # Groups without elements of their own: their dims, of one element each, stay behind the dim that they follow.
    for k, (_, dims) in enumerate(groups):
        if k not in last_dim:
            for dim in dims:
                result.insert(result.index(dim - 1) + 1 if dim - 1 in result else 0, dim)
    return tuple(result)


@lru_cache(maxsize=4096)
def without(order: Order, dims: tuple[int, ...]) -> Order:
    """The order of a value that lost `dims`, of one element each."""
    gone = set(dims)
    kept = [d for d in range(len(order)) if d not in gone]
    return tuple(kept.index(d) for d in order if d not in gone)


@lru_cache(maxsize=4096)
def with_dims(order: Order, dims: tuple[int, ...]) -> tuple[Order, ...]:
    """The orders of a value that got `dims`: each behind the dim that it follows, and all together at any place."""
    rank = len(order) + len(dims)
    added = sorted(dims)
    kept = [d for d in range(rank) if d not in set(added)]
    base = [kept[d] for d in order]
    apart = list(base)
    for dim in added:
        apart.insert(apart.index(dim - 1) + 1 if dim else 0, dim)
    found = [tuple(apart), *((*base[:k], *added, *base[k:]) for k in range(len(base) + 1))]
    return tuple(dict.fromkeys(found))
