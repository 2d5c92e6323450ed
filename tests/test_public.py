"""Whatever a public call is given, what it raises is a LayoutError that says what was called."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, TensorType, f32

import layout_ir as li
from layout_ir import extend
from layout_ir.api.prepacking import Prepack
from layout_ir.api.reorder_compilation import ScaledReorder
from layout_ir.backends.llvm import Reorder
from layout_ir.backends.llvm.aot.reorder_library import ReorderLibrary
from layout_ir.backends.llvm.runtime.dynamic_call import DynamicKernel
from layout_ir.errors import UnforeseenError, public, public_methods
from layout_ir.passes.explain_reorders import Explanation
from layout_ir.passes.onnx.model_boundary import Obligation
from layout_ir.passes.onnx.optimized_model import OptimizedModel, Traffic
from layout_ir.passes.onnx.remaining import Remaining

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
FORMAT = li.Format.parse("(a, b, c) : [a, b, c]")
LAYOUT = FORMAT.bind((2, 3, 4))
DESC = li.TensorDesc((2, 3, 4), "f32", "abc")

JUNK: list[Any] = [
    None, 5, -1, 2.5, "x", "", b"ab", [], [1, "a"], {}, object(), float("nan"), (None,), X, 2**70, True, (2, -3), "\0",
    FORMAT, LAYOUT, DESC,
]  # fmt: skip


def _register(op: Any, options: Any = None, pads: Any = None, semantics: Any = None) -> None:
    extend.register_op(op, options=options, pads=pads, semantics=semantics)


CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = {
    "Format": (li.Format, (FORMAT.names, FORMAT.factors), {"pad": None}),
    "Format.parse": (li.Format.parse, ("(a) : [a]",), {}),
    "Format.from_tag": (li.Format.from_tag, ("nchw",), {}),
    "Format.bind": (FORMAT.bind, ((2, 3, 4),), {}),
    "Layout.address": (LAYOUT.address, ((0, 0, 0),), {}),
    "Layout.expression": (LAYOUT.expression, (("a", "b", "c"), "c"), {"result": "x"}),
    "Layout.inverse": (LAYOUT.inverse, (0,), {}),
    "Layout.slice": (LAYOUT.slice, ((0, 0, 0), (1, 1, 1)), {}),
    "Layout.permute": (LAYOUT.permute, ((0, 1, 2),), {}),
    "Layout.reshape": (LAYOUT.reshape, ((24,),), {}),
    "Layout.same_map": (LAYOUT.same_map, (LAYOUT,), {}),
    "TensorDesc": (
        li.TensorDesc, ((2, 3, 4), "f32", "abc"), {"strides": None, "pad": None, "scale": None, "zero_point": None},
    ),
    "Memory": (li.Memory, (DESC,), {}),
    "Memory.set": (li.Memory(DESC).set, (X,), {}),
    "reorder": (
        li.reorder, (X, "abc", "cba"),
        {"out": None, "shape": None, "dtype": None, "scale": None, "zero_point": None, "beta": None, "dim": None},
    ),
    "compile_reorder": (li.compile_reorder, (DESC, DESC), {"dtype": None, "scale": None, "dim": None, "threads": None}),
    "prepack": (
        li.prepack, ([X], "cba"),
        {"dtype": None, "source_dtype": None, "scales": None, "compensation": None, "out": None, "threads": None},
    ),
    "compile_prepack": (li.compile_prepack, ([li.WeightPacking(DESC, DESC)],), {"threads": None}),
    "concat": (li.concat, ([LAYOUT, LAYOUT], 0), {}),
    "compose": (li.compose, (LAYOUT, LAYOUT), {}),
    "split": (li.split, (LAYOUT, [1, 1], 0), {}),
    "refine": (li.refine, (LAYOUT, LAYOUT), {}),
    "peel": (li.peel, (10, [2]), {}),
    "optimize": (
        li.optimize, (ModuleOp([]),),
        {"target": None, "solver": None, "time_limit": None, "costs": None, "attach": None, "threads": None},
    ),
    "extend.check_op": (extend.check_op, (ModuleOp([]),), {"target": None, "formats": None}),
    "extend.register_op": (_register, ("junk.op",), {"options": None, "pads": None, "semantics": None}),
    "extend.register_target": (extend.register_target, (extend.Target("blocked8"),), {}),
    "extend.Target": (extend.Target, ("junk",), {"rates": None, "costs": None, "refine": None, "conv_kernels": None}),
    "extend.Rates": (extend.Rates, (20, 1000), {"operations_per_ns": None}),
    "explain": (li.explain, (ModuleOp([]),), {"target": None, "costs": None}),
    "run": (li.run, (ModuleOp([]), []), {"entry": None}),
    "parse": (li.parse, ("func.func private @f()",), {}),
    "to_text": (li.to_text, (ModuleOp([]),), {"elide_above": None}),
    "formats": (li.formats, (ModuleOp([]),), {}),
    "layout_of": (li.layout_of, (TensorType(f32, [2]),), {}),
    "to_mlir": (li.to_mlir, (ModuleOp([]),), {"form": None, "reorders": None}),
    "to_onnx": (li.to_onnx, (ModuleOp([]),), {"entry": None}),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_negative_arguments_of_any_type_raise_nothing_but_our_error(name: str):
    function, good, options = CALLS[name]
    tried = 0
    for value in JUNK:
        for position in range(len(good)):
            args = list(good)
            args[position] = value
            tried += _fails(function, args, {})
        for option in options:
            tried += _fails(function, good, {option: value})
    assert tried > 10


def _fails(function: Callable[..., Any], args: Any, options: dict[str, Any]) -> bool:
    try:
        function(*args, **options)
    except li.LayoutError:
        return True
    return False


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: li.reorder([1.0], "a", "a"), r"^x is of type list, expected a NumPy array$"),  # pyright: ignore
        (lambda: li.reorder(X, "abc", "cba", out=[0] * 24), r"^out is of type list, expected a NumPy array$"),  # pyright: ignore
        (lambda: li.reorder(X, "abc", "cba", out=bytearray(96)), r"^out is of type bytearray, "),  # pyright: ignore
        (lambda: li.reorder(X, None, "cba"), r"^a format is written as a str, not as None$"),  # pyright: ignore
        (lambda: li.reorder(X, b"abc", "cba"), r"^a format is written as a str, not as bytes$"),  # pyright: ignore
        (lambda: li.Format.parse(5), r"^a format is written as a str, not as int$"),  # pyright: ignore
        (lambda: FORMAT.bind(5), r"^shape 5 is no row of integers, "),  # pyright: ignore
        (
            lambda: li.TensorDesc((2,), 5, "a"),  # pyright: ignore
            r"^unknown element type 5, which is no str: known are f64",
        ),
        (
            lambda: li.optimize("model.onnx"),  # pyright: ignore
            r"^a program is a ModuleOp of xDSL, not of type str: layout_ir.parse reads",
        ),
        (lambda: li.compile("x.mlir"), r"^x\.mlir is a program by its name, .*: layout_ir\.parse reads it"),
        (lambda: li.optimize_onnx("x.mlir"), r"^x\.mlir is a program by its name"),
        (lambda: li.from_onnx(Path("x.mlir")), r"^x\.mlir is a program by its name"),
        (lambda: li.print(ModuleOp([]), file=3), r"^file = 3 is no open file"),  # pyright: ignore
        (lambda: li.parse("", ctx=3), r"^ctx is a Context of xDSL"),  # pyright: ignore
        (lambda: li.context(without="nn"), r"^without = 'nn' is no row of names"),
        (lambda: li.context(without=["nope"]), r"^without names 'nope', which is no dialect"),
        (lambda: extend.row_major(3), r"^row_major: value = 3 is of type int"),  # pyright: ignore
        (lambda: extend.nbytes(FORMAT, 3), r"^nbytes: value = 3 is of type int"),  # pyright: ignore
        (lambda: li.compile_object({"a": (DESC, DESC)}).write(3), r"^object = 3 is no path"),  # pyright: ignore
        (lambda: li.Factor("n"), r"^dim of a factor = 'n' is no integer$"),  # pyright: ignore
        (lambda: li.Factor(0, -2), r"^a factor of dim 0 has size -2"),
        (lambda: extend.Target("a b"), r"^'a b' is no name of a target"),
        (lambda: extend.Target("q", panel=-1), r"^panel = -1 of target q"),
        (lambda: extend.PadBehaviour(reads=3), r"^reads of a PadBehaviour is a function, not 3$"),  # pyright: ignore
        (lambda: li.WeightPacking(DESC, DESC, channels=(9,)), r"^channels \(9,\) are no dims of \(2, 3, 4\)"),
        (lambda: li.WeightPacking(DESC, DESC, compensation="s8s8"), r"'s8s8' is no row"),  # pyright: ignore
        (lambda: LAYOUT.offsets(9), r"^dim 9 does not exist in shape 2x3x4$"),
        (lambda: LAYOUT.position_address((9, 9, 9)), r"is outside the padded box \(2, 3, 4\)"),
        (lambda: LAYOUT.nbytes(True), r"^unknown element type True"),
        (lambda: li.run(None), r"^a program is a ModuleOp of xDSL, not of type NoneType$"),  # pyright: ignore
        (lambda: LAYOUT.address(2.5), r"^index 2.5 is no row of integers$"),  # pyright: ignore
    ],
)
def test_negative_a_wrong_argument_is_named(call: Callable[[], Any], message: str):
    with pytest.raises(li.LayoutError, match=message):
        call()


def test_negative_a_call_that_does_not_fit_the_signature_is_a_type_error():
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'dim'"):
        li.concat([LAYOUT])  # pyright: ignore
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        LAYOUT.address((0, 0, 0), colour=1)  # pyright: ignore


def test_what_passes_through_is_what_it_was():
    @public
    def fails(error: BaseException) -> None:
        raise error

    for error in (
        li.LayoutError("foreseen"),
        FileNotFoundError("x"),
        ImportError("torch"),
        KeyboardInterrupt(),
    ):
        with pytest.raises(type(error)) as caught:
            fails(error)
        assert caught.value is error


def test_long_and_secret_values_are_not_printed():
    @public_methods
    class Thing:
        def method(self, *args: object) -> None:
            raise KeyError("x")

    with pytest.raises(UnforeseenError) as caught:
        Thing().method("y" * 1000, X, [1] * 100, 2**70)
    assert str(caught.value).startswith(
        f"Thing.method('{'y' * 40}'..., <ndarray>, [1, 1, 1, 1, 1, 1, 1, 1, ...], <int>): "
    )


def test_what_a_star_import_leaves_out_is_said_to_be_contract():
    contract = (Path(__file__).parents[1] / "docs" / "stability.md").read_text(encoding="utf-8")
    (row,) = [line for line in contract.splitlines() if line.startswith("| `layout_ir` |")]
    left_out = set(dir(li)) - set(li.__all__)
    assert left_out == {"__version__", "compile", "print"}
    assert all(f"`{name}`" in row for name in left_out)


def test_members_that_are_contract_of_classes_without_a_public_name_are_there():
    contract = (Path(__file__).parents[1] / "docs" / "stability.md").read_text(encoding="utf-8")
    for cls, members in (
        (Reorder, "address signature"),
        (ScaledReorder, "address signature"),
        (DynamicKernel, "address signature"),
        (Prepack, "nbytes"),
        (ReorderLibrary, "object header assembly ir symbols write"),
        (
            OptimizedModel,
            "model save target before after gain remaining obligations solution certificate notes",
        ),
        (Traffic, "count nbytes cost"),
        (Remaining, "value source target nbytes cost producer consumers reason removed_by is_at_boundary"),
        (Obligation, "name order nbytes"),
        (Explanation, "op nbytes producer consumer extra missing unit reason"),
    ):
        own = {*dir(cls), *getattr(cls, "__dataclass_fields__", ())}
        assert set(members.split()) <= own, cls
        assert all(f"`{member}`" in contract for member in members.split())


def test_errors_that_calls_raise_have_public_names():
    for error in (li.ProgramError, li.OnnxImportError, li.UnforeseenError):
        assert issubclass(error, li.LayoutError)
    with pytest.raises(li.OnnxImportError):
        li.from_onnx(b"no model")
    with pytest.raises(li.UnforeseenError):
        _defect()


@public
def _defect() -> int:
    return [0][1]


FLAGS: dict[str, Callable[[Any], object]] = {
    "compile(fuse)": lambda flag: li.compile(ModuleOp([]), fuse=flag),
    "compile(checked)": lambda flag: li.compile(ModuleOp([]), checked=flag),
    "compile(tune)": lambda flag: li.compile(ModuleOp([]), tune=flag),
    "compile(repeatable)": lambda flag: li.compile(ModuleOp([]), repeatable=flag),
    "optimize(attach)": lambda flag: li.optimize(ModuleOp([]), attach=flag),
    "optimize_onnx(certificate)": lambda flag: li.optimize_onnx(b"", certificate=flag),
    "from_onnx(keep_quantized)": lambda flag: li.from_onnx(b"", keep_quantized=flag),
    "open_layouts(arguments)": lambda flag: li.open_layouts(ModuleOp([]), arguments=flag),
    "open_layouts(results)": lambda flag: li.open_layouts(ModuleOp([]), results=flag),
    "reorder(saturate)": lambda flag: li.reorder(X, "abc", "cba", saturate=flag),
    "compile_reorder(saturate)": lambda flag: li.compile_reorder(DESC, DESC, saturate=flag),
    "compile_reorder(tune)": lambda flag: li.compile_reorder(DESC, DESC, tune=flag),
    "context(allow_unregistered)": lambda flag: li.context(allow_unregistered=flag),
    "parse(allow_unregistered)": lambda flag: li.parse("", allow_unregistered=flag),
    "to_text(generic)": lambda flag: li.to_text(ModuleOp([]), generic=flag),
    "to_text(for_irdl)": lambda flag: li.to_text(ModuleOp([]), for_irdl=flag),
    "print(generic)": lambda flag: li.print(ModuleOp([]), generic=flag),
    "WeightPacking(saturate)": lambda flag: li.WeightPacking(DESC, DESC, saturate=flag),
    "Target(refines_locally)": lambda flag: extend.Target("junk", refines_locally=flag),
    "Layout.addresses(padded)": lambda flag: LAYOUT.addresses(padded=flag),
    "Layout.offsets(padded)": lambda flag: LAYOUT.offsets(0, padded=flag),
    "Layout.is_injective(padded)": lambda flag: LAYOUT.is_injective(padded=flag),
    "Layout.reshape(keep_pads)": lambda flag: LAYOUT.reshape((24,), keep_pads=flag),
}


@pytest.mark.parametrize("name", FLAGS)
def test_negative_a_flag_is_true_or_false(name: str):
    flag = name.partition("(")[2].removesuffix(")")
    for value in ("no", "x", 3, 0, None):
        with pytest.raises(li.LayoutError, match=rf"^{flag} = {value!r} is no flag: expected True or False$"):
            FLAGS[name](value)


def test_public_calls_stay_themselves():
    assert (li.concat.__name__, li.Format.parse.__name__) == ("concat", "parse")
    assert pickle.loads(pickle.dumps(li.refine)) is li.refine
    assert pickle.loads(pickle.dumps(li.Format.parse)) is li.Format.parse
