"""Which blocks of a region run before which: the tree of dominators.

A block dominates another where every way from the entry to that one leads through it. The tree is computed as Cooper,
Harvey and Kennedy do ("A Simple, Fast Dominance Algorithm"): each block takes the common ancestor of those that lead to
it, in reverse postorder, until nothing changes. Numbers of a walk over the tree then answer in constant time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xdsl.ir import Block, Region


class Dominators:
    """The dominators of the blocks of one region."""

    def __init__(self, region: Region):
        self._spans = _spans(_parents(_postorder(region)))

    def is_reached(self, block: Block) -> bool:
        """Whether a way leads from the entry to `block`."""
        return block in self._spans

    def dominates(self, first: Block, second: Block) -> bool:
        """Whether `first` dominates `second`, which it does itself, too. Nothing that is reached has a dominator that
        is not."""
        if first not in self._spans:
            return False
        (low, high), (place, _) = self._spans[first], self._spans[second]
        return low <= place < high


def _successors(block: Block) -> Sequence[Block]:
    return block.last_op.successors if block.last_op is not None else ()


def _postorder(region: Region) -> list[Block]:
    """The blocks that are reached, each behind those that it leads to but for ways back."""
    entry = region.first_block
    if entry is None:
        return []
    order: list[Block] = []
    seen = {entry}
    path: list[tuple[Block, Iterator[Block]]] = [(entry, iter(_successors(entry)))]
    while path:
        block, rest = path[-1]
        following = next((each for each in rest if each not in seen), None)
        if following is None:
            order.append(block)
            path.pop()
        else:
            seen.add(following)
            path.append((following, iter(_successors(following))))
    return order


def _parents(postorder: Sequence[Block]) -> dict[Block, Block]:
    """The parent of each block in the tree of dominators, parents first; the entry is its own."""
    if not postorder:
        return {}
    number = {block: place for place, block in enumerate(postorder)}
    before: dict[Block, list[Block]] = {block: [] for block in postorder}
    for block in postorder:
        for following in _successors(block):
            before[following].append(block)
    entry = postorder[-1]
    parents = {entry: entry}

    def common(a: Block, b: Block) -> Block:
        while a is not b:
            while number[a] < number[b]:
                a = parents[a]
            while number[b] < number[a]:
                b = parents[b]
        return a

    changed = True
    while changed:
        changed = False
        for block in reversed(postorder[:-1]):
            known = [each for each in before[block] if each in parents]
            found = known[0]
            for each in known[1:]:
                found = common(found, each)
            if parents.get(block) is not found:
                parents[block] = found
                changed = True
    return parents


def _spans(parents: Mapping[Block, Block]) -> dict[Block, tuple[int, int]]:
    """The number of each block in a walk over the tree, and that behind the last of its descendants."""
    children: dict[Block, list[Block]] = {block: [] for block in parents}
    sizes = dict.fromkeys(parents, 1)
    for block, parent in parents.items():
        if block is not parent:
            children[parent].append(block)
    walk = [block for block, parent in parents.items() if block is parent]
    for block in walk:  # which grows
        walk.extend(children[block])
    for block in reversed(walk):
        if parents[block] is not block:
            sizes[parents[block]] += sizes[block]
    spans: dict[Block, tuple[int, int]] = {}
    for block in walk:
        place = spans[block][0] if block in spans else 0
        spans[block] = place, place + sizes[block]
        place += 1
        for child in children[block]:
            spans[child] = place, place + sizes[child]
            place += sizes[child]
    return spans
