"""What nobody foresaw leaves as one error that names its subject."""

from __future__ import annotations

import pickle

import pytest

from layout_ir.errors import LayoutError, UnforeseenError, public, unforeseen_as_error, wants_traceback


def test_what_nobody_foresaw_names_its_subject_and_keeps_its_cause():
    with (
        pytest.raises(UnforeseenError, match=r"^node 3 'x': IndexError: list index out of range; ") as caught,
        unforeseen_as_error("node 3 'x'"),
    ):
        [][0]
    assert isinstance(caught.value.__cause__, IndexError)
    assert isinstance(caught.value, LayoutError)


def test_an_exception_without_a_message_is_named_by_its_class():
    with pytest.raises(UnforeseenError, match=r"^op: KeyError; "), unforeseen_as_error("op"):
        raise KeyError


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError(), "^op: this needs more memory than there is; "),
        (MemoryError("8 TiB"), r"^op: this needs more memory than there is \(8 TiB\); "),
        (RecursionError("maximum depth"), r"^op: this is nested too deeply \(maximum depth\); "),
    ],
)
def test_what_is_too_large_is_no_defect(error: Exception, message: str):
    with pytest.raises(UnforeseenError, match=message), unforeseen_as_error("op"):
        raise error


def test_what_nobody_foresaw_reaches_the_parent_of_a_worker():
    error = pickle.loads(pickle.dumps(UnforeseenError("op", KeyError("x"))))
    assert str(error) == str(UnforeseenError("op", KeyError("x")))
    assert isinstance(error.__cause__, KeyError)


@pytest.mark.parametrize(
    "error", [LayoutError("foreseen"), OSError("no such file"), KeyboardInterrupt(), KeyError(1)]
)
def test_negative_what_was_foreseen_passes_through(error: BaseException):
    with pytest.raises(type(error)) as caught, unforeseen_as_error("op", KeyError):
        raise error
    assert caught.value is error


@pytest.mark.parametrize("text", ["1", "yes", "TRUE", "on"])
def test_a_traceback_is_asked_for(text: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LAYOUT_IR_TRACEBACK", text)
    assert wants_traceback()


@pytest.mark.parametrize("text", ["", "0", "off", "False", "no", None])
def test_negative_a_traceback_is_not_asked_for(text: str | None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("LAYOUT_IR_TRACEBACK", raising=False)
    if text is not None:
        monkeypatch.setenv("LAYOUT_IR_TRACEBACK", text)
    assert not wants_traceback()


@public
def _repeated(text: str, count: int) -> str:
    return text * count


def test_an_argument_of_a_wrong_type_is_named():
    with pytest.raises(LayoutError, match=r"^_repeated: count = 'x' is of type str, expected int$") as caught:
        _repeated("a", "x")  # pyright: ignore[reportArgumentType]
    assert not isinstance(caught.value, UnforeseenError)
    assert isinstance(caught.value.__cause__, TypeError)


@public
def _outer(count: int) -> str:
    return _repeated("a", {"x": count})  # pyright: ignore[reportArgumentType]


def test_an_argument_that_only_a_call_inside_cannot_take_is_named_there():
    with pytest.raises(LayoutError, match=r"^_repeated: count = <dict> is of type dict, expected int$"):
        _outer(3)


@public
def _defect(count: int) -> int:
    return [count][count]


def test_negative_a_defect_is_no_argument_of_a_wrong_type():
    with pytest.raises(UnforeseenError, match=r"^_defect\(1\): IndexError"):
        _defect(1)
