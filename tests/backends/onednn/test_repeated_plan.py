"""Loops by machine code, beside ONNX Runtime: what is carried, swapped, stacked, and where they end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import layout_ir as li
from layout_ir.backends.onednn.plan_steps import ControlStep
from tests.backends.onednn.small_programs import needs_library, numbers
from tests.backends.onednn.test_control_flow import GOING, TRIP, Arrays, body, compare, model, value
from tests.seeds import seeds

pytestmark = needs_library

X = numbers((3, 5))
STATES = ("s", "t", "u")


def pool(random: Random, inputs: Sequence[str]) -> tuple[list[onnx.NodeProto], list[str]]:
    """Nodes on values like X, and the names of all such values, `inputs`, a constant and an outer one among them."""
    tensor = numpy_helper.from_array(numbers(X.shape) / 2)
    nodes = [helper.make_node("Constant", [], ["constant"], value=tensor)]
    names = [*inputs, "constant", "x"]
    for number in range(random.randint(0, 4)):
        kind = random.choice(["Add", "Sub", "Tanh", "Neg", "Identity", "MatMul"])
        taken = [random.choice(names) for _ in range(1 if kind in ("Tanh", "Neg", "Identity") else 2)]
        if kind == "MatMul":
            taken[1] = "w"
        nodes.append(helper.make_node(kind, taken, [f"v{number}"]))
        names.append(f"v{number}")
    return nodes, names


def results(random: Random, names: Sequence[str], count: int) -> tuple[list[onnx.NodeProto], list[str]]:
    """So many of the names; a graph cannot have its own inputs or outer values, or one twice, but by Identity."""
    outputs, nodes = list[str](), list[onnx.NodeProto]()
    for number in range(count):
        outputs.append(f"r{number}")
        nodes.append(helper.make_node("Identity", [random.choice(names)], [f"r{number}"]))
    return nodes, outputs


def random_loop(random: Random) -> onnx.ModelProto:
    nodes, names = pool(random, STATES)
    count = random.randint(0, 2)
    last, outputs = results(random, names, len(STATES) + count)
    condition = random.choice(
        [
            helper.make_node("Identity", ["going"], ["c2"]),
            helper.make_node("Less", ["trip", "limit"], ["c2"]),
            helper.make_node("Constant", [], ["c2"], value=numpy_helper.from_array(np.array(True))),
        ]
    )
    inner = body(
        [*nodes, *last, condition],
        [TRIP, GOING, *(value(name, X) for name in STATES)],
        [value("c2", np.array(True)), *(value(name, X) for name in outputs)],
    )
    stacked = [f"rows{k}" for k in range(count)]
    trips = 6
    limit = np.array(trips - 1 if count else random.randint(0, 9))
    made = [*(f"end_{name}" for name in STATES), *stacked]
    node = helper.make_node("Loop", ["n", "", "x", "y", "z"], made, body=inner)
    shapes = [value(f"end_{name}", X) for name in STATES]
    shapes += [value(name, np.zeros((trips, *X.shape), np.float32)) for name in stacked]
    constants: Arrays = {"n": np.array(trips), "w": numbers((5, 5)) / 3, "limit": limit}
    return model([node], {"x": X, "y": X, "z": X}, shapes, constants)


def random_scan(random: Random) -> onnx.ModelProto:
    """A Scan over two arrays, each from one side, whose results are stacked from one side."""
    rows, count = 7, random.randint(1, 2)
    nodes, names = pool(random, ("s", "t", "a", "b"))
    last, outputs = results(random, names, 2 + count)
    inner = body(
        [*nodes, *last],
        [value(name, X) for name in ("s", "t", "a", "b")],
        [value(name, X) for name in outputs],
    )
    whole = np.zeros((rows, *X.shape), np.float32)
    stacked = [f"rows{k}" for k in range(count)]
    node = helper.make_node(
        "Scan", ["x", "y", "p", "q"], ["end_s", "end_t", *stacked], body=inner, num_scan_inputs=2,
        scan_input_directions=[random.randint(0, 1) for _ in range(2)],
        scan_output_directions=[random.randint(0, 1) for _ in stacked],
    )  # fmt: skip
    shapes = [value("end_s", X), value("end_t", X), *(value(name, whole) for name in stacked)]
    inputs: Arrays = {"x": X, "y": X, "p": whole, "q": whole}
    return model([node], inputs, shapes, {"w": numbers((5, 5)) / 3})


def drawn(made: onnx.ModelProto) -> Arrays:
    """Other numbers for each input: of equal ones nobody sees which was read."""
    return {
        given.name: numbers(tuple(dim.dim_value for dim in given.type.tensor_type.shape.dim), seed)
        for seed, given in enumerate(made.graph.input, 1)
    }


def by_machine_code(executable: li.Executable) -> bool:
    [step] = [step for step in executable.plan.steps if isinstance(step, ControlStep)]
    flow: Any = step.flow
    return flow._repeated.is_possible


@pytest.mark.parametrize("seed", seeds(12, 150))
@pytest.mark.parametrize("make", [random_loop, random_scan])
def test_random_loops_give_what_onnx_runtime_gives(make: Any, seed: int):
    made = make(Random(seed))
    executable = compare(made, drawn(made))
    if any(isinstance(step, ControlStep) for step in executable.plan.steps):
        assert by_machine_code(executable)


def counting(trips: int | None, limit: int) -> onnx.ModelProto:
    """A loop that adds up the numbers of its trips, while they are below a limit."""
    inner = body(
        [
            helper.make_node("Add", ["sum", "trip"], ["sum2"]),
            helper.make_node("Less", ["trip", "limit"], ["c2"]),
        ],
        [TRIP, GOING, value("sum", np.array(0))],
        [value("c2", np.array(True)), value("sum2", np.array(0))],
    )
    node = helper.make_node("Loop", ["" if trips is None else "n", "", "start"], ["y"], body=inner)
    constants: Arrays = {"limit": np.array(limit)} | ({} if trips is None else {"n": np.array(trips)})
    return model([node], {"start": np.array(0)}, [value("y", np.array(0))], constants)


@pytest.mark.parametrize(("trips", "limit"), [(None, 0), (None, 1000), (100_000, 10**6), (17, 10**6)])
def test_a_loop_goes_on_where_machine_code_came_back(trips: int | None, limit: int):
    """Which it does behind 16, 48, 112 trips and so on."""
    assert by_machine_code(compare(counting(trips, limit), {"start": np.array(5)}))


def test_a_loop_without_end_can_be_interrupted():
    executable = li.compile(counting(None, 2**62))
    timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            executable({"start": np.array(0)})
    finally:
        timer.cancel()
        signal.signal(signal.SIGINT, handler)


def test_loops_of_one_executable_run_in_several_threads():
    executable = li.compile(counting(2000, 10**6))
    found: list[int] = []

    def call(start: int) -> None:
        for _ in range(20):
            [total] = executable({"start": np.array(start)})
            found.append(int(total) - start)

    threads = [threading.Thread(target=call, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [sum(range(2000))] * 80


def test_negative_an_index_that_a_trip_has_outside_of_its_dim_is_an_error():
    inner = body(
        [helper.make_node("Gather", ["x", "trip"], ["row"]), helper.make_node("Identity", ["going"], ["c2"])],
        [TRIP, GOING],
        [value("c2", np.array(True)), value("row", X[0])],
    )
    node = helper.make_node("Loop", ["n", ""], ["y"], body=inner)
    for trips, fails in ((3, False), (4, True)):
        rows = np.zeros((trips, 5), np.float32)
        executable = li.compile(model([node], {"x": X}, [value("y", rows)], {"n": np.array(trips)}))
        assert by_machine_code(executable)
        if fails:
            with pytest.raises(li.LayoutError, match="outside of its dim"):
                executable({"x": X})
        else:
            np.testing.assert_array_equal(executable({"x": X})[0], X)


def test_negative_a_body_that_changes_the_type_of_what_it_carries_runs_trip_by_trip():
    inner = body(
        [
            helper.make_node("Concat", ["s", "x"], ["s2"], axis=0),
            helper.make_node("Identity", ["going"], ["c2"]),
        ],
        [TRIP, GOING, value("s", element=TensorProto.FLOAT)],
        [value("c2", np.array(True)), value("s2", element=TensorProto.FLOAT)],
    )
    node = helper.make_node("Loop", ["n", "", "x"], ["y"], body=inner)
    made = model([node], {"x": X}, [value("y", np.zeros((9, 5), np.float32))], {"n": np.array(2)})
    assert not by_machine_code(compare(made, {"x": X}))
