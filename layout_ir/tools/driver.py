"""The driver of `layout-opt`: read a program, run passes, print it.

xDSL's driver with this package's dialects and passes and with ONNX models as input. It reports as MLIR's tools do:
diagnostics are `file:line:col: error: ...` with a caret, and a wrong program ends with exit status 1, without a
traceback and without a partial result. `--verify-diagnostics` checks `expected-error` comments instead of printing
(see `expectations`).

Nothing here imports NumPy, llvmlite or onnx: reading and printing IR needs none of them, and in a pipe the tool spends
most of its time on starting.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib import metadata
from io import BytesIO
from typing import IO, Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, PassPipeline
from xdsl.utils.arg_spec import ArgSpec, parse_pipeline
from xdsl.utils.exceptions import (
    ArgSpecParseError,
    DiagnosticException,
    ParseError,
    ShrinkException,
)
from xdsl.xdsl_opt_main import xDSLOptMain

from layout_ir import registry
from layout_ir.api.program_text import register_dialects
from layout_ir.diagnostics import Diagnostic, Location, Severity, handling, unforeseen_in_pass
from layout_ir.entry_points import multiverse
from layout_ir.errors import LayoutError, UnforeseenError, show_traceback, unforeseen_as_error
from layout_ir.files import MOST_WITHOUT_SIZE, all_or_none, check_kept, read_stream, read_whole, write_result
from layout_ir.frontends.mlir.locations import LocatedParser
from layout_ir.frontends.mlir.verify_module import verify_module
from layout_ir.passes.layout_pass import LayoutPass
from layout_ir.rendering import (
    Renderer,
    did_you_mean,
    from_error,
    from_parse_error,
    from_spec_error,
    one_line,
)
from layout_ir.tools import expectations
from layout_ir.tools.commands.arguments import add_input_shapes, count
from layout_ir.tools.layout_opt_usage import Abort, abort, check_repeated, improve_usage
from layout_ir.tools.program import check_is_model, check_output, input_shapes
from layout_ir.version import __version__

_SPLIT = re.compile(r"^// -----[ \t]*\r?$", re.MULTILINE)


class LayoutOptMain(xDSLOptMain):
    """The driver: `register_all_*` add dialects, passes, targets, frontends and options; `execute` does the work."""

    program = "layout-opt"
    """What messages and the help text call the tool."""

    @classmethod
    def version(cls) -> str:
        """What `--version` prints: the tool, its release and that of the xDSL it runs on."""
        return f"{cls.program} {__version__} (xDSL {metadata.version('xdsl')})"

    def register_all_dialects(self) -> None:
        register_dialects(self.ctx)

    def register_all_passes(self) -> None:
        self.available_passes.update(multiverse().all_passes)
        self.available_passes.update(registry.PASSES)

    def register_all_targets(self) -> None:
        self.available_targets.update(multiverse().all_targets)
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
            type=count,
            metavar="N",
            help="print constants of more than N elements as dense_resource<__elided__>: the result can be read "
            "back and transformed, but no longer run; default: print everything",
        )
        arg_parser.add_argument(
            "--validate",
            nargs="?",
            const="strip",
            choices=("strip", "execute"),
            help="check after every layout pass that the program still computes the same: that it strips to the same "
            "text, or (execute) also that it gives the same results on random data, with NaN in every pad",
        )
        add_input_shapes(arg_parser)
        improve_usage(
            arg_parser, self.available_targets, self.available_frontends, self.program, self.version()
        )

    # Options ---------------------------------------------------------------------------------------------------

    def get_input_name(self) -> str:
        return "<stdin>" if self.args.input_file in (None, "-") else self.args.input_file

    def setup_pipeline(self) -> None:
        """Makes the passes that `-p` names. Raises `Abort` where one is unknown or its options are wrong."""
        text = self.args.passes
        try:
            specs = tuple(parse_pipeline(text))
        except ArgSpecParseError as error:
            raise Abort(from_spec_error(error, "-p"), {"-p": text}) from None
        check_repeated(text, "-p")
        self.pipeline = PassPipeline(tuple(self._make_pass(spec) for spec in specs), self._between_passes)
        self._started = time.perf_counter()
        self._running: ModulePass | None = None

    def _make_pass(self, spec: ArgSpec) -> ModulePass:
        name, text = spec.name, self.args.passes
        match = re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text)
        place = Location("-p", 1, match.start() + 1 if match else 1)
        factory = self.available_passes.get(name)
        if factory is None:
            message = f"unknown pass '{name}'{did_you_mean(name, self.available_passes)}"
            abort(message, place, sources={"-p": text})
        try:
            made = factory().from_spec(spec)
            if isinstance(made, LayoutPass):
                made.check_options()
            return made
        except ImportError as error:
            abort(f"pass '{name}' cannot be loaded: {error}", place, error, {"-p": text})
        except (ValueError, TypeError, DiagnosticException) as error:
            abort(f"pass '{name}': {one_line(error)}", place, error, {"-p": text})

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
        self._validate(previous, module, following)
        if previous is not None and following is not None and self.args.print_between_passes:
            from layout_ir.printing import print_module

            print(f"IR after {previous.name}:\n{print_module(module)}\n\n", file=sys.stderr)
        self._running = following
        self._started = time.perf_counter()

    def _validate(self, previous: ModulePass | None, module: ModuleOp, following: ModulePass | None) -> None:
        """Compares the program before and after each layout pass, if asked to. Raises `_WrongProgram`."""
        if self.args.validate is None:
            return
        with unforeseen_as_error(
            f"--validate={self.args.validate} failed", DiagnosticException, _WrongProgram
        ):
            self._compare(previous, module, following)

    def _compare(self, previous: ModulePass | None, module: ModuleOp, following: ModulePass | None) -> None:
        from layout_ir.tools.validation import Validator

        if previous is not None and (wrong := self._validator.after(previous.name, module)) is not None:
            self._report(wrong)
            raise _WrongProgram
        if following is not None:
            self._validator = Validator(self.args.validate, Location(self.get_input_name()))
            self._validator.before(following.name, module)

    # Reading ---------------------------------------------------------------------------------------------------

    def _decode(self, data: bytes) -> str:
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            before = data[: error.start].decode("utf-8")
            line, col = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
            place = Location(self.get_input_name(), line, col)
            abort(f"not UTF-8 text: byte 0x{data[error.start]:02x}", place, error)

    def _parse(self, text: str, line_offset: int) -> ModuleOp:
        parser = LocatedParser(self.ctx, text, self.get_input_name(), line_offset)
        return parser.parse_program(not self.args.no_implicit_module)

    def _import_onnx(self, data: bytes) -> ModuleOp:
        name = self.get_input_name()
        try:
            from layout_ir.frontends.onnx import from_onnx
        except ImportError as error:
            abort(
                f"reading ONNX needs the extra 'onnx': pip install 'layout-ir[onnx]' ({error})",
                Location(name),
                error,
            )
        # By path where there is a file: tensors may be kept in others beside it. A pipe has given all of its bytes.
        is_file = name != "<stdin>" and os.path.isfile(self._path())
        return from_onnx(self._path() if is_file else data, shapes=input_shapes(self.args.shapes or ()))

    def _path(self) -> str:
        """The file that is read: the given one, or that of a network that ships with the package onnx."""
        name = self.get_input_name()
        if not name.startswith("onnx:"):
            return name
        from layout_ir.api.program_text import ProgramError
        from layout_ir.tools.program import shipped_network

        try:
            return shipped_network(name)
        except ProgramError as error:
            raise Abort(error.diagnostics[0]) from error

    def _read(self) -> tuple[bytes, str]:
        """The input and the name of the frontend that reads it."""
        name = self.get_input_name()
        if name == "<stdin>":
            data = self._content(name, lambda: read_stream(sys.stdin.buffer, MOST_WITHOUT_SIZE))
            return data, self.args.frontend or "mlir"
        path = self._path()
        # A name without an extension, as those of pipes are (/dev/stdin), is read as standard input is.
        extension = self.args.frontend or os.path.splitext(path)[1].removeprefix(".") or "mlir"
        data = self._content(name, lambda: read_whole(path))
        if extension not in self.available_frontends:
            known = ", ".join(f".{known}" for known in self.available_frontends)
            message = f"unknown kind of file '.{extension}': expected one of {known}, or say which with -f"
            abort(message, Location(name))
        return data, extension

    def _content(self, name: str, read: Callable[[], bytes]) -> bytes:
        """What `read` gives. Raises `Abort` where the input `name` cannot be read, or does not end."""
        try:
            return read()
        except OSError as error:
            abort(error.strerror or str(error), Location(name), error)
        except LayoutError as error:
            abort(str(error), Location(name), error)

    # Running ---------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Processes the input and ends the program with the exit status."""
        sys.exit(self.execute())

    def execute(self) -> int:
        """Processes the input; returns the exit status. Raises `Abort` where nothing can be processed."""
        check_output(self.args.output_file)
        output = self.args.output_file or "-"
        try:
            check_kept(self.args.input_file, *self._reports())
            # What passes write appears with the result, or not at all.
            with all_or_none(output, *self._reports()) as results:
                status = self._execute(output)
                if status:
                    results.discard()
            return status
        except BrokenPipeError:
            raise
        except OSError as error:
            abort(error.strerror or str(error), Location(error.filename or "<stdout>"), error)

    def _reports(self) -> list[str]:
        """The files that passes are told to write."""
        reports = (getattr(made, "report", None) for made in self.pipeline.passes)
        return [report for report in reports if isinstance(report, str)]

    def _execute(self, output: str) -> int:
        data, frontend = self._read()
        if frontend != "onnx":
            check_is_model(self.get_input_name(), self.args.shapes or ())
        if self.args.elide_constants is not None and self.args.target == "mlir":
            self.args.target = f"mlir{{elide-constants={self.args.elide_constants}}}"
        self._errors = 0
        self._found: list[Diagnostic] = []
        self._renderer = Renderer(sys.stderr)
        programs: list[Callable[[], ModuleOp]]
        text = ""
        if frontend == "mlir":
            text = self._decode(data)
            self._renderer.sources[self.get_input_name()] = text
            programs = [partial(self._parse, chunk, offset) for chunk, offset in self._split(text)]
        else:
            read: Any = self.available_frontends[
                frontend
            ]  # in xDSL 0.75 it may be a class, but none of ours is
            programs = [partial(read, BytesIO(data))]
        try:
            results = [self._process(read) for read in programs]
        except ShrinkException:
            if not self.args.shrink:
                raise
            print("Success, can shrink")
            return 0
        if self.args.shrink:
            print("Failure, can't shrink")
            return 1
        if self.args.verify_diagnostics:
            wrong = expectations.check_diagnostics(text, self.get_input_name(), self._found)
            for diagnostic in wrong:
                self._renderer(diagnostic)
            self._errors = len(wrong)
        if self._errors:
            return 1
        write_result("// -----\n".join(result for result in results if result is not None), output)
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

    def _process(self, read: Callable[[], ModuleOp]) -> str | None:
        """Reads one program, runs the passes, returns the result; None after an error, which has been reported."""
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
            self._report_error(error)
        except (ShrinkException, BrokenPipeError):
            raise
        except Exception as error:
            if self._running is None:
                self._report_error(UnforeseenError("reading or printing failed", error))
            else:
                self._report_error(unforeseen_in_pass(self._running.name, error))
        return None

    def _report_error(self, error: Exception) -> None:
        show_traceback(error)
        self._report(from_error(error, self.get_input_name()))

    def _report(self, diagnostic: Diagnostic) -> None:
        place, name = diagnostic.location, self.get_input_name()
        if place is not None and place.line == 0 and place.file != name:
            # An op of a model is known by the name of its node; say of which model.
            diagnostic = replace(diagnostic, location=Location(f"{name}: {place}"))
        if self.args.verify_diagnostics:
            self._found.append(diagnostic)
            return
        self._errors += diagnostic.severity is Severity.ERROR
        self._renderer(diagnostic)


class _WrongProgram(Exception):
    """The program does not verify; its errors have been reported."""


def run(args: Sequence[str] | None, main: type[LayoutOptMain] = LayoutOptMain) -> int:
    """Runs the tool `main` on `args`; returns the exit status after printing any error."""
    try:
        return main(args=args).execute()
    except Abort as error:
        Renderer(sys.stderr, error.sources)(error.diagnostic)
    except LayoutError as error:
        show_traceback(error)
        Renderer(sys.stderr)(from_error(error))
    except BrokenPipeError:
        raise
    except OSError as error:
        place = None if error.filename is None else Location(str(error.filename))
        Renderer(sys.stderr)(Diagnostic(Severity.ERROR, error.strerror or str(error), place))
    except Exception as error:
        unforeseen = UnforeseenError(f"{main.program} failed", error)
        show_traceback(unforeseen)
        Renderer(sys.stderr)(from_error(unforeseen))
    return 1
