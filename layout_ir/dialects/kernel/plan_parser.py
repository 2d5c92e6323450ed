"""The text of a plan, as `str(plan)` writes it, back into the value.

    plan    = "width" N "src" N "dst" N ["convert" conversion] {step}
    step    = "step" "src" N "dst" N [channel] {loop ["parallel"] ["prefetch"]} kernel
    loop    = for | table | "positions" N "to" N "<" N ":" (for | table), ... ">"
    for     = "for" N "src" N "dst" N [channel]
    table   = "table" "<" N ":" N, ... ">" [channel]
    channel = "channel" N
    kernel  = ("copy" N [channel] [for] | "elements" N for | ...) ["streaming"] ["parallel"] ["{" {step} "}"]

Micro-kernels spell the fields of their classes; the steps in braces are those of a staging buffer. Words and numbers
are separated by spaces or lines alike. What was read is verified at once, so that an error points at the step, the loop
or the micro-kernel that it is about.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar, cast

from xdsl.context import Context
from xdsl.parser import AttrParser, Parser

from layout_ir.dialects.kernel.micro_kernel_verifier import PlanError
from layout_ir.dialects.kernel.plan import (
    ONCE,
    AnyLoop,
    Axis,
    Blocking,
    Copy,
    Elements,
    Fill,
    Interleave,
    Kernel,
    Level,
    Loop,
    PaddedCopy,
    Plan,
    Staged,
    Step,
    TableLoop,
    Tile,
    VariableBoundLoops,
)
from layout_ir.dialects.kernel.plan_verifier import check_plan
from layout_ir.elements.element_types import canonical_name
from layout_ir.elements.quantization import PARAMETERS, Conversion, Parameter
from layout_ir.errors import LayoutError

N = TypeVar("N", bound=Plan | Step | AnyLoop | Kernel)


def parse_plan(text: str) -> Plan:
    """The verified plan that `text` says. Raises ParseError where it says none."""
    parser = Parser(Context(), text)
    plan = read_plan(parser)
    if parser.pos != len(text):
        parser.raise_error("expected 'step' or the end of the plan")
    return plan


def read_plan(parser: AttrParser) -> Plan:
    """The verified plan whose text comes next. Raises ParseError where there is none."""
    return _Reader(parser).plan()


def read_integer(parser: AttrParser, below: int = 1 << 63) -> int:
    """The integer that comes next. Raises ParseError where there is none, or one not below `below` in magnitude."""
    start = parser.pos
    try:
        value = parser.parse_integer(allow_boolean=False)
    except ValueError:  # more digits than Python converts
        value = below
    if abs(value) >= below:
        parser.raise_error(f"the number is not below 2^{below.bit_length() - 1}", start, _end(parser, start))
    return value


def _end(parser: AttrParser, start: int) -> int:
    """The position at which the tokens that were read from `start` on end."""
    return start + max(len(parser.lexer.input.content[start : parser.pos].rstrip()), 1)


class _Reader:
    """Reads one plan, and remembers where its parts stand."""

    def __init__(self, parser: AttrParser) -> None:
        self.parser = parser
        self.spans: dict[int, tuple[int, int]] = {}
        """Where the text of each part of the plan begins and ends, by identity of the part."""
        self.staging = False
        """Whether what is read fills a staging buffer."""

    # Tokens ---------------------------------------------------------------------------------------------------------

    def integer(self, below: int = 1 << 63) -> int:
        return read_integer(self.parser, below)

    def after(self, *words: str) -> int:
        """The integer behind `words`."""
        for word in words:
            self.parser.parse_keyword(word)
        return self.integer()

    def has(self, word: str) -> bool:
        """Whether the next token is `word`; it is taken then."""
        return self.parser.parse_optional_keyword(word) is not None

    def optional(self, word: str) -> int:
        """The integer behind `word`, 0 where the word is not there."""
        return self.integer() if self.has(word) else 0

    def end(self, start: int) -> int:
        return _end(self.parser, start)

    def placed(self, node: N, start: int) -> N:
        """`node`, whose text begins at `start` and ends here."""
        self.spans[id(node)] = (start, self.end(start))
        return node

    # Plans and steps ------------------------------------------------------------------------------------------------

    def plan(self) -> Plan:
        start = self.parser.pos
        width, src, dst = self.after("width"), self.after("src"), self.after("dst")
        conversion = read_conversion(self.parser) if self.has("convert") else None
        head = start, self.end(start)
        plan = Plan(width, src, dst, self.steps(), conversion)
        try:
            check_plan(plan)
        except PlanError as error:
            self.parser.raise_error(str(error), *self.spans.get(id(error.node), head))
        return plan

    def steps(self) -> tuple[Step, ...]:
        steps: list[Step] = []
        start = self.parser.pos
        while self.has("step"):
            steps.append(self.step(start))
            start = self.parser.pos
        return tuple(steps)

    def step(self, start: int) -> Step:
        src, dst, channel = self.after("src"), self.after("dst"), self.optional("channel")
        head = start, self.end(start)
        loops: list[AnyLoop] = []
        parallel: list[int] = []
        prefetch: list[int] = []
        while (loop := self.loop()) is not None:
            for marked, word in ((parallel, "parallel"), (prefetch, "prefetch")):
                if self.has(word):
                    marked.append(len(loops))
            loops.append(loop)
        kernel, is_parallel = self.kernel()
        parallel += [len(loops)] if is_parallel else []
        for marked, word in ((parallel, "parallel"), (prefetch, "prefetch")):
            if len(marked) > 1:
                self.parser.raise_error(
                    f"at most one loop of a step is marked '{word}', not {len(marked)}", *head
                )
        step = Step(
            tuple(loops), src, dst, kernel, *(parallel or [-1]), prefetch=prefetch[0] if prefetch else None,
            channel=channel,
        )  # fmt: skip
        self.spans[id(step)] = head
        return step

    # Loops ----------------------------------------------------------------------------------------------------------

    def loop(self) -> AnyLoop | None:
        """A loop, None where there is none."""
        start = self.parser.pos
        if not self.has("positions"):
            return self.simple_loop()
        first, last = self.integer(), self.after("to")
        levels = self.parser.parse_comma_separated_list(self.parser.Delimiter.ANGLE, self.level)
        return self.placed(VariableBoundLoops(tuple(levels), first, last), start)

    def level(self) -> Level:
        unit = self.integer()
        self.parser.parse_punctuation(":")
        loop = self.simple_loop()
        return Level(unit, self.parser.raise_error("expected 'for' or 'table'") if loop is None else loop)

    def simple_loop(self) -> Loop | TableLoop | None:
        start = self.parser.pos
        if not self.has("table"):
            return self.constant_loop()
        entries = self.parser.parse_comma_separated_list(self.parser.Delimiter.ANGLE, self.entry)
        src, dst = tuple(src for src, _ in entries), tuple(dst for _, dst in entries)
        return self.placed(TableLoop(src, dst, self.optional("channel")), start)

    def constant_loop(self) -> Loop | None:
        start = self.parser.pos
        if not self.has("for"):
            return None
        count, src, dst = self.integer(), self.after("src"), self.after("dst")
        return self.placed(Loop(count, src, dst, channel=self.optional("channel")), start)

    def entry(self) -> tuple[int, int]:
        src = self.integer()
        self.parser.parse_punctuation(":")
        return src, self.integer()

    # Micro-kernels --------------------------------------------------------------------------------------------------

    def kernel(self) -> tuple[Kernel, bool]:
        """A micro-kernel, and whether its own loop is parallel."""
        start = self.parser.pos
        kinds: dict[str, Callable[[], Kernel]] = {
            "copy": self.copy,
            "tile": self.tile,
            "interleave": lambda: self.interleave(inverse=False),
            "deinterleave": lambda: self.interleave(inverse=True),
            "elements": self.elements,
            "fill": self.fill,
            "padded_copy": self.padded_copy,
            "staged": self.staged,
        }
        word = self.parser.parse_optional_keyword_in(kinds)
        if word is None:
            self.parser.raise_error(
                f"expected a loop or a micro-kernel: for, table, positions, {', '.join(kinds)}"
            )
        kernel = kinds[word]()
        if self.has("streaming"):
            kernel = replace(kernel, streaming=True)
        parallel = self.has("parallel")
        head = start, self.end(start)
        if isinstance(kernel, Staged):
            steps = self.staged_steps(head)
            kernel = replace(kernel, steps=steps, then=self.staged_steps(head) if self.has("then") else ())
        self.spans[id(kernel)] = head
        return kernel, parallel

    def inner(self) -> Loop:
        return self.constant_loop() or ONCE

    def copy(self) -> Copy:
        run, channel = self.integer(), self.optional("channel")
        return Copy(run, self.inner(), channel=channel)

    def elements(self) -> Elements:
        width, inner = self.integer(), self.constant_loop()
        return Elements(width, self.parser.raise_error("expected 'for'") if inner is None else inner)

    def fill(self) -> Fill:
        run, value, width = self.integer(), self.bits("with"), self.after("width")
        return Fill(width, value, run, self.inner())

    def padded_copy(self) -> PaddedCopy:
        valid, run, value, width = self.integer(), self.after("of"), self.bits("with"), self.after("width")
        return PaddedCopy(width, value, valid, run, self.inner())

    def bits(self, word: str) -> int:
        """The bits of a pad behind `word`: an integer that need not be below 2^63."""
        self.parser.parse_keyword(word)
        return self.integer(below=1 << 64)

    def tile(self) -> Tile:
        width = self.integer()
        self.parser.parse_keyword("rows")
        rows = self.axis()
        self.parser.parse_keyword("cols")
        cols = self.axis()
        self.parser.parse_keyword("schedule")
        schedule = self.parser.parse_comma_separated_list(self.parser.Delimiter.ANGLE, self.blocking)
        valid, pad = (self.integer(), self.bits("pad")) if self.has("valid") else (0, 0)
        square, distance = self.has("square"), self.optional("prefetch_distance")
        return Tile(width, rows, cols, tuple(schedule), False, valid, pad, square, distance)

    def axis(self) -> Axis:
        count, stride = self.integer(), self.after("by")
        fold, outer_stride = (self.integer(), self.after("by")) if self.has("fold") else (0, 0)
        return Axis(count, stride, fold, outer_stride, self.optional("channel"))

    def blocking(self) -> Blocking:
        return Blocking(self.parser.parse_keyword_in(("rows", "cols")), self.integer())

    def interleave(self, *, inverse: bool) -> Interleave:
        width, ways, count, stride = self.integer(), self.after("ways"), self.after("of"), self.after("by")
        channel, block = self.optional("channel"), self.after("block")
        return Interleave(width, ways, count, stride, inverse, block, channel=channel)

    def staged(self) -> Staged:
        size = self.integer()
        rows = (self.integer(), self.after("by"), self.after("row_stride")) if self.has("rows") else (1, 0, 0)
        times = (self.integer(), self.after("src")) if self.has("iterations") else (1, 0)
        return Staged(size, (), False, *rows, *times)

    def staged_steps(self, head: tuple[int, int]) -> tuple[Step, ...]:
        """The steps in braces that fill or empty the staging buffer whose own text is at `head`."""
        if self.staging:  # and texts that go on so would exhaust the stack
            self.parser.raise_error("there is one staging buffer: it is not filled from another", *head)
        self.staging = True
        self.parser.parse_punctuation("{")
        steps = self.steps()
        self.parser.parse_punctuation("}")
        self.staging = False
        return steps


# Conversions ---------------------------------------------------------------------------------------------------------


def read_conversion(parser: AttrParser) -> Conversion:
    """The conversion `<f32 to i8, dst_scale 0.5>` that comes next. Raises ParseError where there is none."""
    with parser.in_angle_brackets():
        src = _read_dtype(parser)
        parser.parse_keyword("to")
        dst = _read_dtype(parser)
        found: dict[str, Parameter] = {}
        dim, channels, saturate = None, 0, False
        while parser.parse_optional_punctuation(",") is not None:
            if parser.parse_optional_keyword("dim") is not None:
                dim = read_integer(parser)
                parser.parse_keyword("of")
                channels = read_integer(parser)
                break
            if parser.parse_optional_keyword("saturate") is not None:
                saturate = True
                continue
            name = parser.parse_identifier(context_msg="a parameter")
            if name not in PARAMETERS:
                parser.raise_error(f"unknown parameter '{name}', expected {', '.join(PARAMETERS)}")
            kind = parser.parse_optional_keyword_in(("tensor", "channel"))
            found[name] = _read_parameters(parser) if kind is None else cast("Parameter", kind)
        try:
            return Conversion(src, dst, **found, dim=dim, channels=channels, saturate=saturate)
        except LayoutError as error:
            parser.raise_error(str(error))


def _read_parameters(parser: AttrParser) -> Parameter:
    numbers = parser.parse_optional_comma_separated_list(parser.Delimiter.SQUARE, lambda: _read_float(parser))
    return _read_float(parser) if numbers is None else tuple(numbers)


def _read_float(parser: AttrParser) -> float:
    start = parser.pos
    try:
        return float(parser.parse_number())
    except (
        ValueError,
        OverflowError,
    ):  # an integer of more digits than Python converts, or than a float holds
        parser.raise_error("the number is beyond those of f64", start, _end(parser, start))


def _read_dtype(parser: AttrParser) -> str:
    name = parser.parse_identifier(context_msg="an element type")
    try:
        return canonical_name(name)
    except LayoutError as error:
        parser.raise_error(str(error))
