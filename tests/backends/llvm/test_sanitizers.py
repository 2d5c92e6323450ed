"""The emitted thread pool, kernels and entry under AddressSanitizer and ThreadSanitizer, called by a C program."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from layout_ir.algebra.format import Format
from layout_ir.backends.llvm.emission.emit import emit_module
from layout_ir.backends.llvm.machine.host_facts import llvm
from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.llvm.runtime import entry, thread_pool
from layout_ir.backends.llvm.runtime.array_kinds import codes
from layout_ir.backends.llvm.runtime.call import plan_reorder

VERSION = llvm.llvm_version_info[0]
COMPILER = shutil.which(f"clang-{VERSION}")
ROWS, COLS = 37, 53
SANITIZERS = ("address", "thread")

pytestmark = [
    pytest.mark.skipif(
        sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"), reason="no pool here"
    ),
    pytest.mark.skipif(
        COMPILER is None,
        reason=f"there is no clang-{VERSION}, which reads the IR (Debian: clang-{VERSION} libclang-rt-{VERSION}-dev)",
    ),
]

Edit = Callable[[str], str]


def _sources() -> dict[str, str]:
    """The LLVM IR of everything that is emitted by hand, and of a kernel, by the name of its file."""
    return {
        "pool": thread_pool._source(host()),  # pyright: ignore[reportPrivateUsage]
        "entry": entry._source(),  # pyright: ignore[reportPrivateUsage]
        "kernel": _kernel(ROWS, COLS),
    }


def _kernel(rows: int, columns: int) -> str:
    src, dst = (Format.of(tag).bind((rows, columns)) for tag in ("ab", "ba"))
    return emit_module({"reorder": plan_reorder(src, dst)}, host())


def _instrumented(text: str, sanitizer: str) -> str:
    """`text` with the attribute by which LLVM instruments a function."""
    return re.sub(
        r"^(define [^{]*?)( alignstack\(\d+\))? \{$", rf"\1\2 sanitize_{sanitizer} {{", text, flags=re.M
    )


def _run(
    folder: Path, sanitizer: str, edits: dict[str, Edit] | None = None
) -> subprocess.CompletedProcess[str]:
    """The driver's run with what is emitted, each file changed by its edit."""
    files: list[str] = []
    for name, text in _sources().items():
        given = (edits or {}).get(name)
        changed = text if given is None else given(text)
        assert given is None or changed != text, f"the edit of {name} found nothing"
        path = folder / f"{name}.ll"
        path.write_text(_instrumented(changed, sanitizer))
        assert path.read_text().count(f"sanitize_{sanitizer}") == len(re.findall(r"^define", text, re.M))
        files.append(str(path))
    values = {
        "ROWS": ROWS, "COLS": COLS, "ROUNDS": 400, "WORKERS": 3, "FORKS": int(sanitizer == "address"),
        "FLOATS": f"UINT64_C({codes('f32')})", "SWAPPED": "'>'" if sys.byteorder == "little" else "'<'",
    }  # fmt: skip
    binary = folder / "driver"
    assert COMPILER is not None
    command = [
        COMPILER, "-O1", "-g", "-w", f"-fsanitize={sanitizer}", "-march=native",
        *(f"-D{key}={value}" for key, value in values.items()),
        str(Path(__file__).with_name("sanitized.c")), *files, "-pthread", "-o", str(binary),
    ]  # fmt: skip
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode and "libclang_rt" in built.stderr:
        pytest.skip(f"clang-{VERSION} is here without its runtime: libclang-rt-{VERSION}-dev")
    assert built.returncode == 0, built.stderr
    options = "exitcode=66:halt_on_error=1:report_thread_leaks=0:die_after_fork=0:detect_leaks=0"
    environment = {**os.environ, "TSAN_OPTIONS": options, "ASAN_OPTIONS": "exitcode=66:detect_leaks=0"}
    return subprocess.run(
        [str(binary)], capture_output=True, text=True, env=environment, check=False, timeout=600
    )


@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_the_pool_the_entry_and_a_kernel_are_clean(sanitizer: str, tmp_path: Path):
    run = _run(tmp_path, sanitizer)
    assert (run.returncode, run.stdout) == (0, "all right\n"), run.stderr[-4000:]


def _torn(text: str) -> str:
    """The parts that are left counted without an atomic operation."""
    return re.sub(
        r"  %p = atomicrmw sub ptr (.*), i32 1 release\n",
        r"  %p = load i32, ptr \1\n  %p1 = sub i32 %p, 1\n  store i32 %p1, ptr \1\n",
        text,
    )


def test_negative_a_race_in_the_pool_is_found(tmp_path: Path):
    run = _run(tmp_path, "thread", {"pool": _torn})
    assert run.returncode == 66
    assert "WARNING: ThreadSanitizer: data race" in run.stderr


def _plain(text: str) -> str:
    """What is published for workers loaded and stored without atomic operations."""
    return re.sub(r"(load|store) atomic ((?:ptr|i64).*) monotonic", r"\1 \2", text)


def test_negative_a_call_that_is_published_while_workers_read_is_found(tmp_path: Path):
    run = _run(tmp_path, "thread", {"pool": _plain})
    assert run.returncode == 66
    assert "WARNING: ThreadSanitizer: data race" in run.stderr


def _unmeasured(text: str) -> str:
    return text.replace("%c1 = icmp sge i64 %lb, %nb", "%c1 = icmp sge i64 %lb, 0")


def _too_long(_: str) -> str:
    """A kernel for one column more than the buffers have."""
    return _kernel(ROWS, COLS + 1)


@pytest.mark.parametrize("edits", [{"entry": _unmeasured}, {"kernel": _too_long}])
def test_negative_a_buffer_that_is_overrun_is_found(edits: dict[str, Edit], tmp_path: Path):
    run = _run(tmp_path, "address", edits)
    assert run.returncode == 66
    assert "ERROR: AddressSanitizer: heap-buffer-overflow" in run.stderr
