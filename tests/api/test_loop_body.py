"""Loops that carry what grows, and such whose trips depend on numbers, beside ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import layout_ir as li
from layout_ir.api import loop_body
from layout_ir.api.loop_body import LoopBody
from layout_ir.api.sectioned_program import SectionedProgram
from layout_ir.api.staged_nodes import StagedNodes
from tests.api.test_staged_program import model, node
from tests.backends.onednn.node_models import Array, check_alike, onnx
from tests.backends.onednn.small_programs import needs_library, numbers

pytestmark = needs_library

FLOAT, INT, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL


def body(nodes: Sequence[Any], inputs: str, outputs: str, kinds: Sequence[int]) -> Any:
    """A graph of one trip; `kinds` are the element types of what it carries, and of the rows that it gives."""
    trip, condition, *carried = inputs.split()
    info = onnx.helper.make_tensor_value_info
    return onnx.helper.make_graph(
        nodes,
        "trip",
        [
            info(trip, INT, []), info(condition, BOOL, []),
            *(info(name, kind, None) for name, kind in zip(carried, kinds, strict=False)),
        ],
        [
            info(name, kind, None)
            for name, kind in zip(outputs.split(), (BOOL, *kinds), strict=True)
        ],
    )  # fmt: skip


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What bodies were compiled to, in order; None for each trip that nothing was compiled for."""
    found: list[Any] = []
    compiled = LoopBody._compiled  # pyright: ignore[reportPrivateUsage]

    def watched(self: LoopBody, given: Any) -> Any:
        found.append(compiled(self, given))
        return found[-1]

    monkeypatch.setattr(LoopBody, "_compiled", watched)
    return found


def compare(made: Any, *calls: dict[str, Array]) -> li.Executable:
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(made.SerializeToString())
    executable = li.compile(made, checked=True)
    for inputs in calls:
        for ours, theirs in zip(executable(inputs), session.run(None, inputs), strict=True):
            check_alike(ours, theirs)
    return executable


def decoder() -> Any:
    """A layer for the last word over a cache that grows by it, in a Loop; rows of the words are an output, too."""
    nodes = [
        node("Identity", "c", "going"),
        node("MatMul", "x w", "projected"), node("Add", "projected b", "biased"), node("Relu", "biased", "word"),
        node("Concat", "cache word", "longer", axis=1), node("Transpose", "longer", "columns", perm=[0, 2, 1]),
        node("MatMul", "word columns", "scores"), node("Softmax", "scores", "weights", axis=-1),
        node("MatMul", "weights longer", "mixed"), node("MatMul", "mixed v", "again"),
        node("Add", "again b", "shifted"),
        node("Tanh", "shifted", "bounded"), node("MatMul", "bounded w", "other"), node("Sigmoid", "other", "next"),
        node("Identity", "next", "row"),
    ]  # fmt: skip
    loop = node(
        "Loop", "trips - x0 none", "last cache_end rows",
        body=body(nodes, "i c x cache", "going next longer row", [FLOAT, FLOAT, FLOAT]),
    )  # fmt: skip
    # How many trips there are is known when it runs, and so is the shape of the cache.
    given = {"x0": numbers((2, 1, 16)), "trips": np.array(3)}
    constants = {
        "w": numbers((16, 16), 1), "v": numbers((16, 16), 2), "b": numbers((16,), 3),
        "none": np.zeros((2, 0, 16), np.float32),
    }  # fmt: skip
    return model([loop], given, ["last", "cache_end", "rows"], constants)


def test_what_a_cache_that_grows_has_no_part_in_is_compiled_once(programs: list[Any]):
    calls = [{"x0": numbers((2, 1, 16), k) / 4, "trips": np.array(n)} for k, n in enumerate((0, 1, 6, 9, 0))]
    executable = compare(decoder(), *calls)
    assert [type(made) for made in programs if made is not None] == [SectionedProgram]
    assert "arena" in executable.describe()
    assert executable.fallbacks["Concat"] == 1 and "Tanh" not in executable.fallbacks


def test_shapes_within_a_trip_that_depend_on_numbers(programs: list[Any]):
    nodes = [
        node("Greater", "x i_float", "chosen"), node("NonZero", "chosen", "places"),
        node("Transpose", "places", "rows"), node("GatherND", "x rows", "found"), node("ReduceSum", "found", "sum"),
        node("Add", "x sum", "more"), node("MatMul", "more w", "y"), node("Greater", "limit sum", "going"),
    ]  # fmt: skip
    cast = node("Cast", "i", "i_float", to=FLOAT)
    loop = node(
        "Loop", "trips - x0", "last sums", body=body([cast, *nodes], "i c x", "going y sum", [FLOAT, FLOAT])
    )
    constants = {"w": numbers((5, 5), 1) / 8, "limit": np.array(1e6, np.float32)}
    given = {"x0": numbers((4, 5)), "trips": np.array(3)}
    calls = [{"x0": numbers((4, 5), k), "trips": np.array(n)} for k, n in enumerate((4, 7, 4))]
    compare(model([loop], given, ["last", "sums"], constants), *calls)
    assert [type(made) for made in programs if made is not None] == [StagedNodes]


def test_bodies_of_two_loops_and_one_within_the_other_are_told_apart():
    """The inner one takes rows that the outer one makes longer, and a weight of the model."""
    inner = body(
        [node("Identity", "ci", "gi"), node("MatMul", "t w", "u"), node("Concat", "s u", "s1", axis=0)],
        "ii ci s", "gi s1", [FLOAT],
    )  # fmt: skip
    outer = body(
        [
            node("Identity", "co", "go"), node("Relu", "t0", "t1"), node("MatMul", "t1 w", "t"),
            node("Loop", "two - t", "longer", body=inner),
            node("Concat", "all longer", "all1", axis=0), node("Tanh", "t", "t2"),
        ],
        "io co t0 all", "go t2 all1", [FLOAT, FLOAT],
    )  # fmt: skip
    more = body(
        [
            node("Identity", "cm", "gm"), node("Exp", "q", "q1"), node("Concat", "z q1", "z1", axis=0),
            node("Neg", "q", "q2"),
        ],
        "im cm q z", "gm q2 z1", [FLOAT, FLOAT],
    )  # fmt: skip
    nodes = [
        node("Loop", "trips - x0 none", "last every", body=outer),
        node("Loop", "trips - x0 every", "other joined", body=more),
    ]
    constants = {"w": numbers((4, 4), 1) / 4, "none": np.zeros((0, 4), np.float32), "two": np.array(2)}
    given = {"x0": numbers((3, 4)), "trips": np.array(3)}
    calls = [{"x0": numbers((3, 4), k), "trips": np.array(n)} for k, n in enumerate((3, 5, 2))]
    compare(model(nodes, given, ["last", "every", "other", "joined"], constants), *calls)


def test_negative_where_all_grows_or_ranks_differ_the_reference_computes_all_trips(programs: list[Any]):
    grows = body(
        [
            node("Identity", "c", "going"), node("Exp", "x", "e"), node("Neg", "e", "n"),
            node("Concat", "n x", "y", axis=0),
        ],
        "i c x", "going y", [FLOAT],
    )  # fmt: skip
    ranks = body(
        [node("Identity", "c2", "going2"), node("Unsqueeze", "z minus", "z1")],
        "i2 c2 z",
        "going2 z1",
        [FLOAT],
    )
    nodes = [node("Loop", "trips - x0", "long", body=grows), node("Loop", "trips - x0", "deep", body=ranks)]
    given = {"x0": numbers((1, 4)), "trips": np.array(3)}
    made = model(nodes, given, ["long", "deep"], {"minus": np.array([0])})
    executable = compare(made, *({"x0": numbers((1, 4), k) / 9, "trips": np.array(3)} for k in range(2)))
    assert programs and not any(programs)
    assert executable.fallbacks == {"Loop": 2}


def test_negative_sequences_stay_with_the_reference():
    nodes = [
        node("Identity", "c", "going"), node("MatMul", "x w", "y"), node("SequenceInsert", "kept y", "more"),
    ]  # fmt: skip
    graph = body(nodes, "i c x", "going y", [FLOAT])
    sequence = onnx.helper.make_tensor_sequence_value_info
    graph.input.append(sequence("kept", FLOAT, None))
    graph.output.append(sequence("more", FLOAT, None))
    outer = [
        node("SequenceEmpty", "", "empty", dtype=FLOAT), node("Loop", "trips - x0 empty", "last all", body=graph),
        node("ConcatFromSequence", "all", "joined", axis=0),
    ]  # fmt: skip
    given = {"x0": numbers((2, 4)), "trips": np.array(3)}
    made = model(outer, given, ["last", "joined"], {"w": numbers((4, 4), 1) / 4})
    compare(made, *({"x0": numbers((2, 4), k), "trips": np.array(4)} for k in range(2)))


def test_a_loop_of_one_trip_compiles_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(loop_body, "cut")
    compare(decoder(), {"x0": numbers((2, 1, 16)), "trips": np.array(1)})


def test_a_repeatable_loop_gives_equal_bits_before_and_after_its_trips_are_known(programs: list[Any]):
    executable = li.compile(decoder(), repeatable=True)
    inputs = {"x0": numbers((2, 1, 16)) / 4, "trips": np.array(5)}
    first, second = executable(inputs), executable(inputs)
    assert [array.tobytes() for array in first] == [array.tobytes() for array in second]
    assert programs == []
