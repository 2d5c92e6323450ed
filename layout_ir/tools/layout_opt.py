"""`layout-opt`: read a program, run passes, print it.

xDSL's driver with this package's dialects, passes and ONNX models as input, and with the manners of MLIR's tools:
diagnostics are `file:line:col: error: ...` with a caret, a wrong program ends with exit status 1, never with a
traceback and never with half a result. `--verify-diagnostics` checks `expected-error` comments instead of
printing (see `expectations`).

Nothing here imports NumPy, llvmlite or onnx: reading and printing IR needs none of them, and starting is most of
what the tool does in a pipe.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, version
from io import BytesIO
from textwrap import fill
from typing import IO, NoReturn

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, PassPipeline
from xdsl.universe import Universe
from xdsl.utils.arg_spec import ArgSpec, parse_pipeline, parse_spec
from xdsl.utils.exceptions import (
    ArgSpecParseError,
    DiagnosticException,
    ParseError,
    ShrinkException,
)
from xdsl.xdsl_opt_main import xDSLOptMain

from layout_ir import registry
from layout_ir.diagnostics import Diagnostic, Location, Severity, handling
from layout_ir.errors import LayoutError
from layout_ir.tools import expectations
from layout_ir.tools.diagnostics import Renderer, from_parse_error, from_spec_error, one_line
from layout_ir.tools.locations import LocatedParser
from layout_ir.tools.output import quiet_broken_pipe, write_result
from layout_ir.tools.verify import verify_module

_DESCRIPTION = """\
Read a program (.mlir, .onnx, or standard input), run passes over it, print the result.
"""

_EPILOG = """\
examples:
  layout-opt model.mlir                                   check a program and print it
  layout-opt model.onnx -p layout-optimize                import, choose layouts, fold reorders
  layout-opt m.mlir -p 'layout-propagate{{target=avx2}},layout-fold-reorders,cse'
  layout-opt model.onnx --elide-constants=16 -o out.mlir  leave big constants out
  layout-opt m.mlir -p layout-optimize | layout-opt -p layout-strip
  layout-opt bad.mlir --split-input-file --verify-diagnostics

passes of layout-ir:
{ours}

passes of xDSL, usable as well:
{theirs}
"""


def _version() -> str:
    try:
        return version("layout-ir")
    except PackageNotFoundError:
        return "(not installed)"


_SPLIT = re.compile(r"^// -----[ \t]*\r?$", re.MULTILINE)


class Abort(Exception):
    """The tool cannot go on; `diagnostic` says why, `sources` are texts it may point into."""

    def __init__(self, diagnostic: Diagnostic, sources: dict[str, str] | None = None):
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic
        self.sources = sources


def _abort(
    message: str,
    location: Location | None = None,
    cause: BaseException | None = None,
    sources: dict[str, str] | None = None,
) -> NoReturn:
    raise Abort(Diagnostic(Severity.ERROR, message, location), sources) from cause


class LayoutOptMain(xDSLOptMain):
    """The driver: what it knows is registered by the `register_all_*` methods, `execute` does the work."""

    version_format = f"layout-opt {_version()} (xDSL {{xdsl_version}})"

    def register_all_dialects(self) -> None:
        for name, factory in {**Universe.get_multiverse().all_dialects, **registry.DIALECTS}.items():
            self.ctx.register_dialect(name, factory)

    def register_all_passes(self) -> None:
        self.available_passes.update(Universe.get_multiverse().all_passes)
        self.available_passes.update(registry.PASSES)

    def register_all_targets(self) -> None:
        self.available_targets.update(Universe.get_multiverse().all_targets)
        self.available_targets.update(registry.TARGETS)
        # xDSL's own printer of programs does not print attribute aliases.
        self.available_targets["mlir"] = registry.lazy("layout_ir.tools.program_target", "ProgramTarget")

    def register_all_frontends(self) -> None:
        def read_mlir(stream: IO[bytes]) -> ModuleOp:
            return self._parse(self._decode(stream.read()), 0)

        def read_onnx(stream: IO[bytes]) -> ModuleOp:
            return self._import_onnx(stream.read())

        self.available_frontends["mlir"] = read_mlir
        self.available_frontends["onnx"] = read_onnx

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        super().register_all_arguments(arg_parser)
        arg_parser.add_argument(
            "--elide-constants",
            type=int,
            metavar="N",
            help="print constants of more than N elements as dense_resource<__elided__>: the result can be read "
            "back and transformed, but no longer run; default: print everything",
        )
        _improve_usage(arg_parser, self.available_targets)

    # Options ---------------------------------------------------------------------------------------------------

    def get_input_name(self) -> str:
        return "<stdin>" if self.args.input_file in (None, "-") else self.args.input_file

    def setup_pipeline(self) -> None:
        """Make the passes that `-p` names. Raises `Abort` where it does not name any."""
        text = self.args.passes
        try:
            specs = tuple(parse_pipeline(text))
        except ArgSpecParseError as error:
            raise Abort(from_spec_error(error, "-p"), {"-p": text}) from None
        self.pipeline = PassPipeline(tuple(self._make_pass(spec) for spec in specs), self._between_passes)
        self._started = time.perf_counter()
        self._running: ModulePass | None = None

    def _make_pass(self, spec: ArgSpec) -> ModulePass:
        name, text = spec.name, self.args.passes
        match = re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text)
        place = Location("-p", 1, match.start() + 1 if match else 1)
        factory = self.available_passes.get(name)
        if factory is None:
            message = f"unknown pass '{name}'{_did_you_mean(name, self.available_passes)}"
            _abort(message, place, sources={"-p": text})
        try:
            return factory().from_spec(spec)
        except ImportError as error:
            _abort(f"pass '{name}' cannot be loaded: {error}", place, error, {"-p": text})
        except (ValueError, TypeError, DiagnosticException) as error:
            _abort(f"pass '{name}': {one_line(error)}", place, error, {"-p": text})

    def _between_passes(
        self, previous: ModulePass | None, module: ModuleOp, following: ModulePass | None
    ) -> None:
        """Called before, between and after the passes. Raises `_WrongProgram` if the program does not verify."""
        if self.args.time_passes and previous is not None:
            elapsed = time.perf_counter() - self._started
            print(f"Pass {previous.name} took {elapsed:.6f} seconds", file=sys.stderr)
        if not self.args.disable_verify:
            errors = verify_module(module)
            for error in errors:
                if previous is not None:
                    blame = Diagnostic(Severity.NOTE, f"the program was right before pass '{previous.name}'")
                    error = Diagnostic(error.severity, error.message, error.location, (*error.notes, blame))
                self._report(error)
            if errors:
                raise _WrongProgram
        if previous is not None and following is not None and self.args.print_between_passes:
            from layout_ir.printing import print_module

            print(f"IR after {previous.name}:\n{print_module(module)}\n\n", file=sys.stderr)
        self._running = following
        self._started = time.perf_counter()

    # Reading ---------------------------------------------------------------------------------------------------

    def _decode(self, data: bytes) -> str:
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            before = data[: error.start].decode("utf-8")
            line, col = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
            place = Location(self.get_input_name(), line, col)
            _abort(f"not UTF-8 text: byte 0x{data[error.start]:02x}", place, error)

    def _parse(self, text: str, line_offset: int) -> ModuleOp:
        parser = LocatedParser(self.ctx, text, self.get_input_name(), line_offset)
        return parser.parse_program(not self.args.no_implicit_module)

    def _import_onnx(self, data: bytes) -> ModuleOp:
        name = self.get_input_name()
        try:
            from layout_ir.frontends.onnx import from_onnx
        except ImportError as error:
            _abort(
                f"reading ONNX needs the extra 'onnx': pip install 'layout-ir[onnx]' ({error})",
                Location(name),
                error,
            )
        # By path where there is one: tensors may be kept in files beside the model.
        return from_onnx(data if name == "<stdin>" else name)

    def _read(self) -> tuple[bytes, str]:
        """The input and the name of the frontend that reads it."""
        name = self.get_input_name()
        if name == "<stdin>":
            return sys.stdin.buffer.read(), self.args.frontend or "mlir"
        extension = self.args.frontend or os.path.splitext(name)[1].removeprefix(".")
        try:
            with open(name, "rb") as stream:
                data = stream.read()
        except OSError as error:
            _abort(error.strerror or str(error), Location(name), error)
        if extension not in self.available_frontends:
            known = ", ".join(f".{known}" for known in self.available_frontends)
            message = f"unknown kind of file '.{extension}': expected one of {known}, or say which with -f"
            _abort(message, Location(name))
        return data, extension

    # Running ---------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Process the input and end the program with the exit status."""
        sys.exit(self.execute())

    def execute(self) -> int:
        """Process the input; returns the exit status. Raises `Abort` where nothing can be processed."""
        data, frontend = self._read()
        if self.args.elide_constants is not None and self.args.target == "mlir":
            self.args.target = f"mlir{{elide-constants={self.args.elide_constants}}}"
        self._errors = 0
        self._found: list[Diagnostic] = []
        self._renderer = Renderer(sys.stderr)
        jobs: list[Callable[[], ModuleOp]] = []
        text = ""
        if frontend == "mlir":
            text = self._decode(data)
            self._renderer.sources[self.get_input_name()] = text
            jobs = [self._parse_job(chunk, offset) for chunk, offset in self._split(text)]
        else:
            jobs = [lambda: self.available_frontends[frontend](BytesIO(data))]
        try:
            results = [self._process(job) for job in jobs]
        except ShrinkException:
            if not self.args.shrink:
                raise
            print("Success, can shrink")
            return 0
        if self.args.shrink:
            print("Failure, can't shrink")
            return 1
        if self.args.verify_diagnostics:
            wrong = expectations.check(text, self.get_input_name(), self._found)
            for diagnostic in wrong:
                self._renderer(diagnostic)
            self._errors = len(wrong)
        if self._errors:
            return 1
        try:
            write_result(
                "// -----\n".join(result for result in results if result is not None), self.args.output_file
            )
        except BrokenPipeError:
            raise
        except OSError as error:
            _abort(error.strerror or str(error), Location(self.args.output_file or "<stdout>"), error)
        return 0

    def _split(self, text: str) -> list[tuple[str, int]]:
        """The parts of the input and the number of lines before each."""
        if not self.args.split_input_file:
            return [(text, 0)]
        parts: list[tuple[str, int]] = []
        start = 0
        for separator in (*(match.span() for match in _SPLIT.finditer(text)), (len(text), len(text))):
            offset = parts[-1][1] + parts[-1][0].count("\n") if parts else 0
            parts.append((text[start : separator[0]], offset))
            start = separator[1]
        return parts

    def _parse_job(self, chunk: str, offset: int) -> Callable[[], ModuleOp]:
        return lambda: self._parse(chunk, offset)

    def _process(self, read: Callable[[], ModuleOp]) -> str | None:
        """Read one program, run the passes, return the result; None after an error, which has been reported."""
        self._running = None
        try:
            with handling(self._report):
                module = read()
                self.pipeline.apply(self.ctx, module)
                return self.output_resulting_program(module)
        except _WrongProgram:
            pass
        except ParseError as error:
            if self.args.parsing_diagnostics:
                Renderer(sys.stdout)(from_parse_error(error))
            else:
                self._report(from_parse_error(error))
        except Abort as error:
            self._report(error.diagnostic)
        except ArgSpecParseError as error:
            self._report(from_spec_error(error, "-t"))
        except (DiagnosticException, LayoutError) as error:
            place = getattr(error, "location", None) or Location(self.get_input_name())
            self._report(Diagnostic(Severity.ERROR, one_line(error), place))
        except (ShrinkException, BrokenPipeError, MemoryError):
            raise
        except Exception as error:
            if _wants_traceback():
                raise
            culprit = f"pass '{self._running.name}'" if self._running is not None else "reading or printing"
            message = f"{culprit} failed ({_describe(error)})"
            self._report(Diagnostic(Severity.ERROR, message, Location(self.get_input_name())))
        return None

    def _report(self, diagnostic: Diagnostic) -> None:
        if self.args.verify_diagnostics:
            self._found.append(diagnostic)
            return
        self._errors += diagnostic.severity is Severity.ERROR
        self._renderer(diagnostic)


class _WrongProgram(Exception):
    """The program does not verify; why has been reported."""


def _improve_usage(arg_parser: argparse.ArgumentParser, targets: Mapping[str, object]) -> None:
    """Examples in the help text, long lists out of it, and diagnostics for wrong arguments."""
    arg_parser.prog = "layout-opt"
    arg_parser.description = _DESCRIPTION
    arg_parser.formatter_class = argparse.RawDescriptionHelpFormatter
    width = max(map(len, registry.SUMMARIES))
    ours = "\n".join(f"  {name:{width}}  {summary}" for name, summary in registry.SUMMARIES.items())
    theirs = ", ".join(sorted(set(Universe.get_multiverse().all_passes) - set(registry.PASSES)))
    theirs = fill(theirs, 118, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    arg_parser.epilog = _EPILOG.format(ours=ours, theirs=theirs)
    shorter = {
        "input_file": "path to the input; - or nothing reads standard input",
        "passes": "passes to run, in order, with options in braces; see below",
        "output_file": "path to the output, which is replaced only when all went well",
        "verify_diagnostics": "check that exactly the diagnostics in expected-error, expected-warning and "
        "expected-remark comments appear, instead of printing them",
    }
    for action in arg_parser._actions:  # pyright: ignore[reportPrivateUsage]
        action.help = shorter.get(action.dest, action.help)
        if action.dest == "target":
            action.type = lambda text: _known_target(text, targets)

    def error(message: str) -> NoReturn:
        _abort(f"{message} (layout-opt --help lists the options)")

    arg_parser.error = error


def _known_target(text: str, targets: Mapping[str, object]) -> str:
    """`text` itself, if it names a target. Raises `Abort`."""
    try:
        name = parse_spec(text).name
    except ArgSpecParseError as error:
        raise Abort(from_spec_error(error, "-t"), {"-t": text}) from None
    if name not in targets:
        hint = _did_you_mean(name, targets) or f": expected one of {', '.join(targets)}"
        _abort(f"unknown target '{name}'{hint}", Location("-t", 1, 1), sources={"-t": text})
    return text


def _did_you_mean(name: str, known: Mapping[str, object]) -> str:
    close = get_close_matches(name, known, n=3)
    return f": did you mean {' or '.join(repr(match) for match in close)}?" if close else ""


def _wants_traceback() -> bool:
    return bool(os.environ.get("LAYOUT_IR_TRACEBACK"))


def _describe(error: BaseException) -> str:
    """What to say of an exception that nobody expected."""
    return (
        f"{type(error).__name__}: {error}; this is a defect of layout-ir, LAYOUT_IR_TRACEBACK=1 shows where"
    )


def main(args: Sequence[str] | None = None) -> int:
    """Run the tool on `args` (default: the command line); returns the exit status."""
    status = 1
    with quiet_broken_pipe():
        try:
            status = LayoutOptMain(args=args).execute()
        except Abort as error:
            Renderer(sys.stderr, error.sources)(error.diagnostic)
        except KeyboardInterrupt:
            return 130
        except BrokenPipeError:
            raise
        except Exception as error:
            if _wants_traceback():
                raise
            Renderer(sys.stderr)(Diagnostic(Severity.ERROR, _describe(error)))
    return status


if __name__ == "__main__":
    sys.exit(main())
