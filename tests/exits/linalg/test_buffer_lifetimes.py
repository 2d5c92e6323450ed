"""A buffer is freed once on every way through a region, behind its last use; what may run again is known."""

from __future__ import annotations

import random
from typing import Any

import pytest
from xdsl.dialects import cf, memref, test
from xdsl.dialects.builtin import ModuleOp, f32, i1
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region

import layout_ir as li
from layout_ir.exits.linalg.buffer_lifetimes import free, may_run_again, walk_by_dominance
from layout_ir.printing import print_module
from tests.programs import parse


def _buffer(module: ModuleOp) -> Any:
    return next(op.results[0] for op in module.walk() if isinstance(op, memref.AllocOp))


def _ops(module: ModuleOp, name: str) -> list[Operation]:
    return [op for op in module.walk() if op.name == name]


def _blocks_that_free(module: ModuleOp) -> list[int]:
    (function,) = module.body.block.ops
    assert isinstance(function, FuncOp)
    return [
        number
        for number, block in enumerate(function.body.blocks)
        for op in block.ops
        if isinstance(op, memref.DeallocOp)
    ]


# Freeing ------------------------------------------------------------------------------------------------------------


def test_a_buffer_of_one_block_is_freed_at_its_end():
    module = parse(
        """
        func.func @main(%i : index) -> f32 {
          %b = memref.alloc() : memref<4xf32>
          %e = memref.load %b[%i] : memref<4xf32>
          func.return %e : f32
        }
        """
    )
    free(_buffer(module))
    module.verify()
    (block,) = [op.parent for op in _ops(module, "memref.dealloc")]
    assert block is not None and [op.name for op in block.ops][-2:] == ["memref.dealloc", "func.return"]


def test_a_use_of_a_view_in_another_block_keeps_the_buffer():
    module = parse(
        """
        func.func @main(%i : index) -> f32 {
          %b = memref.alloc() : memref<4xf32>
          %v = memref.expand_shape %b [[0, 1]] output_shape [2, 2] : memref<4xf32> into memref<2x2xf32>
          cf.br ^next
        ^next:
          %e = memref.load %v[%i, %i] : memref<2x2xf32>
          func.return %e : f32
        }
        """
    )
    free(_buffer(module))
    module.verify()
    assert _blocks_that_free(module) == [1]


def test_what_a_loop_of_blocks_reads_is_freed_behind_the_loop():
    module = parse(
        """
        func.func @main(%p : i1, %i : index) {
          %b = memref.alloc() : memref<4xf32>
          cf.br ^head
        ^head:
          cf.cond_br %p, ^body, ^exit
        ^body:
          %e = memref.load %b[%i] : memref<4xf32>
          cf.br ^head
        ^exit:
          func.return
        }
        """
    )
    free(_buffer(module))
    module.verify()
    assert _blocks_that_free(module) == [3]


def test_an_edge_to_a_block_that_others_reach_too_gets_a_block_that_frees():
    """`^exit` is reached from `^use`, which has freed the buffer, and from where it was made."""
    module = parse(
        """
        func.func @main(%p : i1, %i : index, %x : f32) -> f32 {
          %b = memref.alloc() : memref<4xf32>
          cf.cond_br %p, ^use, ^exit(%x : f32)
        ^use:
          %e = memref.load %b[%i] : memref<4xf32>
          cf.br ^exit(%e : f32)
        ^exit(%r : f32):
          func.return %r : f32
        }
        """
    )
    free(_buffer(module))
    module.verify()
    assert _blocks_that_free(module) == [1, 2]
    made = _ops(module, "memref.dealloc")[0].parent
    assert (
        made is not None
        and isinstance(made.last_op, cf.BranchOp)
        and list(made.last_op.operands) == [*made.args]
    )


def test_negative_a_use_in_a_region_of_the_same_block_makes_no_blocks():
    module = parse(
        """
        func.func @main(%p : i1, %i : index) {
          %b = memref.alloc() : memref<4xf32>
          scf.if %p {
            %e = memref.load %b[%i] : memref<4xf32>
          }
          func.return
        }
        """
    )
    free(_buffer(module))
    module.verify()
    assert _blocks_that_free(module) == [0]


# Random control flow ------------------------------------------------------------------------------------------------


def _random_function(rng: random.Random) -> tuple[FuncOp, list[Block]]:
    """A function of a few blocks that branch anywhere but to the entry."""
    blocks = [Block(arg_types=[i1])] + [Block() for _ in range(rng.randint(1, 6))]
    condition = blocks[0].args[0]
    for block in blocks:
        first, second = rng.choices(blocks[1:], k=2)
        ends = [
            ReturnOp(),
            cf.BranchOp(first),
            cf.ConditionalBranchOp(condition, first, [], second, []),
            cf.ConditionalBranchOp(condition, first, [], second, []),
        ]
        block.add_op(rng.choice(ends))
    return FuncOp("main", ([i1], []), Region(blocks)), blocks


def _reached(blocks: list[Block], without: Block | None = None) -> set[Block]:
    """The blocks to which a way leads from the entry that does not go through `without`."""
    seen: set[Block] = set()
    pending = [blocks[0]]
    while pending:
        block = pending.pop()
        if block is not without and block not in seen:
            seen.add(block)
            assert block.last_op is not None
            pending += block.last_op.successors
    return seen


def _with_uses(rng: random.Random) -> tuple[FuncOp, Block, list[Block]]:
    """A function with a buffer, the block that makes it, and those that use it."""
    function, blocks = _random_function(rng)
    reached = _reached(blocks)
    made = rng.choice([block for block in blocks if block in reached])
    dominated = [block for block in blocks if block in reached - _reached(blocks, made) and block is not made]
    users = [block for block in dominated if rng.random() < 0.4]
    alloc = memref.AllocOp.get(f32, None, [4])
    for block in users:
        block.insert_op_before(test.TestOp([alloc.memref]), block.ops.first)  # pyright: ignore
    made.insert_op_before(test.TestOp([alloc.memref]), made.ops.first)  # pyright: ignore
    made.insert_op_before(alloc, made.ops.first)  # pyright: ignore
    return function, made, users


def _violations(entry: Block) -> list[str]:
    """What goes wrong with the buffer on some way from the entry: every state that a way can come to is looked at."""
    found: list[str] = []
    seen: set[tuple[Block, bool]] = set()
    pending = [(entry, False)]
    while pending:
        block, is_held = pending.pop()
        if (block, is_held) in seen:
            continue
        seen.add((block, is_held))
        for op in block.ops:
            match op:
                case memref.AllocOp():
                    found += ["made again while it is held"] if is_held else []
                    is_held = True
                case memref.DeallocOp():
                    found += [] if is_held else ["freed twice"]
                    is_held = False
                case test.TestOp():
                    found += [] if is_held else ["used after it was freed"]
                case ReturnOp():
                    found += ["never freed"] if is_held else []
                case _:
                    pass
        assert block.last_op is not None
        pending += [(successor, is_held) for successor in block.last_op.successors]
    return found


@pytest.mark.parametrize("start", range(0, 400, 100))
def test_on_every_way_a_buffer_is_freed_once_behind_its_last_use(start: int):
    for seed in range(start, start + 100):
        function, made, _ = _with_uses(random.Random(seed))
        alloc = next(op for op in made.ops if isinstance(op, memref.AllocOp))
        free(alloc.memref)
        ModuleOp([function]).verify()
        assert not _violations(function.body.blocks[0]), f"seed {seed}: {function}"


def test_negative_the_check_of_ways_sees_what_is_freed_too_early():
    """Freed at the end of the block that made it, whoever uses it later."""
    seen = 0
    for seed in range(100):
        function, made, users = _with_uses(random.Random(seed))
        alloc = next(op for op in made.ops if isinstance(op, memref.AllocOp))
        assert made.last_op is not None
        made.insert_op_before(memref.DeallocOp.get(alloc.memref), made.last_op)
        assert ("used after it was freed" in _violations(function.body.blocks[0])) == bool(users)
        seen += bool(users)
    assert seen > 10


@pytest.mark.parametrize("start", range(0, 400, 100))
def test_what_runs_again_before_the_buffer_is_made_again_is_known(start: int):
    """A use may run again if a state can be come to in which it has run since the buffer was made."""
    for seed in range(start, start + 100):
        _, made, users = _with_uses(random.Random(seed))
        for user in users:
            seen: set[tuple[Block, bool]] = set()
            pending = [(made, False)]
            while pending:
                block, has_run = pending.pop()
                if block is made:
                    has_run = False
                if (block, has_run) in seen:
                    continue
                seen.add((block, has_run))
                assert block.last_op is not None
                pending += [(successor, has_run or block is user) for successor in block.last_op.successors]
            assert user.first_op is not None
            assert may_run_again(user.first_op, made) == ((user, True) in seen), f"seed {seed}"


# Regions ------------------------------------------------------------------------------------------------------------

_AROUND = {
    "scf.for %i = %n to %n step %n {": True,
    "scf.while : () -> () { scf.condition(%p) } do {": True,
    "scf.parallel (%i) = (%n) to (%n) step (%n) {": True,
    "scf.if %p {": False,
    "scf.if %p { scf.if %p {": False,
    "scf.for %i = %n to %n step %n { scf.if %p {": True,
    "scf.execute_region {": False,
    "scf.index_switch %n case 1 { scf.yield } default {": False,
}


@pytest.mark.parametrize("around", _AROUND)
def test_a_region_runs_again_if_it_is_that_of_a_loop(around: str):
    end = "scf.reduce" if "parallel" in around else "scf.yield"
    closing = "} " * (around.count("{") - around.count("}") - 1)
    module = li.parse(
        f"""
        func.func @main(%p : i1, %n : index) {{
          {around}
            %use = arith.constant 7 : index
            {end} }} {closing}
          func.return
        }}
        """
    )
    (function,) = module.body.block.ops
    assert isinstance(function, FuncOp)
    (use,) = _ops(module, "arith.constant")
    assert may_run_again(use, function.body.block) == _AROUND[around]
    assert use.parent is not None and not may_run_again(use, use.parent)


def test_a_block_is_gone_over_behind_those_that_dominate_it():
    module = parse(
        """
        func.func @main(%i : index) -> index {
          cf.br ^second
        ^first:
          %b = arith.addi %a, %a : index
          func.return %b : index
        ^second:
          %a = arith.muli %i, %i : index
          cf.br ^first
        }
        """
    )
    names = [op.name for op in walk_by_dominance(module)]
    assert sorted(names) == sorted(op.name for op in module.walk())
    assert names.index("arith.muli") < names.index("arith.addi"), print_module(module)
