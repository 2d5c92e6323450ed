"""The scalar bodies of named linalg ops, as ops of arith, math and complex on the element types of the operands.

A body is a function from the block's arguments (inputs, then the accumulator) to the value that is yielded; `Builder`
has the arithmetic, which picks the op by the type: floats, integers, complex numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from xdsl.dialects import arith, complex, math
from xdsl.dialects.builtin import (
    AnyFloat,
    ComplexType,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    Signedness,
    TensorType,
    f64,
    i32,
    i64,
)
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.ops import YieldOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.utils.exceptions import VerifyException

from layout_ir.errors import LayoutError

_FAMILIES: dict[str, dict[str, type[IRDLOperation]]] = {
    "add": {"float": arith.AddfOp, "int": arith.AddiOp, "bool": arith.OrIOp, "complex": complex.AddOp},
    "sub": {"float": arith.SubfOp, "int": arith.SubiOp, "complex": complex.SubOp},
    "mul": {"float": arith.MulfOp, "int": arith.MuliOp, "bool": arith.AndIOp, "complex": complex.MulOp},
    "div": {"float": arith.DivfOp, "int": arith.DivSIOp, "complex": complex.DivOp},
    "div_unsigned": {"int": arith.DivUIOp},
    "max": {"float": arith.MaximumfOp, "int": arith.MaxSIOp},
    "max_signed": {"float": arith.MaximumfOp, "int": arith.MaxSIOp},
    "max_unsigned": {"int": arith.MaxUIOp},
    "min": {"float": arith.MinimumfOp, "int": arith.MinSIOp},
    "min_signed": {"float": arith.MinimumfOp, "int": arith.MinSIOp},
    "min_unsigned": {"int": arith.MinUIOp},
    "powf": {"float": math.PowFOp},
    "abs": {"float": math.AbsFOp, "int": math.AbsIOp},
    "ceil": {"float": math.CeilOp},
    "erf": {"float": math.ErfOp},
    "exp": {"float": math.ExpOp, "complex": complex.ExpOp},
    "floor": {"float": math.FloorOp},
    "log": {"float": math.LogOp, "complex": complex.LogOp},
    "negf": {"float": arith.NegfOp, "complex": complex.NegOp},
    "round": {"float": math.RoundOp},
    "rsqrt": {"float": math.RsqrtOp, "complex": complex.RsqrtOp},
    "sqrt": {"float": math.SqrtOp, "complex": complex.SqrtOp},
    "tanh": {"float": math.TanhOp, "complex": complex.TanhOp},
}
"""The op of a scalar function, by the family of its operands' type; booleans are integers where they have no entry."""


class IndexOp(linalg.IndexOp):
    """`linalg.index`, the index of a loop of any structured op."""

    def verify_(self) -> None:
        """In place of the verifier of the base class, which wants it in a `linalg.generic`."""
        if not isinstance(self.properties.get("dim"), IntegerAttr) or self.result_types != (IndexType(),):
            raise VerifyException("it has a number 'dim', and an index as its result")
        around = self.parent_op()
        if not isinstance(around, LinalgStructuredOperation):
            name = "nothing" if around is None else around.name
            raise VerifyException(f"it stands in the body of a structured op of linalg, not of {name}")
        loops, dim = len(around.get_iterator_types()), self.dim.value.data
        if not 0 <= dim < loops:
            raise VerifyException(f"dim {dim} is none of the {loops} loops of {around.name}")


def _family(type: Attribute) -> str:
    if isinstance(type, AnyFloat):
        return "float"
    if isinstance(type, IndexType) or type.name == IntegerType.name:
        return "bool" if _width(type) == 1 else "int"
    return "complex" if type.name == ComplexType.name else "other"


class Arithmetic:
    """Adds ops to a block. `unsigned`: integers that are converted count as unsigned."""

    def __init__(self, block: Block, *, unsigned: bool):
        self.block = block
        self.unsigned = unsigned

    def _add(self, op: Operation) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]

    def apply(self, function: str, *values: SSAValue) -> SSAValue:
        """`function` of values of one type. Raises LayoutError where there is no such op on that type."""
        type = values[0].type
        if any(value.type != type for value in values):
            raise LayoutError(
                f"{function} needs operands of one type, not {', '.join(str(v.type) for v in values)}"
            )
        classes, family = _FAMILIES[function], _family(type)
        found = classes.get(family) or (classes.get("int") if family == "bool" else None)
        if found is None:
            raise LayoutError(f"{function} is not defined on elements of {type}")
        count = len(found.get_irdl_definition().operands)
        if count != len(values):
            raise LayoutError(f"{function} takes {count} operands, not {len(values)}")
        return self._add(found.create(operands=values, result_types=[type], properties=_flags(found)))

    def constant(self, value: float, type: Attribute) -> SSAValue:
        """A number of a float or an integer type."""
        if isinstance(type, AnyFloat):
            return self._add(arith.ConstantOp(FloatAttr(value, type)))
        return self._add(arith.ConstantOp(IntegerAttr(int(value), cast("IntegerType", type))))

    def index(self, loop: int, type: Attribute) -> SSAValue:
        """The index of a loop as an integer."""
        index = self._add(IndexOp(loop))
        return self._add(arith.IndexCastOp.create(operands=[index], result_types=[type]))

    def select(self, condition: SSAValue, then: SSAValue, otherwise: SSAValue) -> SSAValue:
        """`then` where the condition holds."""
        return self._add(arith.SelectOp(condition, then, otherwise))

    def convert(self, value: SSAValue, type: Attribute) -> SSAValue:
        """`value` in another type. Raises LayoutError where no conversion is known."""
        if value.type == type:
            return value
        if _family(type) == "complex" and _family(value.type) != "complex":
            inner = cast("ComplexType[AnyFloat]", type).element_type
            part = self.convert(value, inner)
            zero = self._add(arith.ConstantOp(FloatAttr(0.0, inner)))
            return self._add(complex.CreateOp.create(operands=[part, zero], result_types=[type]))
        here, there = (("int" if _family(t) == "bool" else _family(t)) for t in (value.type, type))
        wider = _width(type) > _width(value.type)
        unsigned = self.unsigned
        found: dict[tuple[str, str], type[Operation]] = {
            ("int", "int"): (arith.ExtUIOp if unsigned else arith.ExtSIOp) if wider else arith.TruncIOp,
            ("int", "float"): arith.UIToFPOp if unsigned else arith.SIToFPOp,
            ("float", "int"): arith.FPToUIOp if unsigned else arith.FPToSIOp,
            ("float", "float"): arith.ExtFOp if wider else arith.TruncFOp,
        }
        if IndexType() in (value.type, type) or (here, there) not in found:
            raise LayoutError(f"an element of {value.type} is not converted to {type}")
        return self._add(found[here, there].create(operands=[value], result_types=[type]))


def _flags(op: type[Operation]) -> dict[str, Attribute]:
    """The flags that MLIR's arith and math ops always have; xDSL's verifiers ask for some of them."""
    if op.name in ("arith.addi", "arith.subi", "arith.muli"):
        return {"overflowFlags": arith.IntegerOverflowAttr("none")}
    is_float = op.name in {f"arith.{name}" for name in _FAST} or op.name.startswith("math.")
    return {"fastmath": arith.FastMathFlagsAttr("none")} if is_float and op is not math.AbsIOp else {}


_FAST = ("addf", "subf", "mulf", "divf", "negf", "maximumf", "minimumf")


def _width(type: Attribute) -> int:
    if isinstance(type, IntegerType):
        return cast("IntegerType[int, Signedness]", type).width.data
    return type.bitwidth if isinstance(type, AnyFloat) else 0


Body = Callable[[Arithmetic, Sequence[SSAValue]], SSAValue]
"""(arithmetic, the arguments of the block) -> the value that is yielded."""


def _multiply_add(a: Arithmetic, args: Sequence[SSAValue]) -> SSAValue:
    x, y, accumulator = args
    product = a.apply("mul", a.convert(x, accumulator.type), a.convert(y, accumulator.type))
    return a.apply("add", accumulator, product)


def _multiply_add_offset(a: Arithmetic, args: Sequence[SSAValue]) -> SSAValue:
    """The product of differences from zero points."""
    x, y, x_zero, y_zero, accumulator = args
    x = a.apply("sub", a.convert(x, accumulator.type), a.convert(x_zero, accumulator.type))
    y = a.apply("sub", a.convert(y, accumulator.type), a.convert(y_zero, accumulator.type))
    return a.apply("add", accumulator, a.apply("mul", x, y))


def _pool(function: str) -> Body:
    def body(a: Arithmetic, args: Sequence[SSAValue]) -> SSAValue:
        element, _, accumulator = args
        unsigned = Arithmetic(a.block, unsigned=a.unsigned or function.endswith("unsigned"))
        return a.apply(function, accumulator, unsigned.convert(element, accumulator.type))

    return body


def _convert_first(a: Arithmetic, args: Sequence[SSAValue]) -> SSAValue:
    return a.convert(args[0], args[-1].type)


def _plain(function: str) -> Body:
    return lambda a, args: a.apply(function, *(a.convert(arg, args[-1].type) for arg in args[:-1]))


def _reciprocal(a: Arithmetic, args: Sequence[SSAValue]) -> SSAValue:
    x = a.convert(args[0], args[-1].type)
    if _family(x.type) != "float":
        raise LayoutError(f"reciprocal is not defined on elements of {x.type}")
    return a.apply("div", a.constant(1.0, x.type), x)


def _square(a: Arithmetic, args: Sequence[SSAValue]) -> SSAValue:
    x = a.convert(args[0], args[-1].type)
    return a.apply("mul", x, x)


def _random(a: Arithmetic, args: Sequence[SSAValue]) -> SSAValue:
    """A number between two bounds: a linear congruential generator steps from the seed by the row, then by the column.
    Its 32 bits, signed, are scaled to the bounds."""
    low, high, state, accumulator = args
    if (low.type, high.type, state.type) != (f64, f64, i32):
        raise LayoutError(
            f"bounds and seed are f64, f64 and i32, not {low.type}, {high.type} and {state.type}"
        )
    half = a.convert(a.constant((1 << 31) - 1, i64), f64)
    column, row = a.index(1, i32), a.index(0, i32)
    for index in (row, column):
        state = a.apply("add", index, state)
        state = a.apply("mul", state, a.convert(a.constant(1103515245, i64), i32))
        state = a.apply("add", state, a.convert(a.constant(12345, i64), i32))
    above = a.apply("add", half, a.convert(state, f64))
    scale = a.apply("mul", a.apply("sub", high, low), a.constant(2.3283064e-10, f64))
    return a.convert(a.apply("add", a.apply("mul", above, scale), low), accumulator.type)


ELEMENTWISE_BODIES: dict[str, Body] = {
    **{name: _plain(name) for name in _FAMILIES if not name.endswith(("x_signed", "n_signed", "_unsigned"))},
    "div_unsigned": _plain("div_unsigned"),
    "reciprocal": _reciprocal,
    "square": _square,
    "select": lambda a, args: a.select(args[0], args[1], args[2]),
}
"""The bodies of elementwise ops, by the name behind `linalg.` and in `linalg.elementwise_kind`."""

BODIES: dict[str, Body] = {
    **ELEMENTWISE_BODIES,
    "max_signed": _plain("max"),
    "min_signed": _plain("min"),
    "max_unsigned": _plain("max_unsigned"),
    "min_unsigned": _plain("min_unsigned"),
    "copy": _convert_first,
    "fill": _convert_first,
    "fill_rng": _random,
    "multiply_add": _multiply_add,
    "multiply_add_offset": _multiply_add_offset,
    "pool_sum": _pool("add"),
    "pool_max": _pool("max"),
    "pool_max_unsigned": _pool("max_unsigned"),
    "pool_min": _pool("min"),
    "pool_min_unsigned": _pool("min_unsigned"),
}
"""All bodies, by name."""


def element_of(type: Attribute) -> Attribute:
    """The type of one element of a tensor or memref; that of a scalar itself."""
    return type.element_type if isinstance(type, TensorType | MemRefType) else type  # pyright: ignore


def body_region(body: Body, operands: Sequence[SSAValue], *, unsigned: bool) -> Region:
    """A region with `body` on one element of each operand. Raises LayoutError where it has no meaning on them."""
    block = Block(arg_types=[element_of(value.type) for value in operands])
    try:
        result = body(Arithmetic(block, unsigned=unsigned), block.args)
    except (ValueError, TypeError) as error:
        if isinstance(error, LayoutError):
            raise
        raise LayoutError(f"the body takes another number of operands than {len(operands)}") from error
    block.add_op(YieldOp(result))
    return Region(block)
