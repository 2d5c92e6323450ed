"""A process that forks waits for whoever holds a lock, in this order or that, and children find them free."""

from __future__ import annotations

import os
import signal
import threading
import time
from importlib import import_module
from pathlib import Path
from weakref import ref

import pytest

from layout_ir import forking
from layout_ir.backends.onednn.library import unavailable
from tests.processes import run_python

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded"),
]


def _status_of_a_child(*locks: object) -> int:
    """0 where a child takes each of `locks`; it is killed where it waits."""
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        for lock in locks:
            with lock:  # type: ignore[attr-defined]
                pass
        os._exit(0)
    return os.waitpid(child, 0)[1]


def _printed(program: str, *arguments: str) -> str:
    """What a Python program prints, in a process of its own that ends well."""
    return run_python("-W", "ignore", "-c", program, *arguments).stdout


def test_a_fork_waits_for_who_holds_a_lock(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(forking, "_locks", [])
    inner, outer = threading.RLock(), threading.RLock()
    forking.fork_safe(inner)
    forking.fork_safe(outer)
    inside, done, steps = threading.Event(), threading.Event(), list[str]()

    def hold() -> None:
        with outer:
            inside.set()
            done.wait(0.2)  # the other thread forks meanwhile, if nothing keeps it
            with inner:
                steps.append("held")

    holder = threading.Thread(target=hold)
    holder.start()
    inside.wait()
    status = _status_of_a_child(inner, outer, forking.loading)
    steps.append("forked")
    done.set()
    holder.join()
    assert status == 0
    assert steps == ["held", "forked"]


def test_negative_a_lock_that_nobody_said_is_taken_in_the_child():
    lock, inside, done = threading.Lock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            inside.set()
            done.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    inside.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if lock.acquire(timeout=0.1) else 1)
    done.set()
    holder.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def test_a_thread_that_holds_a_lock_may_fork_itself(monkeypatch: pytest.MonkeyPatch):
    """As a signal handler or a finalizer does, which comes in between."""
    monkeypatch.setattr(forking, "_locks", [])
    lock = threading.RLock()
    forking.fork_safe(lock)
    with lock, forking.loading:
        assert _status_of_a_child(lock, forking.loading) == 0
    assert _status_of_a_child(lock, forking.loading) == 0


def test_an_interrupt_while_a_fork_waits_leaves_no_lock_taken(monkeypatch: pytest.MonkeyPatch):
    class Interrupted:
        def __enter__(self) -> None:
            raise KeyboardInterrupt

        def __exit__(self, *_: object) -> None:
            raise AssertionError("it was never entered")

    lock = threading.RLock()
    interrupted = Interrupted()
    monkeypatch.setattr(forking, "_locks", [ref(interrupted), ref(lock)])
    with pytest.raises(KeyboardInterrupt):
        forking._hold()  # pyright: ignore[reportPrivateUsage]
    forking._release()  # pyright: ignore[reportPrivateUsage]
    free: list[bool] = []

    def take() -> None:
        for one in (lock, forking.loading):
            free.append(one.acquire(blocking=False))
            one.release()

    other = threading.Thread(target=take)
    other.start()
    other.join()
    assert free == [True, True]


def test_what_is_made_once_is_one_thing_for_all_threads_that_come_at_once():
    all_here, made = threading.Barrier(4), list[object]()

    def make() -> object:
        made.append(object())
        time.sleep(0.05)
        return made[-1]

    get, found = forking.made_once(make), list[object]()

    def ask() -> None:
        all_here.wait()
        found.append(get())

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1 and found == 4 * made and get() is made[0]


def test_the_lock_of_the_bindings_is_held_while_they_call_llvm():
    """What `jit` relies on: their lock is under this name, reentrant, and every call takes it."""
    library = import_module("llvmlite.binding.ffi").lib
    jit = import_module("layout_ir.backends.llvm.runtime.jit")
    assert library._lock is jit.bindings_lock()
    version, answered = import_module("llvmlite.binding").get_default_triple, threading.Event()

    def ask() -> None:
        version()
        answered.set()

    with library._lock, library._lock:
        other = threading.Thread(target=ask)
        other.start()
        assert not answered.wait(0.1)
    other.join()
    assert answered.is_set()


_IMPORTING = """\
import os, signal, sys, threading, time
import layout_ir as li

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            inside.set()
            time.sleep(0.3)

signal.alarm(30)
inside = threading.Event()
sys.meta_path.insert(0, Slow())
first = threading.Thread(target=lambda: li.compile_reorder(*sides()))
sides = lambda: [li.TensorDesc((2, 3), "f32", tag) for tag in ("ab", "ba")]
sides()
first.start()
inside.wait()
child = os.fork()
if child == 0:
    signal.alarm(30)
    li.compile_reorder(*sides())
    os._exit(0)
first.join()
sys.exit(os.waitpid(child, 0)[1] != 0)
"""


@pytest.mark.parametrize(
    "module",
    [
        "layout_ir.backends.llvm.planning.planner",
        "llvmlite.binding.initfini",  # which takes the lock of the bindings, that was there before it
    ],
)
def test_a_child_imports_what_another_thread_was_importing(module: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LAYOUT_IR_CACHE", "off")  # whose kernels need no bindings
    _printed(_IMPORTING, module)


_COMPILING = """\
import os, signal, sys, threading, time
import numpy as np
from layout_ir.api.executable import Executable
from layout_ir.forking import loading

def program(shapes, whole):
    inside.set()
    time.sleep(0.3)  # the other thread begins to fork meanwhile
    with loading:
        raise ValueError("compiled")

def call():
    try:
        executable([np.ones(2, np.float32)])
    except ValueError:
        pass

signal.alarm(30)
inside = threading.Event()
executable = Executable(program, {"x": None})
first = threading.Thread(target=call)
first.start()
inside.wait()
child = os.fork()
if child == 0:
    signal.alarm(30)
    call()
    os._exit(0)
first.join()
sys.exit(os.waitpid(child, 0)[1] != 0)
"""


def test_a_process_forks_while_another_thread_compiles_for_shapes_not_seen_before():
    _printed(_COMPILING)


_USES = {
    "reorder": "li.reorder(x, 'nchw', 'nChw8c')",
    "quantize": "li.reorder(x, 'nchw', 'nhwc', dtype='i8', scale=0.5)",
    "dynamic": "li.compile_reorder(*(li.TensorDesc((None,) * 4, 'f32', tag) for tag in ('nchw', 'nhwc')))(x, y)",
    "copy": "li.ascontiguousarray(x.transpose(0, 2, 3, 1))",
    "address": "li.Format.from_tag('nChw8c').bind((2, 17, 5, 4)).address((1, 16, 4, 3))",
    "compile": "li.compile(path)",
    "optimize": "li.optimize_onnx(path)",
    "parse": "li.parse('func.func @f(%x: f32) -> f32 { %y = math.exp %x : f32 func.return %y : f32 }')",
    "leave for ONNX": "li.to_onnx(li.from_onnx(path))",
    "leave for MLIR": "li.to_mlir(li.parse('func.func @main(%x: tensor<4xf32>) -> tensor<4xf32>'"
    " '{ func.return %x : tensor<4xf32> }'))",
    "run": "li.run(li.from_onnx(path), [x])",
}
"""Uses of the library, each the first one of a process."""

_WATCHING = """
import sys
import numpy as np
import layout_ir as li
from layout_ir.forking import loading, loading_late

class Watch:
    def find_spec(self, name, path=None, target=None):
        if not loading._is_owned() and not loading_late._is_owned():
            print(name)

path = sys.argv[-1]
x, y = np.ones((2, 4, 8, 8), np.float32), np.empty((2, 8, 8, 4), np.float32)
sys.meta_path.insert(0, Watch())
"""
"""Prints every module that is imported while the thread does not hold the lock."""


@pytest.fixture(scope="module")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 17]> g (float[2,4,8,8] x) => (float[2,4,8,8] y)'
        "{ a = Relu(x) t = Transpose<perm = [0, 2, 3, 1]>(a) s = Sigmoid(t) y = Transpose<perm = [0, 3, 1, 2]>(s) }"
    )
    path = tmp_path_factory.mktemp("models") / "small.onnx"
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("use", sorted(_USES))
def test_modules_are_imported_under_the_lock(use: str, request: pytest.FixtureRequest):
    """Else a child that is forked meanwhile by another thread has half a module and waits for the rest for ever."""
    if use == "compile" and unavailable() is not None:
        pytest.skip(str(unavailable()))
    models = [str(request.getfixturevalue("model_path"))] if "path" in _USES[use] else []
    assert _printed(_WATCHING + _USES[use], *models) == ""


def test_negative_a_module_imported_without_the_lock_is_noticed():
    assert "layout_ir.notations\n" in _printed(_WATCHING + "import layout_ir.notations.guessing")


def test_a_lock_that_is_gone_is_forgotten(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(forking, "_locks", [])
    kept, gone = threading.RLock(), threading.RLock()
    forking.fork_safe(kept)
    forking.fork_safe(gone)
    del gone
    assert [reference() for reference in forking._locks] == [kept]  # pyright: ignore[reportPrivateUsage]
    assert _status_of_a_child(kept) == 0
