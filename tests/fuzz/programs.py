"""IR: mutants of the programs of all tests, read, checked, printed and sent through the passes.

An input is a program behind a line `// layout-opt ARGS`. With `--validate=execute` a pass that changes what the
program computes is a failure too.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable, Iterator
from functools import cache
from random import Random

from xdsl.context import Context
from xdsl.dialects import get_all_dialects

from layout_ir.frontends.mlir.locations import LocatedParser
from layout_ir.frontends.mlir.verify_module import verify_module
from layout_ir.registry import DIALECTS
from layout_ir.tools.commands.optimize import TARGETS
from tests.fuzz.kinds import ROOT, Kind, Wrong
from tests.fuzz.mutation import SMALL, TextMutator
from tests.fuzz.tools import call

_SPLIT = re.compile(r"^// -----.*$", re.MULTILINE)
_COMMENT = re.compile(r"^\s*// (?:RUN|CHECK).*\n", re.MULTILINE)
_MOST = 6000
"""Characters of a program: on larger ones most of the time goes into reading."""


@cache
def programs() -> tuple[str, ...]:
    """The programs of the text tests, of the examples and of the Python tests."""
    found: list[str] = []
    for path in (
        *sorted((ROOT / "filecheck").rglob("*.mlir")),
        *sorted((ROOT / "examples").glob("*.mlir")),
    ):
        found += _SPLIT.split(path.read_text(encoding="utf-8"))
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if path.parent.name == "fuzz":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
                if "func.func" in text or "layout.reorder" in text or "kernel.plan" in text:
                    found.append(text)
    cleaned = (_COMMENT.sub("", text).strip() + "\n" for text in found)
    return tuple(dict.fromkeys(text for text in cleaned if 10 < len(text) < _MOST))


@cache
def _is_right(text: str) -> bool:
    """Whether a text is a program by itself: mutants of a fragment never get past the parser."""
    try:
        module = LocatedParser(_context(), text, "x").parse_program(True)
    except Exception:  # what is wrong with it, its own test knows
        return False
    return not verify_module(module)


@cache
def _context() -> Context:
    context = Context(allow_unregistered=True)
    for name, load in {**get_all_dialects(), **DIALECTS}.items():
        context.register_dialect(name, load)
    return context


def right_program(rng: Random) -> str:
    """One of the programs that are right, mostly; now and then any text."""
    while True:
        text = rng.choice(programs())
        if rng.random() < 0.05 or _is_right(text):
            return text


_EXTENT = re.compile(r"(?<![\w.])\d+(?=x)")
_ELEMENT = re.compile(r"(?<=x)(?:f16|f32|f64|bf16|i1|i8|i16|i32|i64|ui8|si8|index)\b")
_FORMAT = re.compile(r"#layout\.(?:tag<\w+>|format<[^<>]*>)")
_ALIAS = re.compile(r"#[A-Za-z_]\w*(?!\.|\w)")
_LITERAL = re.compile(r"(?<![\w.%#@])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.])")
_POLICY = re.compile(r"pad = (?:\w+|-?[\d.]+)")

_ELEMENTS = (
    "f16",
    "f32",
    "f64",
    "bf16",
    "i1",
    "i8",
    "i16",
    "i32",
    "i64",
    "ui8",
    "index",
    "complex<f32>",
    "i4",
    "f8E5M2",
)
_FORMATS: dict[int, tuple[str, ...]] = {
    0: ("() : []",),
    1: ("(a) : [a]", "(a) : [a, a:8]", "(a) : [a*2]", "(a) : [a, a:4], pad = zero, lo = [3]"),
    2: (
        "(a, b) : [b, a]", "(a, b) : [a, b, b:8], pad = zero", "(a, b) : [a, b, a:16, b:2], pad = 1",
        "(a, b) : [a*64, b]",
        "(a, b) : [a, b], lo = [1, 0]", "(a, b) : [a*3, b*-1]", "(a, b) : [a, b], offset = 3",
    ),
    3: ("(a, b, c) : [c, a, b]", "(a, b, c) : [a, b, c, b:4], pad = zero", "(a, b, c) : [a, c, b, c:3, c:2]"),
    4: (
        "(n, c, h, w) : [n, h, w, c]", "(n, c, h, w) : [n, c, h, w, c:8], pad = zero",
        "(n, c, h, w) : [n, c, h, w, c:16]",
        "(n, c, h, w) : [h, w, n, c, n:16, c:4], pad = zero", "(n, c, h, w) : [w, h, c, n]",
        "(n, c, h, w) : [n, c*400, h*20, w]", "(o, i, h, w) : [o, i, h, w, i:8, o:8], pad = zero",
        "(n, c, h, w) : [n, c, h, w], lo = [0, 0, 1, 1]", "(n, c, h, w) : [n, c, h, w, c:8], pad = 31",
    ),
}  # fmt: skip


def _everywhere(rng: Random, text: str) -> str:
    """One change that is made wherever the same stands, so that types still agree more often than not."""

    def other(pattern: re.Pattern[str], draw: Callable[[str], str], *, all_alike: bool = True) -> str:
        found = list(pattern.finditer(text))
        if not found:
            return text
        match = rng.choice(found)
        old, new = match.group(), draw(match.group())
        if not all_alike:
            return text[: match.start()] + new + text[match.end() :]
        return pattern.sub(lambda m: new if m.group() == old else m.group(), text)

    def format_like(old: str) -> str:
        rank = (
            old.partition("(")[2].partition(")")[0].count(",") + 1
            if "(" in old
            else len(set(re.findall("[a-z]", old[12:].lower())))
        )
        return f"#layout.format<{rng.choice(_FORMATS.get(rank if rng.random() < 0.95 else 2, _FORMATS[4]))}>"

    how = rng.random()
    if how < 0.22:
        extents = ("1", "2", "3", "4", "5", "8", "16", "17", "?", "0", "31")
        return other(_EXTENT, lambda _: rng.choice(extents), all_alike=rng.random() < 0.85)
    if how < 0.34:
        return other(_ELEMENT, lambda _: rng.choice(_ELEMENTS), all_alike=rng.random() < 0.85)
    if how < 0.56:
        return other(_FORMAT, format_like, all_alike=rng.random() < 0.8)
    if how < 0.68:
        aliases = _ALIAS.findall(text)
        return other(_ALIAS, lambda _: rng.choice(aliases), all_alike=rng.random() < 0.2) if aliases else text
    if how < 0.88:
        numbers = ("0", "1", "2", "3", "-1", "4", "0.5", "1.5", "-0.0", "1e30", "100", "65536", "4294967296")
        return other(_LITERAL, lambda _: rng.choice(numbers), all_alike=False)
    if how < 0.94:
        return other(
            _POLICY, lambda _: rng.choice(("pad = zero", "pad = undef", "pad = 1", "pad = zp", "pad = -0.5"))
        )
    second = right_program(rng)
    functions = re.findall(r"@(\w+)", text)
    for name in dict.fromkeys(re.findall(r"@(\w+)", second)):
        if name in functions:
            second = re.sub(rf"@{name}\b", f"@{name}_2", second)
    if set(_ALIAS.findall(text)) & set(re.findall(r"^#\w+", second, re.M)) or "module" in text + second:
        return text
    return f"{second}\n{text}"


@cache
def _mutators() -> tuple[TextMutator, TextMutator]:
    return TextMutator(programs()), TextMutator(programs(), SMALL)


def _pass(rng: Random) -> str:
    name = rng.choice(
        (
            "layout-propagate", "layout-propagate", "layout-fold-reorders", "layout-prepack-constants",
            "layout-legalize-pads", "layout-explain", "layout-strip", "layout-optimize", "layout-optimize",
            "layout-optimize", "convert-layout-to-kernel", "canonicalize", "cse",
        )
    )  # fmt: skip
    if name in ("layout-propagate", "layout-optimize", "layout-explain") and rng.random() < 0.6:
        options = [f"target={rng.choice(TARGETS)}"]
        if name != "layout-explain" and rng.random() < 0.3:
            options.append(f"solver={rng.choice(('exact', 'greedy'))}")
        return f"{name}{{{' '.join(options)}}}"
    return name


def arguments(rng: Random, *, runs: bool) -> list[str]:
    """What to do with a program; `runs` allows to execute it."""
    args: list[str] = ["--allow-unregistered-dialect"] if rng.random() < 0.5 else []
    how = rng.random()
    if how < 0.2:
        option = rng.choice(
            ("--print-op-generic", "--print-debuginfo", "--elide-constants=2", "--split-input-file")
        )
        return [*args, option] if rng.random() < 0.5 else args
    passes = [_pass(rng) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
    args += ["-p", ",".join(passes)]
    if how < 0.3:
        args[-1] += ",convert-layout-to-kernel"
        args += ["-t", "llvm-ir"]
    elif runs and how < 0.75:
        args.append("--validate=execute")
    elif how < 0.85:
        args.append("--validate=strip")
    return args


class Programs(Kind):
    name = "ir"
    suffix = ".mlir"
    chunk = 20

    def make(self, seed: int, number: int) -> bytes:
        rng = self.rng(seed, number)
        # What runs must be small: a loop of 2^40 rounds rightly takes for ever.
        runs = rng.random() < 0.6
        mutator = _mutators()[runs]
        text = right_program(rng)
        how = rng.random()
        if how < 0.65:
            for _ in range(rng.choice((1, 1, 2, 3, 4))):
                text = _everywhere(rng, text)
        elif how < 0.95:
            text = mutator.mutate(rng, text)
        runs = runs and "scf.while" not in text and not re.search(r"\d{5}", text)
        args = arguments(rng, runs=runs)
        return f"// layout-opt {shlex.join(args)}\n{text}".encode("utf-8", "surrogatepass")

    def smaller(self, data: bytes) -> Iterator[bytes]:
        head, _, text = data.partition(b"\n")
        return (head + b"\n" + smaller for smaller in super().smaller(text))

    def run(self, data: bytes) -> None:
        head, _, text = data.partition(b"\n")
        args = shlex.split(head.decode().removeprefix("// layout-opt"))
        called = call("layout-opt", ["-", *args], text)
        if "changed what the program computes" in called.err or "changed the results" in called.err:
            raise Wrong(called.err)
        if called.status == 0 and not args and called.out and "dense_resource" not in called.out:
            # What was printed is read as the same program (but for resources: xDSL renames what a process read before).
            again = call("layout-opt", ["-", "--allow-unregistered-dialect"], called.out)
            if again.out != called.out:
                raise Wrong(f"printing what was read changed the text:\n{called.out}\n{again.out}{again.err}")
