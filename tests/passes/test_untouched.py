"""What is not connected to an open layout goes through every pass as it is, whatever its types and ops are.

Each piece stands beside a function whose layouts are chosen, in one module; that function must come out as it does
alone, and the piece as it went in.
"""

from __future__ import annotations

from functools import cache

import pytest
from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.parser import Parser

from layout_ir.diagnostics import PassError
from layout_ir.dialects.layout import format_of, is_any, is_tensor
from layout_ir.registry import DIALECTS, PASSES

MAIN = """
!A = tensor<1x16x8x8xf32, #layout.any>
!W = tensor<16x16x3x3xf32, #layout.any>
func.func @main(%x : tensor<1x16x8x8xf32>, %w : tensor<16x16x3x3xf32>) -> tensor<1x16x8x8xf32> {
  %a = layout.reorder %x : tensor<1x16x8x8xf32> -> tensor<1x16x8x8xf32, #layout.any>
  %v = layout.reorder %w : tensor<16x16x3x3xf32> -> tensor<16x16x3x3xf32, #layout.any>
  %c = nn.conv %a, %v pads = [1, 1, 1, 1] : (!A, !W) -> !A
  %r = layout.reorder %c : tensor<1x16x8x8xf32, #layout.any> -> tensor<1x16x8x8xf32>
  func.return %r : tensor<1x16x8x8xf32>
}"""

TYPES = {
    "dynamic": "tensor<?x4xf32>",
    "dynamic with a format": "tensor<?x4xf32, #layout.format<(a, b) : [b, a]>>",
    "index": "tensor<4xindex>",
    "complex": "tensor<4xcomplex<f32>>",
    "f8": "tensor<4xf8E4M3FN>",
    "vectors": "tensor<4xvector<2xf32>>",
    "unranked": "tensor<*xf32>",
    "a foreign encoding": 'tensor<4xf32, "sparse">',
    "another foreign encoding": "tensor<4xf32, dense<1> : tensor<1xi32>>",
    "opaque": 'tensor<4xf32, #layout.opaque<"winograd", 4096>>',
    "no tensor": "memref<4x?xf32>",
    "blocked and never told to anyone": "tensor<1x17x2x2xf32, #layout.format<(n, c, h, w) : [n, c, h, w, c:8]>>",
}
PIECES = {
    "passed through": "func.func @piece(%x : T) -> T {\n func.return %x : T\n}",
    "an op nobody knows": 'func.func @piece(%x : T) -> T {\n %y = "my.op"(%x) : (T) -> T\n func.return %y : T\n}',
    "several results": 'func.func @piece(%x : T) {\n %y:2 = "my.op"(%x, %x) : (T, T) -> (T, T)\n func.return\n}',
    "a region whose block takes it": """
func.func @piece(%x : T) -> T {
  %y = "my.loop"(%x) ({
  ^bb0(%a : T, %i : index):
    %b = "my.step"(%a) : (T) -> T
    "my.yield"(%b) : (T) -> ()
  }) : (T) -> T
  func.return %y : T
}""",
    "two regions": """
func.func @piece(%x : T) {
  "my.both"(%x) ({
  ^bb0(%a : T):
    "my.yield"(%a) : (T) -> ()
  }, {
  ^bb0(%a : T, %b : T):
    "my.yield"() : () -> ()
  }) : (T) -> ()
  func.return
}""",
    "scf": """
func.func @piece(%x : T, %c : i1, %n : index) -> T {
  %y = scf.if %c -> (T) {
    scf.yield %x : T
  } else {
    %z = "my.op"(%x) : (T) -> T
    scf.yield %z : T
  }
  %f = scf.for %i = %n to %n step %n iter_args(%a = %y) -> (T) {
    scf.yield %a : T
  }
  %w = scf.while (%a = %f) : (T) -> T {
    scf.condition(%c) %a : T
  } do {
  ^bb0(%b : T):
    scf.yield %b : T
  }
  func.return %w : T
}""",
    "branches": """
func.func @piece(%x : T, %c : i1) -> T {
  cf.cond_br %c, ^a(%x : T), ^b(%x, %x : T, T)
^a(%y : T):
  cf.br ^b(%y, %x : T, T)
^b(%z : T, %u : T):
  func.return %z : T
}""",
    "calls": """
func.func @piece(%x : T) -> T {
  %y = func.call @other(%x) : (T) -> T
  %z = func.call @outside(%y) : (T) -> T
  func.return %z : T
}
func.func @other(%x : T) -> T {
  func.return %x : T
}
func.func private @outside(T) -> T""",
    "a call of what is not there": """
func.func @piece(%x : T) -> T {
  %y = func.call @nowhere(%x) : (T) -> T
  func.return %y : T
}""",
    "an op that is a function elsewhere": """
"my.func"() ({
^bb0(%x : T):
  "my.return"(%x) : (T) -> ()
}) : () -> ()""",
    "a loop of values": """
"my.graph"() ({
  %a = "my.op"(%b) : (T) -> T
  %b = "my.op"(%a) : (T) -> T
}) : () -> ()""",
}
STRIPPED = {"dynamic with a format", "opaque", "blocked and never told to anyone"}


def _context() -> Context:
    context = Context(allow_unregistered=True)
    for name, load in {**get_all_dialects(), **DIALECTS}.items():
        context.register_dialect(name, load)
    return context


def _parse(text: str) -> ModuleOp:
    return Parser(_context(), text).parse_module(True)


def _run(name: str, module: ModuleOp) -> None:
    options = (
        {"target": "blocked8"} if name in ("layout-propagate", "layout-optimize", "layout-explain") else {}
    )
    PASSES[name]()(**options).apply(_context(), module)  # pyright: ignore


def _parts(module: ModuleOp) -> tuple[str, str]:
    """The text of @main (and of what passes add behind it), and that of the rest."""
    main, rest = "", ""
    for op in module.ops:
        mine = (isinstance(op, FuncOp) and op.sym_name.data == "main") or op.name.startswith("kernel.")
        main, rest = (main + f"{op}\n", rest) if mine else (main, rest + f"{op}\n")
    return main, rest


def _after(name: str, module: ModuleOp) -> tuple[str, str]:
    """`_parts` of the module behind pass `name`."""
    if name.startswith("convert-"):
        _run("layout-optimize", module)
    _run(name, module)
    return _parts(module)


@cache
def _main_alone(name: str) -> str:
    return _after(name, _parse(MAIN))[0]


@pytest.mark.parametrize("type", TYPES)
def test_what_has_no_open_layout_goes_through(type: str):
    text = MAIN
    for number, piece in enumerate(PIECES.values()):
        for name in ("piece", "other", "outside"):
            piece = piece.replace(f"@{name}", f"@{name}_{number}")
        text += "\n" + piece.replace("T", TYPES[type])
    parsed = _parse(text)
    before = _parts(parsed.clone())[1]  # which gives blocks names of its own
    for name in PASSES:
        module = parsed.clone()
        if name == "convert-layout-to-loops" and type not in ("no tensor", "unranked"):
            # Of tensors, nothing is to be left.
            with pytest.raises(
                PassError, match=r"as loops|no physical form|encoding bufferization would drop"
            ):
                _after(name, module)
            continue
        is_encoded = type in STRIPPED or (name == "convert-layout-to-linalg" and "foreign encoding" in type)
        if name in ("convert-layout-to-physical", "convert-layout-to-linalg") and is_encoded:
            with pytest.raises(PassError, match=r"has no physical form|encoding bufferization would drop"):
                _after(name, module)
            continue
        main, rest = _after(name, module)
        assert main == _main_alone(name), name
        if not (name == "layout-strip" and type in STRIPPED):
            assert rest == before, name


# Beside an open layout ----------------------------------------------------------------------------------------------

ANY = "tensor<1x16x8x8xf32, #layout.any>"
MIXED = {
    "an operand": '%y = "my.op"(%c, %t) : (ANY, T) -> ANY',
    "a result": '%y, %u = "my.op"(%c) : (ANY) -> (ANY, T)',
    "a region": """
  %y = "my.loop"(%c, %t) ({
  ^bb0(%a : ANY, %b : T):
    %d = nn.relu %a : ANY
    "my.yield"(%d, %b) : (ANY, T) -> ()
  }) : (ANY, T) -> ANY""",
    "a loop that carries both": """
  %y, %u = scf.for %i = %n to %n step %n iter_args(%a = %c, %b = %t) -> (ANY, T) {
    %d = nn.relu %a : ANY
    scf.yield %d, %b : ANY, T
  }""",
    "a call": "%y, %u = func.call @both(%c, %t) : (ANY, T) -> (ANY, T)",
    "a branch": """
  cf.br ^next(%c, %t : ANY, T)
^next(%y : ANY, %b : T):""",
}


@pytest.mark.parametrize("type", TYPES)
def test_what_is_beside_an_open_layout_stays_and_the_layout_is_chosen(type: str):
    text = "".join(
        f"""
func.func @main_{number}(%x : ANY, %w : tensor<16x16x3x3xf32, #layout.any>, %t : T, %n : index) -> ANY {{
  %c = nn.conv %x, %w pads = [1, 1, 1, 1] : (ANY, tensor<16x16x3x3xf32, #layout.any>) -> ANY
  {mixed}
  %z = nn.relu %y : ANY
  func.return %z : ANY
}}"""
        for number, mixed in enumerate(MIXED.values())
    )
    text += """
func.func @both(%x : ANY, %t : T) -> (ANY, T) {
  func.return %x, %t : ANY, T
}"""
    module = _parse(text.replace("ANY", ANY).replace("T", TYPES[type]))
    types = [str(v.type) for op in module.walk() for v in op.results if "#layout.any" not in str(v.type)]
    _run("layout-optimize", module)
    after = [str(v.type) for op in module.walk() for v in op.results]
    assert all(type in after for type in types)
    for op in module.walk():
        for value in (*op.results, *(a for region in op.regions for b in region.blocks for a in b.args)):
            assert not (is_tensor(value.type) and is_any(value.type))
        if op.name.startswith("builtin.unregistered"):
            formats = [format_of(v.type) for v in (*op.operands, *op.results) if is_tensor(v.type)]
            chosen = [fmt for fmt in formats if fmt is not None and fmt.rank == 4 and "c:8" in str(fmt)]
            assert not chosen or type.startswith("blocked"), "what nobody knows takes row-major tensors"


@pytest.mark.parametrize(
    ("type", "reason"),
    [
        ("tensor<?x4xf32, #layout.any>", "its extents must be static"),
        ("tensor<4xindex, #layout.any>", "tensors of index have no layout"),
        ("tensor<4xcomplex<f32>, #layout.any>", "tensors of complex<f32> have no layout"),
    ],
)
@pytest.mark.parametrize("name", ["layout-propagate", "layout-optimize"])
def test_negative_a_layout_that_cannot_be_chosen_is_an_error_at_its_op(name: str, type: str, reason: str):
    module = _parse(f'%a = "my.op"() : () -> {type}')
    with pytest.raises(PassError, match=f"no layout can be chosen for .*: {reason}"):
        _run(name, module)
