"""What is said of Transposes that are left."""

from __future__ import annotations

import onnx.helper as oh

from tests.passes.onnx.optimized import check_optimized, initializer, model_of, transpose, value

X = (2, 3, 4, 5)


def test_a_transpose_between_an_input_and_a_kernel_is_the_callers():
    nodes = [transpose("x", "t", 0, 3, 1, 2), oh.make_node("Conv", ["t", "w"], ["y"], name="conv")]
    weights = initializer("w", [[[[1.0]]] * 5] * 6)
    model = model_of(nodes, [value("x", *X)], [value("y", 2, 6, 3, 4)], [weights])
    (entry,) = check_optimized(model).remaining
    assert (entry.value, entry.source, entry.target) == ("x", (0, 1, 2, 3), (0, 3, 1, 2))
    assert entry.nbytes == 2 * 4 * 120
    assert (entry.producer, entry.consumers) == ("input 'x'", ("Conv 'conv'",))
    assert entry.removed_by.startswith("--inputs free")
    result = check_optimized(model, inputs="free")
    assert result.remaining == [] and [e.name for e in result.obligations] == ["x"]


def test_a_transpose_before_an_output_is_the_callers():
    nodes = [
        oh.make_node("GlobalMaxPool", ["x"], ["p"]),
        oh.make_node("Add", ["p", "x"], ["a"]),
        transpose("a", "y", 0, 2, 3, 1),
    ]
    model = model_of(nodes, [value("x", *X)], [value("y", 2, 4, 5, 3)])
    (entry,) = check_optimized(model).remaining
    assert entry.consumers == ("output 'y'",)
    assert entry.removed_by.startswith("--outputs free")
    assert check_optimized(model, outputs="free").remaining == []


def test_a_transpose_between_two_kernels_is_theirs():
    nodes = [oh.make_node("GlobalMaxPool", ["x"], ["p"], name="pool"), transpose("p", "t", 1, 0, 2, 3)]
    nodes += [oh.make_node("DepthToSpace", ["t"], ["y"], name="d2s", blocksize=1)]
    (entry,) = check_optimized(model_of(nodes, [value("x", 2, 3, 4, 5)], [value("y", 3, 2, 1, 1)])).remaining
    assert (entry.producer, entry.consumers) == ("GlobalMaxPool 'pool'", ("DepthToSpace 'd2s'",))
    assert "kernel of GlobalMaxPool" in entry.removed_by and "DepthToSpace" in entry.removed_by
