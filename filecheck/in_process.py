"""A lit test format that runs our tools inside the lit worker.

A test is `layout-opt %s | filecheck %s` and a few like it, and starting Python and importing xDSL is nearly all of
what that costs. Here the tools are called as functions, so that each worker imports them once; the suite then
runs about twenty times faster. RUN lines that are more than a pipe of known tools (redirections, `&&`, other
programs, options that change xDSL for the rest of the process) go to lit's own shell, and so does everything
with `lit --param shell=1`, which is how the installed programs themselves are tested.
"""

from __future__ import annotations

import io
import re
import shlex
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import lit.Test
import lit.TestRunner
from lit.formats import ShTest


def _layout_opt(args: list[str]) -> int | None:
    from layout_ir.tools.layout_opt import main

    return main(args)


def _layout_ir(args: list[str]) -> int | None:
    from layout_ir.tools.layout_ir import main

    return main(args)


def _filecheck(args: list[str]) -> int | None:
    from filecheck.main import main

    return main(["filecheck", *args])


TOOLS: dict[str, Callable[[list[str]], int | None]] = {
    "layout-opt": _layout_opt,
    "layout-ir": _layout_ir,
    "filecheck": _filecheck,
}

_GLOBAL_OPTIONS = {"--disable-verify", "--syntax-highlight"}
"""Options that patch xDSL's classes: their effect would outlive the test."""


@dataclass(frozen=True)
class Stage:
    """One program of a pipe."""

    tool: str
    args: list[str]
    negated: bool
    """Under `not`: failure is success."""
    merged: bool
    """With `2>&1`: errors go down the pipe too."""


def parse_pipe(command: str) -> list[Stage] | None:
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
            stage = _stage(words, merged)
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


def _stage(words: list[str], merged: bool) -> Stage | None:
    negated = words[:1] == ["not"]
    tool, *args = words[negated:] or [""]
    if tool not in TOOLS or _GLOBAL_OPTIONS.intersection(args):
        return None
    return Stage(tool, args, negated, merged)


@contextmanager
def _streams(stdin: bytes, merged: bool) -> Iterator[tuple[io.BytesIO, io.BytesIO]]:
    """Standard streams that are buffers; yields what is written to the outgoing two."""
    saved = sys.stdin, sys.stdout, sys.stderr
    out, err = io.BytesIO(), io.BytesIO()
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    sys.stdout = text_out = io.TextIOWrapper(out, encoding="utf-8", write_through=True)
    text_err = io.TextIOWrapper(err, encoding="utf-8", write_through=True)
    sys.stderr = text_out if merged else text_err
    try:
        yield out, err
    finally:
        # Without this the wrappers would close the buffers when they go.
        text_out.detach()
        text_err.detach()
        sys.stdin, sys.stdout, sys.stderr = saved


def run_stage(stage: Stage, stdin: bytes) -> tuple[int, bytes, bytes]:
    """Call the tool; returns exit status, standard output and standard error."""
    with _streams(stdin, stage.merged) as (out, err):
        try:
            status = TOOLS[stage.tool](stage.args) or 0
        except SystemExit as exit:
            status = exit.code if isinstance(exit.code, int) else int(exit.code is not None)
            if isinstance(exit.code, str):
                print(exit.code, file=sys.stderr)
        except BaseException:
            traceback.print_exc()
            status = 1
    return int(status == 0) if stage.negated else status, out.getvalue(), err.getvalue()


class InProcessShTest(ShTest):
    """`ShTest`, with the tools of this package called instead of started."""

    def execute(self, test, litConfig):
        if test.config.unsupported or litConfig.noExecute or litConfig.params.get("shell"):
            return super().execute(test, litConfig)
        script = lit.TestRunner.parseIntegratedTestScript(test)
        if isinstance(script, lit.Test.Result):
            return script
        paths = lit.TestRunner.getTempPaths(test)
        Path(paths[0]).mkdir(parents=True, exist_ok=True)  # where %t lies
        commands = lit.TestRunner.applySubstitutions(
            script,
            lit.TestRunner.getDefaultSubstitutions(test, *paths),
            dict.fromkeys(test.config.available_features, True),
            recursion_limit=test.config.recursiveExpansionLimit,
        )
        commands = [re.sub(r"^%dbg\([^)'\"]*\)\s*", "", command) for command in commands]
        pipes = [parse_pipe(command) for command in commands]
        if any(pipe is None for pipe in pipes):
            return super().execute(test, litConfig)
        log: list[str] = []
        for command, pipe in zip(commands, pipes, strict=True):
            log.append(f"$ {command}")
            if not _run_pipe(pipe, log):
                return lit.Test.Result(lit.Test.FAIL, "\n".join(log) + "\n")
        return lit.Test.Result(lit.Test.PASS, "")


def _run_pipe(pipe: list[Stage], log: list[str]) -> bool:
    """Run the stages one after the other; whether all of them succeeded (as with `set -o pipefail`)."""
    data, good = b"", True
    for stage in pipe:
        status, data, errors = run_stage(stage, data)
        if errors:
            log.append(errors.decode("utf-8", "replace").rstrip("\n"))
        if status != 0:
            log.append(f"{stage.tool}: exit status {status}")
            good = False
    if not good and data:
        log.append(data.decode("utf-8", "replace").rstrip("\n"))
    return good
