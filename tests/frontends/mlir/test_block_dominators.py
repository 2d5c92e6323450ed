"""Dominators of blocks, beside their definition: what is reached no longer where a block is taken away."""

from __future__ import annotations

from random import Random

import pytest
from xdsl.dialects import test
from xdsl.ir import Block, Region

from layout_ir.frontends.mlir.block_dominators import Dominators


def graph(ways: list[list[int]]) -> Region:
    """A region of one block per list, which ends by leading to the blocks of these numbers."""
    blocks = [Block() for _ in ways]
    for block, following in zip(blocks, ways, strict=True):
        block.add_op(test.TestTermOp(successors=[blocks[k] for k in following]))
    return Region(blocks)


def reached(ways: list[list[int]], without: int | None = None) -> set[int]:
    """The blocks that a way from block 0 leads to, past no block `without`."""
    found, rest = set[int](), [0]
    while rest:
        block = rest.pop()
        if block != without and block not in found:
            found.add(block)
            rest += ways[block]
    return found


@pytest.mark.parametrize("seed", range(40))
def test_a_block_dominates_what_is_not_reached_without_it(seed: int):
    random = Random(seed)
    count = random.randint(1, 9)
    # No way leads back to the entry of a region.
    ways = [
        [random.randrange(1, count) for _ in range(random.randint(0, 3))] if count > 1 else []
        for _ in range(count)
    ]
    region = graph(ways)
    blocks = list(region.blocks)
    dominators = Dominators(region)
    all_reached = reached(ways)
    assert [dominators.is_reached(block) for block in blocks] == [k in all_reached for k in range(count)]
    for first in range(count):
        dominated = all_reached - reached(ways, first)
        for second in all_reached:
            assert dominators.dominates(blocks[first], blocks[second]) == (second in dominated)


def test_a_long_chain_needs_no_recursion():
    count = 5000
    region = graph([[k + 1] if k + 1 < count else [] for k in range(count)])
    dominators = Dominators(region)
    first, last = region.blocks.first, region.blocks.last
    assert first is not None and last is not None
    assert dominators.dominates(first, last) and not dominators.dominates(last, first)
