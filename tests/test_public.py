"""Whatever a public call is given, what it raises is a LayoutError that says what was called."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Iterator
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
from layout_ir.passes.onnx.model_boundary import BoundaryChange
from layout_ir.passes.onnx.optimized_model import OptimizedModel, Traffic
from layout_ir.passes.onnx.remaining import Remaining
from tests.frontends.onnx.models import model, node

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
FORMAT = li.Format.parse("(a, b, c) : [a, b, c]")
LAYOUT = FORMAT.bind((2, 3, 4))
DESC = li.TensorDesc((2, 3, 4), "f32", "abc")

JUNK: dict[str, Any] = {
    "None": None, "5": 5, "-1": -1, "2.5": 2.5, "'x'": "x", "''": "", "b'ab'": b"ab", "[]": [], "[1, 'a']": [1, "a"],
    "{}": {}, "object": object(), "nan": float("nan"), "(None,)": (None,), "array": X, "2**70": 2**70, "True": True,
    "(2, -3)": (2, -3), "NUL": "\0", "format": FORMAT, "layout": LAYOUT, "desc": DESC,
    "array of no dims": np.array(3),
}  # fmt: skip

PROGRAM = """
func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32, #layout.tag<ba>> {
  %k = nn.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %y = nn.add %x, %k : tensor<2x2xf32>
  %z = layout.reorder %y : tensor<2x2xf32> -> tensor<2x2xf32, #layout.tag<ba>>
  func.return %z : tensor<2x2xf32, #layout.tag<ba>>
}
"""
MODULE = li.parse(PROGRAM)
MODEL = model([node("Relu", "x", "y")], {"x": (2, 3)})


def _register(op: Any, options: Any = None, pads: Any = None, semantics: Any = None) -> None:
    extend.register_op(op, options=options, pads=pads, semantics=semantics)


def _packing(
    source: Any, destination: Any, scale: Any = None, channels: Any = (), compensation: Any = ()
) -> Any:
    """What a packing holds is looked at where it is compiled."""
    return li.compile_prepack([li.WeightPacking(source, destination, scale, channels, compensation)])


CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "Format": (li.Format, (FORMAT.names, FORMAT.factors)),
    "Format.parse": (li.Format.parse, ("(a) : [a]",)),
    "Format.from_tag": (li.Format.from_tag, ("nchw",)),
    "Format.bind": (FORMAT.bind, ((2, 3, 4),)),
    "Layout.address": (LAYOUT.address, ((0, 0, 0),)),
    "Layout.expression": (LAYOUT.expression, (("a", "b", "c"), "c")),
    "Layout.inverse": (LAYOUT.inverse, (0,)),
    "Layout.slice": (LAYOUT.slice, ((0, 0, 0), (1, 1, 1))),
    "Layout.permute": (LAYOUT.permute, ((0, 1, 2),)),
    "Layout.reshape": (LAYOUT.reshape, ((24,),)),
    "Layout.same_map": (LAYOUT.same_map, (LAYOUT,)),
    "TensorDesc": (li.TensorDesc, ((2, 3, 4), "f32", "abc")),
    "Memory": (li.Memory, (DESC,)),
    "Memory.set": (li.Memory(DESC).set, (X,)),
    "WeightPacking": (_packing, (DESC, DESC)),
    "reorder": (li.reorder, (X, "abc", "cba")),
    "compile": (li.compile, (MODEL,)),
    "compile_object": (li.compile_object, (MODULE,)),
    "compile_prepack": (li.compile_prepack, ([li.WeightPacking(DESC, DESC)],)),
    "compile_reorder": (li.compile_reorder, (DESC, DESC)),
    "concat": (li.concat, ([LAYOUT, LAYOUT], 0)),
    "compose": (li.compose, (LAYOUT, LAYOUT)),
    "context": (li.context, ()),
    "explain": (li.explain, (MODULE,)),
    "formats": (li.formats, (MODULE,)),
    "from_onnx": (li.from_onnx, (MODEL,)),
    "layout_of": (li.layout_of, (TensorType(f32, [2]),)),
    "load_executable": (li.load_executable, ("none.exe",)),
    "open_layouts": (li.open_layouts, (MODULE,)),
    "optimize": (li.optimize, (MODULE,)),
    "optimize_onnx": (li.optimize_onnx, (MODEL,)),
    "parse": (li.parse, ("func.func private @f()",)),
    "peel": (li.peel, (10, [2])),
    "prepack": (li.prepack, ([X], "cba")),
    "print": (li.print, (MODULE,)),
    "refine": (li.refine, (LAYOUT, LAYOUT)),
    "run": (li.run, (MODULE, [np.ones((2, 2), np.float32)])),
    "split": (li.split, (LAYOUT, [1, 1], 0)),
    "to_mlir": (li.to_mlir, (MODULE,)),
    "to_onnx": (li.to_onnx, (MODULE,)),
    "to_text": (li.to_text, (MODULE,)),
    "extend.check_op": (extend.check_op, (MODULE,)),
    "extend.register_op": (_register, ("junk.op",)),
    "extend.register_target": (extend.register_target, (extend.Target("blocked8"),)),
    "extend.Target": (extend.Target, ("junk",)),
    "extend.Rates": (extend.Rates, (20, 1000)),
}
"""Public calls, and arguments that they take."""

NO_CALLS = {
    "HOLE": "a constant", "NONE": "a constant", "extend": "a module", "ir": "a module",
    "LayoutError": "an error, of anything", "OnnxImportError": "an error, of anything",
    "ProgramError": "an error, of anything", "UnforeseenError": "an error, of anything",
    "Factor": "a part of a Format, which looks at it", "Layout": "made by `Format.bind`, out of what was looked at",
    "Index": "a result", "Pad": "a result", "Nest": "a result", "Executable": "a result",
    "collect_remarks": "takes no arguments",
    "ascontiguousarray": "NumPy's, with its errors", "copyto": "NumPy's, with its errors",
    "transpose_copy": "NumPy's, with its errors",
}  # fmt: skip
"""Public names that are not called with junk, and why."""

NUMBERS = {"5", "2.5", "2**70"}
COUNTS = {"5", "2**70"}
EMPTY = {"''", "[]", "{}"}

ACCEPTED: dict[str, set[str]] = {
    # What is right by its type: junk only elsewhere.
    "Format.from_tag.tag": {"'x'"},
    "Layout.same_map.other": {"layout"},
    "TensorDesc.layout": {"format", "layout"},
    "Memory.desc": {"desc"},
    "Memory.buffer": {"array"},
    "WeightPacking.source": {"desc"},
    "WeightPacking.destination": {"desc"},
    "reorder.x": {"array"},
    "reorder.source": {"format"},
    "reorder.destination": {"format"},
    "compile_reorder.source": {"layout", "desc"},
    "compile_reorder.destination": {"layout", "desc"},
    "compose.outer": {"layout"},
    "compose.inner": {"layout"},
    "prepack.formats": {"format"},
    "refine.src": {"layout"},
    "refine.dst": {"layout"},
    "split.layout": {"layout"},
    # Names of files, of functions, of targets.
    "compile.cache_dir": {"'x'", "''"},
    "compile_object.name": {"'x'"},
    "compile_object.prefix": {"'x'"},
    "optimize.report": {"'x'"},
    "extend.Target.name": {"'x'"},
    "extend.Target.summary": {"'x'", "''", "NUL"},
    "extend.Target.panel": COUNTS,
    # Numbers: pads hold any, an address may be any, a limit has no bound, a Memory is filled with what NumPy casts.
    "Format.pad": {"5", "-1", "2.5"},
    "Format.offset": {"5", "-1"},
    "Format.size": {"5"},
    "Layout.inverse.address": {"-1", *COUNTS},
    "TensorDesc.offset": {"5", "-1"},
    "TensorDesc.pad": {"5", "-1", "2.5"},
    "TensorDesc.scale": NUMBERS,
    "Memory.set.values": {"None", "-1", "nan", "(None,)", "array", "True", *NUMBERS},
    "reorder.beta": {"-1", *NUMBERS},
    "reorder.threads": COUNTS,
    "compile.threads": {"5"},
    "compile.measure_seconds": NUMBERS,
    "compile_prepack.threads": COUNTS,
    "compile_reorder.beta": {"-1", *NUMBERS},
    "compile_reorder.threads": COUNTS,
    "optimize.time_limit": NUMBERS,
    "optimize.measure_seconds": NUMBERS,
    "optimize.threads": {"5"},
    "optimize_onnx.time_limit": {"None", *NUMBERS},
    "peel.extent": COUNTS,
    "prepack.threads": COUNTS,
    "to_text.elide_above": {"-1", *NUMBERS},
    "extend.Rates.bytes_per_ns": NUMBERS,
    "extend.Rates.call_ns": NUMBERS,
    "extend.Rates.operations_per_ns": NUMBERS,
    # Rows and tables of nothing, whatever they are written as.
    "Format.chunk_factors": EMPTY,
    "Format.lo": EMPTY,
    "WeightPacking.channels": EMPTY,
    "WeightPacking.compensation": EMPTY,
    "compile.shapes": {"{}"},
    "compile_prepack.packings": EMPTY,
    "context.without": EMPTY,
    "from_onnx.weights": {"{}"},
    "from_onnx.shapes": {"{}"},
    "optimize_onnx.shapes": {"{}"},
    "peel.units": EMPTY,
    "prepack.weights": EMPTY,
    "prepack.scales": {"(None,)"},
    "prepack.channels": EMPTY,
    "prepack.compensation": EMPTY,
    "run.constants": {"{}"},
    "extend.check_op.formats": {"''", "[]"},
}
"""Call and parameter -> what of the junk means something there. None does wherever it is the default."""

UNCHECKED: dict[str, set[str]] = {
    # A truth value is 1.
    "Format.offset": {"True"},
    "Format.size": {"True"},
    "Layout.inverse.address": {"True"},
    "TensorDesc.scale": {"True"},
    "reorder.beta": {"True"},
    "compile_reorder.beta": {"True"},
    "concat.dim": {"True"},
    "peel.extent": {"True"},
    "prepack.channels": {"True"},
    "TensorDesc.offset": {"True", "None"},
    "to_text.elide_above": {"True"},
    "extend.Target.panel": {"True"},
    # What is empty counts as left out.
    "TensorDesc.zero_point": {"None", *EMPTY},
    # A str is a row of letters, each a format of one dim.
    "extend.check_op.formats": {"'x'"},
    # Used where a layout has chunks.
    "Layout.expression.result": {*JUNK},
}  # fmt: skip
"""Call and parameter -> what of the junk is taken though it means nothing there, and is not to become more."""

FOREIGN: dict[str, tuple[type[Exception], ...]] = {
    "load_executable.path": (OSError,),  # a file that is not there
}
"""What is raised otherwise than as our error."""


def test_every_public_call_is_given_junk():
    public_names = {*li.__all__, "compile", "print"}
    assert not public_names - {*CALLS, *NO_CALLS}
    assert not NO_CALLS.keys() - public_names and not NO_CALLS.keys() & CALLS.keys()
    parameters = {
        f"{name}.{each}" for name, call in CALLS.items() for each in inspect.signature(call[0]).parameters
    }
    assert {*ACCEPTED, *UNCHECKED, *FOREIGN} <= parameters
    assert set().union(*ACCEPTED.values(), *UNCHECKED.values()) <= JUNK.keys()


@pytest.mark.parametrize("name", CALLS)
def test_negative_junk_is_refused_by_our_error_and_nothing_else(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    function, good = CALLS[name]
    wrong: list[str] = []
    for position, parameter in enumerate(inspect.signature(function).parameters.values()):
        place = f"{name}.{parameter.name}"
        known = ACCEPTED.get(place, set()) | UNCHECKED.get(place, set())
        known = known | {"True"} if parameter.annotation in (bool, "bool") else known
        known = known | {"None"} if parameter.default is None else known
        known = known | {"array of no dims"} if "5" in known else known  # an integer, as NumPy has it
        for junk, value in JUNK.items():
            args = list(_fresh(good))
            options: dict[str, Any] = {}
            if position < len(good):
                args[position] = value
            else:
                options[parameter.name] = value
            fails = _fails(function, args, options, FOREIGN.get(place, ()))
            if not fails and junk not in known:
                wrong.append(f"{place} = {junk}")
            if fails and junk in UNCHECKED.get(place, set()):
                wrong.append(f"{place} = {junk} is refused by now")
    assert not wrong


def _fresh(good: tuple[Any, ...]) -> Iterator[Any]:
    """The arguments, with programs that no other call has changed."""
    return (each.clone() if isinstance(each, ModuleOp) else each for each in good)


def _fails(
    function: Callable[..., Any],
    args: list[Any],
    options: dict[str, Any],
    foreign: tuple[type[Exception], ...],
) -> bool:
    try:
        function(*args, **options)
    except (li.LayoutError, *foreign):
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
        (BoundaryChange, "name order nbytes"),
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
