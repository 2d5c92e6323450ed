"""Programs mean the same in all formats, on xDSL's interpreter too, and tensors are forgotten after their last use."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from layout_ir.algebra.format import Format
from layout_ir.api.execute import run
from layout_ir.api.program_text import parse_program
from layout_ir.backends.reference.interpreter import ReferenceFunctions, check_supported, interpreter_of
from layout_ir.backends.reference.tensor import Tensor
from layout_ir.dialects.layout import ReorderOp, layout_of
from layout_ir.dialects.nn import ConstantOp
from layout_ir.errors import LayoutError
from tests.backends.reference.rewriting import with_random_formats
from tests.backends.reference.texts import NETWORK, network_inputs
from tests.exits.linalg.mlir_tools import execute
from tests.programs import parse


@pytest.mark.parametrize("seed", range(40))
def test_a_network_gives_the_same_in_random_formats(seed: int):
    plain = parse(NETWORK)
    formatted = with_random_formats(plain, Random(seed))
    formatted.verify()
    assert sum(isinstance(op, ReorderOp) for op in formatted.walk()) > 15
    for got, want in zip(
        run(formatted, network_inputs(), reorders="reference"),
        run(plain, network_inputs(), reorders="reference"),
        strict=True,
    ):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6)


def test_a_dirty_pad_upstream_reaches_the_results():
    """A reorder that forgets its pads: the convolution behind it reads them, and everything behind that is spoilt."""
    text = """
    func.func @main(%x : tensor<1x13x4x4xf32>, %w : tensor<8x13x1x1xf32>) -> tensor<1x8x4x4xf32> {
      %0 = layout.reorder %x : tensor<1x13x4x4xf32> -> tensor<1x13x4x4xf32, #layout.tag<nChw8c>>
      %1 = nn.conv %0, %w : (tensor<1x13x4x4xf32, #layout.tag<nChw8c>>, tensor<8x13x1x1xf32>) -> tensor<1x8x4x4xf32>
      func.return %1 : tensor<1x8x4x4xf32>
    }"""
    module = parse(text)
    inputs = [np.ones((1, 13, 4, 4), np.float32), np.ones((8, 13, 1, 1), np.float32)]
    assert (run(module, inputs, reorders="reference")[0] == 13).all()

    def forgetful(op: Operation, x: Tensor) -> Tensor:
        layout = layout_of(op.results[0].type)
        result = Tensor.poisoned(layout, x.dtype)
        result.buffer[layout.addresses()] = x.logical()
        return result

    functions = ReferenceFunctions(replaced={ReorderOp: forgetful})
    operands = [
        Tensor.store(x, layout_of(t), "f32") for x, t in zip(inputs, argument_types(module), strict=True)
    ]
    (spoilt,) = interpreter_of(module, functions).call_op("main", tuple(operands))
    assert np.isnan(spoilt.logical()).all()


def argument_types(module: ModuleOp) -> list[Any]:
    (function,) = [op for op in module.walk() if isinstance(op, FuncOp)]
    return list(function.function_type.inputs)


def test_a_value_of_any_layout_lies_row_major():
    module = parse("""
    func.func @main(%x : tensor<2x3xf32, #layout.any>) -> tensor<3x2xf32, #layout.any> {
      %0 = layout.permute %x perm = [1, 0] : tensor<2x3xf32, #layout.any> -> tensor<3x2xf32, #layout.any>
      func.return %0 : tensor<3x2xf32, #layout.any>
    }""")
    (result,) = interpreter_of(module, ReferenceFunctions()).call_op("main", (any_tensor(),))
    assert result.buffer.tolist() == [1, 4, 2, 5, 3, 6]


def any_tensor() -> Tensor:
    values = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    return Tensor.store(values, Format.from_tag("ab").bind((2, 3)), "f32")


def test_views_and_casts_share_the_buffer():
    module = parse("""
    !P = tensor<2x8x3x3xf32, #layout.format<(n, c, h, w) : [n, c, h, w, c:4]>>
    !Q = tensor<2x3x3x8xf32, #layout.format<(n, h, w, c) : [n, c, h, w, c:4]>>
    !S = tensor<2x3x3x4xf32, #layout.format<(n, h, w, c) : [n*72, h*12, w*4, c*1], offset = 36>>
    func.func @main(%x : !P) -> !S {
      %0 = layout.permute %x perm = [0, 2, 3, 1] : !P -> !Q
      %1 = layout.slice %0 starts = [0, 0, 0, 4] sizes = [2, 3, 3, 4] : !Q -> !S
      func.return %1 : !S
    }""")
    (type,) = argument_types(module)
    values = np.arange(144, dtype=np.float32).reshape(2, 8, 3, 3)
    x = Tensor.store(values, layout_of(type), "f32")
    (result,) = interpreter_of(module, ReferenceFunctions()).call_op("main", (x,))
    assert result.buffer is x.buffer
    np.testing.assert_array_equal(result.logical(), values.transpose(0, 2, 3, 1)[..., 4:])


def test_fill_pads_writes_pads_and_leaves_its_operand_alone():
    module = parse("""
    !U = tensor<5xf32, #layout.format<(a) : [a, a:4]>>
    !Z = tensor<5xf32, #layout.format<(a) : [a, a:4], pad = 3>>
    func.func @main(%x : !U) -> !Z {
      %0 = layout.fill_pads %x : !U -> !Z
      func.return %0 : !Z
    }""")
    x = Tensor.store(np.ones(5, np.float32), layout_of(argument_types(module)[0]), "f32")
    (result,) = interpreter_of(module, ReferenceFunctions()).call_op("main", (x,))
    assert result.buffer.tolist() == [1] * 5 + [3] * 3
    assert np.isnan(x.buffer[5:]).all()


def test_a_reorder_to_an_integer_rounds_and_saturates():
    module = parse("""
    func.func @main(%x : tensor<4xf32>) -> tensor<4xi8> {
      %0 = layout.reorder %x : tensor<4xf32> -> tensor<4xi8>
      func.return %0 : tensor<4xi8>
    }""")
    assert run(module, [np.array([2.5, 3.5, -1000, 1000], np.float32)])[0].tolist() == [2, 4, -128, 127]


def test_functions_call_each_other_and_control_flow_is_left_to_xdsl():
    module = parse("""
    func.func @twice(%x : tensor<2xf32>) -> tensor<2xf32> {
      %0 = nn.add %x, %x : tensor<2xf32>
      func.return %0 : tensor<2xf32>
    }
    func.func @main(%x : tensor<2xf32>) -> tensor<2xf32> {
      %low = arith.constant 0 : index
      %high = arith.constant 3 : index
      %step = arith.constant 1 : index
      %one = nn.constant dense<1.0> : tensor<2xf32>
      %0 = scf.for %i = %low to %high step %step iter_args(%a = %x) -> (tensor<2xf32>) {
        %1 = func.call @twice(%a) : (tensor<2xf32>) -> tensor<2xf32>
        scf.yield %1 : tensor<2xf32>
      }
      %2 = nn.add %0, %one : tensor<2xf32>
      func.return %2 : tensor<2xf32>
    }""")
    assert run(module, [np.array([1, 2], np.float32)])[0].tolist() == [9, 17]


def test_scalar_comparisons_of_a_program_run():
    module = parse("""
    func.func @main(%x : tensor<4xf32>) -> tensor<4xf32> {
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      %three = arith.constant 3 : index
      %n, %r = scf.while (%i = %zero, %a = %x) : (index, tensor<4xf32>) -> (index, tensor<4xf32>) {
        %c = arith.cmpi ult, %i, %three : index
        scf.condition(%c) %i, %a : index, tensor<4xf32>
      } do {
      ^bb0(%j : index, %b : tensor<4xf32>):
        %k = arith.addi %j, %one : index
        %d = nn.add %b, %b : tensor<4xf32>
        scf.yield %k, %d : index, tensor<4xf32>
      }
      func.return %r : tensor<4xf32>
    }""")
    x = np.arange(4, dtype=np.float32)
    assert np.array_equal(run(module, [x])[0], 8 * x)


@pytest.mark.parametrize(("index", "factor"), [(2, 3), (5, 7), (0, 1), (-1, 1)])
def test_a_number_chooses_the_region_of_a_switch(index: int, factor: int):
    module = parse(f"""
    func.func @main(%x : tensor<4xf32>) -> tensor<4xf32> {{
      %n = arith.constant {index} : index
      %r = scf.index_switch %n -> tensor<4xf32>
      case 2 {{
        %a = nn.constant dense<3.0> : tensor<4xf32>
        scf.yield %a : tensor<4xf32>
      }}
      case 5 {{
        %b = nn.constant dense<7.0> : tensor<4xf32>
        scf.yield %b : tensor<4xf32>
      }}
      default {{
        %c = nn.constant dense<1.0> : tensor<4xf32>
        scf.yield %c : tensor<4xf32>
      }}
      %y = nn.mul %x, %r : tensor<4xf32>
      func.return %y : tensor<4xf32>
    }}""")
    x = np.arange(4, dtype=np.float32)
    assert np.array_equal(run(module, [x])[0], factor * x)


def test_a_region_is_executed_once():
    module = parse("""
    func.func @main(%x : tensor<4xf32>) -> tensor<4xf32> {
      %r = scf.execute_region -> tensor<4xf32> {
        %a = nn.relu %x : tensor<4xf32>
        scf.yield %a : tensor<4xf32>
      }
      func.return %r : tensor<4xf32>
    }""")
    x = np.arange(-2, 2, dtype=np.float32)
    assert np.array_equal(run(module, [x])[0], np.maximum(x, 0))


CHAIN = """
func.func @main(%x : tensor<64xf32>) -> tensor<64xf32> {
  %c = nn.constant dense<2.0> : tensor<64xf32>
  %0 = nn.relu %x : tensor<64xf32>
  %1 = nn.exp %0 : tensor<64xf32>
  %2 = nn.mul %1, %c : tensor<64xf32>
  %3 = nn.sqrt %2 : tensor<64xf32>
  func.return %3 : tensor<64xf32>
}"""


def test_a_tensor_is_forgotten_after_its_last_use():
    alive: list[weakref.ref[Any]] = []
    most = 0

    def trace(op: Operation, tensors: Any, seconds: float) -> None:
        nonlocal most
        gc.collect()
        alive.append(weakref.ref(tensors[-1].buffer))
        most = max(most, sum(ref() is not None for ref in alive))

    run(parse(CHAIN), [np.ones(64, np.float32)], trace=trace)
    assert len(alive) == 4
    assert most == 2


def test_constants_are_kept_in_a_dict_of_the_caller():
    module, kept = parse(CHAIN), dict[Operation, Tensor]()
    for _ in range(2):
        run(module, [np.ones(64, np.float32)], constants=kept)
    assert [type(op) for op in kept] == [ConstantOp]
    (constant,) = kept.values()
    # If the kept tensor is used, changing it shows.
    kept[next(iter(kept))] = Tensor(np.zeros_like(constant.buffer), constant.layout, constant.dtype)
    assert (run(module, [np.ones(64, np.float32)], constants=kept)[0] == 0).all()


def test_trace_sees_every_op_but_constants_with_its_operands_and_result():
    seen: list[tuple[str, list[Any]]] = []

    def trace(op: Operation, tensors: Any, seconds: float) -> None:
        assert 0 <= seconds < 10
        seen.append((op.name, [float(t.logical()[0]) for t in tensors]))

    run(parse(CHAIN), [np.zeros(64, np.float32)], trace=trace)
    assert [name for name, _ in seen] == ["nn.relu", "nn.exp", "nn.mul", "nn.sqrt"]
    assert seen[2][1] == [1.0, 2.0, 2.0]


def test_negative_an_op_without_semantics_is_named_before_anything_runs():
    module = parse("""
    func.func @main(%x : tensor<2xf32>) -> tensor<2xf32> {
      %0 = "test.op"(%x) : (tensor<2xf32>) -> tensor<2xf32>
      func.return %0 : tensor<2xf32>
    }""")
    (function,) = [op for op in module.ops if isinstance(op, FuncOp)]
    with pytest.raises(
        LayoutError, match=r"test\.op has no reference semantics: supported are the ops of nn"
    ):
        check_supported(module, function)


def test_negative_an_op_without_semantics_in_a_function_that_is_called():
    module = parse("""
    func.func @inner(%x : tensor<2xf32>) -> tensor<2xf32> {
      %0 = "test.op"(%x) : (tensor<2xf32>) -> tensor<2xf32>
      func.return %0 : tensor<2xf32>
    }
    func.func @main(%x : tensor<2xf32>) -> tensor<2xf32> {
      %0 = func.call @inner(%x) : (tensor<2xf32>) -> tensor<2xf32>
      func.return %0 : tensor<2xf32>
    }""")
    with pytest.raises(LayoutError, match=r"test\.op has no reference semantics"):
        run(module, [np.zeros(2, np.float32)])


def test_negative_a_function_without_a_body():
    module = parse("func.func private @main(tensor<2xf32>) -> tensor<2xf32>")
    with pytest.raises(LayoutError, match="function @main has no body to run"):
        run(module, [np.zeros(2, np.float32)])


def test_negative_a_constant_whose_values_were_left_out():
    module = parse("""
    func.func @main() -> tensor<2xf32> {
      %0 = nn.constant dense_resource<gone> : tensor<2xf32>
      func.return %0 : tensor<2xf32>
    }""")
    with pytest.raises(LayoutError, match=r"nn\.constant: the values of this constant were left out"):
        run(module)


FORALL = """
func.func @main(%x: tensor<6x4xf32>, %out: tensor<6x4xf32>) -> (tensor<6x4xf32>, tensor<6x4xf32>) {
  %one = arith.constant 1 : index
  %two:2 = scf.forall (%i, %j) = (%one, 0) to (6, 4) step (2, %one)
      shared_outs(%a = %out, %b = %out) -> (tensor<6x4xf32>, tensor<6x4xf32>) {
    %part = tensor.extract_slice %x[%i, %j] [1, 1] [1, 1] : tensor<6x4xf32> to tensor<1x1xf32>
    %before = tensor.extract_slice %a[%i, %j] [1, 1] [1, 1] : tensor<6x4xf32> to tensor<1x1xf32>
    %sum = arith.addf %part, %before : tensor<1x1xf32>
    %negated = arith.negf %part : tensor<1x1xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %sum into %a[%i, %j] [1, 1] [1, 1] : tensor<1x1xf32> into tensor<6x4xf32>
      tensor.parallel_insert_slice %negated into %b[%i, %j] [1, 1] [1, 1] : tensor<1x1xf32> into tensor<6x4xf32>
    }
  }
  func.return %two#0, %two#1 : tensor<6x4xf32>, tensor<6x4xf32>
}
"""


def test_iterations_in_any_order_write_slices_as_mlir_runner_has_them(tmp_path: Path):
    x, out = np.random.default_rng(0).random((2, 6, 4), np.float32)
    module = parse_program(FORALL, "program.mlir")
    ours = run(module, [x, out])
    odd = np.array([[False], [True]] * 3)
    expected: Any = [np.where(odd, x + out, out), np.where(odd, -x, out)]
    assert np.array_equal(ours, expected)
    for got, wanted in zip(execute(module, [x, out], tmp_path), ours, strict=True):
        assert np.array_equal(got, wanted)


@pytest.mark.parametrize(("word", "wanted"), [("unsigned", 5), ("", 0)])
def test_a_loop_counts_to_a_bound_beyond_the_signed_integers(word: str, wanted: int):
    text = f"""
    func.func @main(%x: tensor<i32>) -> tensor<i32> {{
      %low = arith.constant 126 : i8
      %high = arith.constant -125 : i8
      %one = arith.constant 1 : i8
      %r = scf.for {word} %i = %low to %high step %one iter_args(%a = %x) -> (tensor<i32>) : i8 {{
        %k = arith.constant dense<1> : tensor<i32>
        %b = arith.addi %a, %k : tensor<i32>
        scf.yield %b : tensor<i32>
      }}
      func.return %r : tensor<i32>
    }}"""
    assert run(parse_program(text, "program.mlir"), [np.array(0, np.int32)])[0] == wanted


def test_negative_a_step_of_nothing_is_an_error():
    text = FORALL.replace("step (2, %one)", "step (2, 0)")
    with pytest.raises(LayoutError, match=r"loops count up, the steps are \[2, 0\]"):
        run(parse_program(text, "program.mlir"), [np.zeros((6, 4), np.float32)] * 2)
