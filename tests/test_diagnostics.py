"""The channel between passes and whoever listens."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from xdsl.dialects import test
from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    LocationAttr,
    ModuleOp,
    NameLoc,
    NoneAttr,
    StringAttr,
)
from xdsl.ir import Region
from xdsl.utils.exceptions import PassFailedException

from layout_ir.diagnostics import (
    Diagnostic,
    Location,
    PassError,
    Severity,
    collect,
    collect_remarks,
    emit,
    handling,
    listening,
    location_of,
    note,
    remark,
    warning,
)


def place(line: int, file: str = "f") -> FileLineColLoc:
    return FileLineColLoc(StringAttr(file), IntAttr(line), IntAttr(1))


def op_at(location: LocationAttr) -> test.TestOp:
    op = test.TestOp()
    op.location = location
    return op


def test_what_a_pass_says_is_heard_with_its_place():
    first, second = op_at(place(1)), op_at(place(2))
    with collect() as found:
        remark(first, "one", note(second, "two"))
        warning(second, "three")
    assert found == [
        Diagnostic(
            Severity.REMARK,
            "one",
            Location("f", 1, 1),
            (Diagnostic(Severity.NOTE, "two", Location("f", 2, 1)),),
        ),
        Diagnostic(Severity.WARNING, "three", Location("f", 2, 1)),
    ]


def test_the_innermost_listener_hears_and_nobody_must():
    said = Diagnostic(Severity.REMARK, "said")
    emit(said)
    assert not listening()
    with collect() as outer:
        with collect() as inner:
            emit(said)
            assert listening()
        emit(said)
    assert (inner, outer) == ([said], [said])
    assert not listening()


def test_a_listener_is_gone_after_an_error():
    with pytest.raises(KeyError), handling(lambda _: None):
        raise KeyError
    assert not listening()


def test_threads_do_not_hear_each_other():
    def speak(number: int) -> list[str]:
        with collect() as found:
            for _ in range(50):
                emit(Diagnostic(Severity.REMARK, str(number)))
        return [diagnostic.message for diagnostic in found]

    with ThreadPoolExecutor(4) as pool:
        for number, messages in enumerate(pool.map(speak, range(8))):
            assert messages == [str(number)] * 50


def test_a_pass_error_is_a_failed_pass_and_knows_its_place():
    error = PassError("no", op_at(place(4)))
    assert isinstance(error, PassFailedException)
    assert (str(error), error.location) == ("no", Location("f", 4, 1))
    assert PassError("no").location is None


@pytest.mark.parametrize(
    ("attribute", "location"),
    [
        (place(3), Location("f", 3, 1)),
        (UNKNOWN_LOC, None),
        (NameLoc(StringAttr("conv_1"), place(3)), Location("f", 3, 1)),
        (NameLoc(StringAttr("conv_1"), NoneAttr()), Location("conv_1")),
        (CallSiteLoc(place(3), place(4)), Location("f", 3, 1)),
        (CallSiteLoc(UNKNOWN_LOC, place(4)), Location("f", 4, 1)),
        (FusedLoc((UNKNOWN_LOC, place(5), place(6)), NoneAttr()), Location("f", 5, 1)),
    ],
    ids=str,
)
def test_the_place_is_found_inside_any_location(attribute: LocationAttr, location: Location | None):
    assert location_of(op_at(attribute)) == location


def test_an_op_without_a_place_has_that_of_what_is_around_it():
    inner = op_at(UNKNOWN_LOC)
    middle = test.TestOp(regions=[Region()])
    middle.regions[0].add_block(ModuleOp([inner]).body.detach_block(0))
    outer = ModuleOp([middle])
    outer.location = place(9)
    assert location_of(inner) == Location("f", 9, 1)
    assert location_of(test.TestOp()) is None


@pytest.mark.parametrize(
    ("location", "text"), [(Location("f", 2, 3), "f:2:3"), (Location("f.onnx"), "f.onnx")]
)
def test_a_location_prints_as_compilers_print_it(location: Location, text: str):
    assert str(location) == text


def test_collected_remarks_are_what_passes_say_and_negative_errors_are_raised():
    op = test.TestOp()
    with collect_remarks() as remarks:
        remark(op, "stays")
        warning(op, "odd")
    remark(op, "not heard")
    assert [str(found) for found in remarks] == ["remark: stays", "warning: odd"]
    with pytest.raises(PassError), collect_remarks() as remarks:
        raise PassError("cannot go on", op)
    assert remarks == []
