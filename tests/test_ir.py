"""The classes that are contract are those of the dialects, under their own names."""

from __future__ import annotations

import layout_ir as li
from layout_ir import ir
from tests.test_import_time import loaded_after


def test_every_op_and_attribute_of_the_dialect_layout_is_named():
    assert li.ir is ir
    for member in (*ir.LayoutDialect.operations, *ir.LayoutDialect.attributes):
        assert getattr(ir, member.__name__) is member


def test_every_op_of_nn_is_in_its_module():
    for op in ir.nn.NN.operations:
        assert getattr(ir.nn, op.__name__) is op


def test_negative_the_package_loads_no_class_before_it_is_asked_for():
    assert "layout_ir.ir" not in loaded_after("import layout_ir")
    assert "layout_ir.ir" in loaded_after("import layout_ir as li\nli.ir.ReorderOp")
