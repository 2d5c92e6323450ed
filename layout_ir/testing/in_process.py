# lit has no types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUntypedBaseClass=false
"""A lit test format that runs tools inside the lit worker.

A text test is `my-opt %s | filecheck %s` and a few like it, and starting Python and importing xDSL is nearly all of
what that costs. Here the tools are called as functions, so that each worker imports them once; a suite then runs
about twenty times faster. In a `lit.cfg.py`:

    config.test_format = InProcessShTest(tools={"my-opt": "my_compiler.opt:main"})

RUN lines that are more than a pipe of known tools (redirections, `&&`, other programs, options that change xDSL for
the rest of the process) go to lit's own shell, and so does everything with `lit --param shell=1`, which is how the
installed programs themselves are tested. A called tool has the working directory, the environment and the time limit
that lit gives to a started one.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import signal
import stat
import sys
import traceback
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import lit.Test
import lit.TestRunner
from lit.formats import ShTest

from layout_ir.errors import LayoutError

Main = Callable[..., Any]
"""The entry point of a tool: it takes the list of its arguments, or nothing and reads `sys.argv`; what it returns is
its exit status, where None is 0. It may end by SystemExit as well."""

GLOBAL_OPTIONS = frozenset({"--disable-verify", "--syntax-highlight"})
"""Options of xDSL's tools that patch classes: their effect would outlive the test."""

_REFERENCE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def filecheck(args: list[str]) -> int | None:
    """Runs the Python `filecheck` on `args`; returns its exit status. Raises ImportError where it is not installed."""
    main: Any = getattr(import_module("filecheck.main"), "main")  # noqa: B009, it has no types
    return main(["filecheck", *args])


@dataclass(frozen=True)
class Stage:
    """One program of a pipe."""

    tool: str
    args: list[str]
    negated: bool
    """Under `not`: failure is success."""
    merged: bool
    """With `2>&1`: errors go down the pipe too."""


@dataclass(frozen=True)
class Outcome:
    """What a tool gave: its exit status, and what it wrote."""

    status: int
    out: bytes
    err: bytes


class InProcessShTest(ShTest):
    """lit's `ShTest`, with `tools` called instead of started.

    `tools` maps the names in RUN lines to entry points as "module:function"; `filecheck` (the Python one) is among them
    unless it is given. An entry point may be the function itself where a worker process can import it: one that is
    defined in a `lit.cfg.py` cannot be. A RUN line with one of the options `global_options` goes to the shell.

    Raises LayoutError for an entry point that is neither.
    """

    def __init__(self, tools: Mapping[str, str | Main], global_options: Collection[str] = GLOBAL_OPTIONS):
        super().__init__()
        own = {"filecheck": f"{__name__}:filecheck"}
        # Names alone: lit sends the format with every test to a worker process.
        self.tools = {name: reference_of(name, main) for name, main in {**own, **tools}.items()}
        self.global_options = frozenset(global_options)

    def execute(self, test: Any, litConfig: Any) -> Any:
        """The result of `test`, as lit asks for it."""
        if test.config.unsupported or litConfig.noExecute or litConfig.params.get("shell"):
            return super().execute(test, litConfig)
        script = lit.TestRunner.parseIntegratedTestScript(test)
        if isinstance(script, lit.Test.Result):
            return script
        temporary, base = lit.TestRunner.getTempPaths(test)
        Path(temporary).mkdir(parents=True, exist_ok=True)  # where %t lies
        commands = lit.TestRunner.applySubstitutions(
            script,
            lit.TestRunner.getDefaultSubstitutions(test, temporary, base),
            dict.fromkeys(test.config.available_features, True),
            recursion_limit=test.config.recursiveExpansionLimit,
        )
        commands = [re.sub(r"^%dbg\([^)'\"]*\)\s*", "", command) for command in commands]
        pipes = [self.parse_pipe(command) for command in commands]
        known = [pipe for pipe in pipes if pipe is not None]
        if len(known) < len(pipes):
            return super().execute(test, litConfig)
        log: list[str] = []
        where = os.path.dirname(test.getExecPath())
        try:
            with _surroundings(where, test.config.environment), _limit(litConfig.maxIndividualTestTime):
                for command, pipe in zip(commands, known, strict=True):
                    log.append(f"$ {command}")
                    if not self._run_pipe(pipe, log):
                        return lit.Test.Result(lit.Test.FAIL, "\n".join(log) + "\n")
        except _TimeLimit:
            log.append(f"reached the limit of {litConfig.maxIndividualTestTime} seconds")
            return lit.Test.Result(lit.Test.TIMEOUT, "\n".join(log) + "\n")
        return lit.Test.Result(lit.Test.PASS, "")

    def parse_pipe(self, command: str) -> list[Stage] | None:
        """The stages of a RUN line, or None if it needs a shell."""
        if any(character in command for character in "$`\\"):
            return None
        lexer = shlex.shlex(command.replace("2>&1", " 2>&1 "), posix=True, punctuation_chars="|&;<>()")
        lexer.whitespace_split = True
        lexer.commenters = ""
        try:
            tokens = list(lexer)
        except ValueError:
            return None
        stages: list[Stage] = []
        words: list[str] = []
        merged = False
        position = 0
        while position <= len(tokens):
            token = tokens[position] if position < len(tokens) else "|"
            if token == "|":
                stage = self._stage(words, merged)
                if stage is None:
                    return None
                stages.append(stage)
                words, merged = [], False
            elif tokens[position : position + 3] == ["2", ">&", "1"]:
                merged = True
                position += 2
            elif set(token) <= set("|&;<>()"):
                return None
            else:
                words.append(token)
            position += 1
        return stages

    def _stage(self, words: list[str], merged: bool) -> Stage | None:
        negated = words[:1] == ["not"]
        tool, *args = words[negated:] or [""]
        if tool not in self.tools or self.global_options.intersection(args):
            return None
        return Stage(tool, args, negated, merged)

    def run_stage(self, stage: Stage, stdin: bytes) -> Outcome:
        """Calls the tool of `stage` with `stdin` as its standard input."""
        with _streams([stage.tool, *stage.args], stdin, stage.merged) as (out, err):
            try:
                main = function_of(self.tools[stage.tool])
                status = _status(main(list(stage.args)) if signature(main).parameters else main())
            except SystemExit as exit:
                status = _status(exit.code)
            except _TimeLimit:
                raise
            except BaseException:
                traceback.print_exc()
                status = 1
        return Outcome(int(status == 0) if stage.negated else status, out.getvalue(), err.getvalue())

    def _run_pipe(self, pipe: list[Stage], log: list[str]) -> bool:
        """Runs the stages one after the other; whether all of them succeeded (as with `set -o pipefail`)."""
        data, good = b"", True
        for stage in pipe:
            outcome = self.run_stage(stage, data)
            data = outcome.out
            if outcome.err:
                log.append(outcome.err.decode("utf-8", "replace").rstrip("\n"))
            if outcome.status != 0:
                log.append(f"{stage.tool}: exit status {outcome.status}")
                good = False
        if not good and data:
            log.append(data.decode("utf-8", "replace").rstrip("\n"))
        return good


def reference_of(name: str, main: str | Main) -> str:
    """The entry point `main` of tool `name` as "module:function". Raises LayoutError where it has no such name."""
    if isinstance(main, str):
        if _REFERENCE.fullmatch(main) is None:
            raise LayoutError(f"entry point '{main}' of tool '{name}': write module:function")
        return main
    reference = f"{getattr(main, '__module__', None)}:{getattr(main, '__qualname__', None)}"
    try:
        found = function_of(reference) if _REFERENCE.fullmatch(reference) else None
    except (ImportError, AttributeError):
        found = None
    if found is not main:
        raise LayoutError(
            f"tool '{name}' is {main!r}, which a lit worker cannot import: move it to a module and give its name, "
            "as in module:function"
        )
    return reference


def function_of(reference: str) -> Main:
    """The function that "module:function" names. Raises ImportError or AttributeError where there is none."""
    module, _, function = reference.partition(":")
    return getattr(import_module(module), function)


def stand_ins(tools: Mapping[str, str | Main], folder: str | Path, paths: Sequence[str] = ()) -> str:
    """Writes a program for each of `tools` (entry points as in `InProcessShTest`) into `folder`; returns the folder.

    For RUN lines that go to the shell, of a checkout that is not installed: put the folder in front of
    `config.environment["PATH"]`. The programs run in this Python, with `paths` in front of the module search path.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    for name, main in tools.items():
        module, _, function = reference_of(name, main).partition(":")
        code = (
            f"import sys; sys.path[:0] = {list(map(str, paths))!r}; sys.argv[0] = {name!r}; "
            f"from {module} import {function} as main; from inspect import signature; "
            "sys.exit(main(sys.argv[1:]) if signature(main).parameters else main())"
        )
        program = target / name
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {shlex.quote(code)} "$@"\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(target)


def _status(code: object) -> int:
    """The exit status that a result, or the argument of SystemExit, stands for; a text is printed, as Python does."""
    if code is None or isinstance(code, int):
        return int(code or 0)
    print(code, file=sys.stderr)
    return 1


@contextmanager
def _streams(argv: list[str], stdin: bytes, merged: bool) -> Generator[tuple[io.BytesIO, io.BytesIO]]:
    """Standard streams that are buffers, and `argv`; yields what is written to the outgoing two."""
    saved = sys.stdin, sys.stdout, sys.stderr, sys.argv
    out, err = io.BytesIO(), io.BytesIO()
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    sys.stdout = text_out = io.TextIOWrapper(out, encoding="utf-8", write_through=True)
    text_err = io.TextIOWrapper(err, encoding="utf-8", write_through=True)
    sys.stderr = text_out if merged else text_err
    sys.argv = argv
    try:
        yield out, err
    finally:
        # Without this the wrappers would close the buffers when they go.
        text_out.detach()
        text_err.detach()
        sys.stdin, sys.stdout, sys.stderr, sys.argv = saved


@contextmanager
def _surroundings(folder: str, environment: Mapping[str, str]) -> Generator[None]:
    """The working directory and the environment that lit gives to the programs of a test."""
    before, saved = os.getcwd(), dict(os.environ)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(saved)
        os.chdir(before)


class _TimeLimit(BaseException):
    """A test took longer than lit allows; no tool catches it by `except Exception`."""


@contextmanager
def _limit(seconds: float) -> Generator[None]:
    """Raises `_TimeLimit` in the body after so many seconds, 0 for never, where the system has timers."""
    if not seconds or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        raise _TimeLimit

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
