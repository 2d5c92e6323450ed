"""Functions of Python that machine code takes over from, while the program runs and without anybody waiting for it.

A function under `compiled` is a function of C, which CPython calls without a frame of Python. At first it calls the
function of Python behind it. Once the machine code is there, the same object calls the machine code, and the function
of Python gets what that does not take.

Making the code takes half a second, reading it from the code cache 80 milliseconds, most of it to import the compiler:
thousands of small copies. So nothing is loaded, llvmlite neither, until NumPy's copies have taken that long, and then
a thread of its own does it while NumPy goes on.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable
from inspect import signature
from time import perf_counter_ns
from typing import Any, ParamSpec, TypeVar, cast

from layout_ir.backends.llvm.runtime.method_definition import METH_FASTCALL, METH_KEYWORDS, MethodDefinition
from layout_ir.forking import loading

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Takeover:
    """When machine code takes over, for all compiled functions at once."""

    def __init__(self) -> None:
        self.budget = 80_000_000
        """Nanoseconds of NumPy's copies from which on the code is loaded: what it takes to read it from disk."""
        self.spent = 0
        """Nanoseconds that copies have taken."""
        self.state = "waiting"
        """"waiting" for the budget to be spent, then "started", "loaded", or "refused" where it cannot be."""
        self._definitions: dict[str, MethodDefinition] = {}
        self._addresses: dict[str, int] = {}

    def add(self, nanoseconds: int) -> None:
        """Adds what a copy has taken; begins to load where that was enough."""
        self.spent += nanoseconds
        if self.spent > self.budget and self.state == "waiting":
            self.state = "started"
            try:
                threading.Thread(target=self.load, name="layout-ir-copies").start()
            except RuntimeError:  # no more threads, or the interpreter is about to end
                self.state = "refused"

    def load(self) -> bool:
        """Loads the machine code now, if it is not there, and says whether it has taken over."""
        with loading:
            from layout_ir.backends.llvm.runtime.array_functions import functions
        found = functions()
        self._addresses = found or {}
        for name, definition in list(self._definitions.items()):
            self.define(name, definition)
        self.state = "refused" if found is None else "loaded"
        return found is not None

    def define(self, name: str, definition: MethodDefinition) -> None:
        """`definition` is that of a compiled function: it gets the address of the machine code `name` when it is there.

        CPython reads the address at each call.
        """
        self._definitions[name] = definition
        if name in self._addresses:
            definition.function = self._addresses[name]

    def forked(self) -> None:
        """In a forked child the thread that was loading is gone."""
        if self.state == "started":
            self.state = "waiting"


TAKEOVER = Takeover()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=TAKEOVER.forked)


def timed(function: Callable[..., _R], *args: Any, **kwargs: Any) -> _R:
    """What `function` gives. Its time counts for the takeover, unless it just gave its first argument back."""
    if TAKEOVER.state != "waiting":
        return function(*args, **kwargs)
    start = perf_counter_ns()
    result = function(*args, **kwargs)
    if result is not args[0]:
        TAKEOVER.add(perf_counter_ns() - start)
    return result


def compiled(name: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """A decorator: the machine code `name` takes over from the function, which has documentation and signature."""

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        if sys.implementation.name != "cpython":
            return function
        python = cast("Any", function)
        said = signature(function)
        parameters = [x.replace(annotation=x.empty) for x in said.parameters.values()]
        plain = said.replace(parameters=parameters, return_annotation=said.empty)
        doc = f"{python.__name__}{plain}\n--\n\n{python.__doc__}"
        # Its arguments are those of a function of C that belongs to an object: so it calls that object.
        calls = ctypes.cast(ctypes.pythonapi.PyObject_Vectorcall, ctypes.c_void_p).value
        flags = METH_FASTCALL | METH_KEYWORDS
        definition = MethodDefinition(python.__name__.encode(), calls, flags, doc.encode())
        TAKEOVER.define(name, definition)
        new: Any = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object)
        made = new(("PyCFunction_NewEx", ctypes.pythonapi))(
            ctypes.addressof(definition), function, python.__module__
        )
        # How pickle finds both: the function of C is an attribute of its object, which is found as `__self__`.
        setattr(python, python.__name__, made)
        python.__qualname__ = f"{python.__qualname__}.__self__"
        return made

    return decorate
