"""What `layout-opt` prints reads back as the same program, in whatever form."""

from __future__ import annotations

from tests.tools.running import PROGRAM, Run, opt


def test_a_printed_program_prints_as_itself():
    assert opt(stdin=PROGRAM) == Run(0, PROGRAM, "")


def test_the_generic_form_reads_back_as_the_same_program():
    generic = opt("--print-op-generic", stdin=PROGRAM).out
    assert '"layout.reorder"' in generic
    assert "#nChw8c>" in generic
    assert opt(stdin=generic).out == PROGRAM


def test_elided_constants_are_announced():
    out = opt("--elide-constants=2", stdin=PROGRAM).out
    assert out.startswith("// 1 constant is elided: this program can be read and transformed, but not run.\n")
    assert "nn.constant dense_resource<__elided__> : tensor<3xf32>" in out


def test_negative_a_constant_of_as_many_elements_is_printed():
    assert opt("--elide-constants=3", stdin=PROGRAM).out == PROGRAM
