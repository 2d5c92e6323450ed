"""The examples in docstrings of the algebra hold."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest

import layout_ir as li

NAMES = {name: getattr(li, name) for name in ("Format", "compose", "concat", "peel", "refine", "split")}
FLAGS = doctest.ELLIPSIS


@pytest.mark.parametrize("module", ["concat", "layout", "physical", "refinement", "reshape", "views"])
def test_the_examples_of_a_module_hold(module: str):
    finder, runner = doctest.DocTestFinder(recurse=True), doctest.DocTestRunner(optionflags=FLAGS)
    for test in finder.find(import_module(f"layout_ir.algebra.{module}"), extraglobs=NAMES):
        runner.run(test)
    assert runner.summarize(verbose=False).failed == 0
    assert runner.tries, "there are no examples"
