"""Copies of arrays, against the functions of NumPy that they stand for."""

import inspect
import pickle
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import layout_ir as li
from layout_ir.api.array_copies import ascontiguousarray, copyto, transpose_copy
from layout_ir.api.compiled_functions import TAKEOVER

DTYPES = (
    "?",
    "u1",
    "i2",
    ">i2",
    "f2",
    "f4",
    ">f4",
    "f8",
    "i8",
    "c8",
    "c16",
    "M8[s]",
    "m8[ns]",
    "S3",
    "U5",
    "g",
)
WIDTHS = (1, 2, 4, 8, 16, 3, 5)
RECORD = np.dtype([("a", "u1"), ("b", "f4")])


@pytest.fixture(autouse=True, scope="module")
def machine_code() -> None:
    assert TAKEOVER.load()


# Arrays of any strides -----------------------------------------------------------------------------------------------


@st.composite
def views(
    draw: st.DrawFn, base: np.ndarray, shape: tuple[int, ...] | None = None, widths: tuple[int, ...] = WIDTHS
) -> np.ndarray:
    """A view of `base`, one-dimensional, with dims of any direction and order, gaps between, bytes unaligned."""
    width = draw(st.sampled_from(widths))
    if shape is None:
        extent = st.one_of(st.integers(0, 5), st.sampled_from((8, 16, 17, 33, 64)))
        shape = tuple(draw(st.lists(extent, max_size=4)))
    axes = draw(st.permutations(range(len(shape))))
    strides = [0] * len(shape)
    running = width * draw(st.sampled_from((1, 1, 1, 2)))
    for axis in axes:
        strides[axis] = draw(st.sampled_from((1, 1, 1, -1, -1, 0))) * running
        running = running * max(shape[axis], 1) + draw(st.sampled_from((0, 0, width, 1)))
    low = sum(min(s, 0) * (n - 1) for s, n in zip(strides, shape, strict=True) if n)
    high = sum(max(s, 0) * (n - 1) for s, n in zip(strides, shape, strict=True) if n) + width
    assume(high - low <= base.size)
    offset = draw(st.integers(0, min(base.size - (high - low), 70))) - low
    return np.ndarray(shape, f"V{width}", base.data, offset, strides)


def typed(view: Any) -> np.ndarray:
    """`view` as numbers or text, where there are some of its width: records and voids go to NumPy."""
    kind = {1: "u1", 2: ">u2", 4: "f4", 8: "f8", 16: "c16", 3: "S3", 5: "S5"}[view.dtype.itemsize]
    return np.ndarray(view.shape, kind, view.base.data, offset_of(view), view.strides)


def offset_of(view: Any) -> int:
    return view.__array_interface__["data"][0] - view.base.__array_interface__["data"][0]


def random_bytes(seed: int, count: int) -> np.ndarray:
    return np.frombuffer(bytearray(np.random.default_rng(seed).bytes(count)), np.uint8)


def same(x: np.ndarray, y: np.ndarray) -> None:
    """Whether two arrays are the same to their flags, strides and bytes."""
    assert type(x) is type(y)
    assert (x.dtype, x.shape) == (y.dtype, y.shape)
    if x.size:
        assert x.strides == y.strides
    for flag in ("C_CONTIGUOUS", "F_CONTIGUOUS", "WRITEABLE", "ALIGNED", "OWNDATA"):
        assert x.flags[flag] == y.flags[flag], flag
    assert x.tobytes() == y.tobytes()


@settings(max_examples=200, deadline=None)
@given(st.data(), st.sampled_from(("C", "F")))
def test_a_contiguous_array_is_that_of_numpy(data: st.DataObject, order: str) -> None:
    base = random_bytes(1, 1 << 17)
    a = typed(data.draw(views(base)))
    before = base.copy()
    reference = {"C": np.ascontiguousarray, "F": np.asfortranarray}[order](a)
    result = ascontiguousarray(a, order=order)
    same(result, reference)
    assert (result is a) == (reference is a)
    assert np.may_share_memory(result, a) == np.may_share_memory(reference, a)
    assert (base == before).all()


@settings(max_examples=250, deadline=None)
@given(st.data())
def test_a_copy_is_that_of_numpy_and_touches_nothing_else(data: st.DataObject) -> None:
    """Of one buffer or of two: where they overlap, what was there before is what is copied."""
    base = random_bytes(2, 1 << 17)
    dst = typed(data.draw(views(base)))
    other = base if data.draw(st.booleans()) else random_bytes(3, 1 << 17)
    shape = data.draw(
        st.sampled_from((dst.shape, dst.shape, dst.shape[1:], tuple(1 for _ in dst.shape), (2, *dst.shape)))
    )
    src = typed(data.draw(views(other, shape, (dst.itemsize, dst.itemsize, dst.itemsize, 2))))
    wanted = base.copy()
    twin = np.ndarray(dst.shape, dst.dtype, wanted.data, offset_of(dst), dst.strides)
    if other is base:
        src_twin = np.ndarray(src.shape, src.dtype, wanted.data, offset_of(src), src.strides)
    else:
        src_twin = src
    outcomes: list[Any] = []
    for function, pair in ((np.copyto, (twin, src_twin)), (copyto, (dst, src))):
        try:
            with np.errstate(all="ignore"):
                outcomes.append(function(*pair))
        except (ValueError, TypeError) as error:
            outcomes.append((type(error), str(error)))
    assert outcomes[0] == outcomes[1]
    if 0 in dst.strides and dst.size:
        return  # several elements of the source go to one place: which of them stays, NumPy does not say
    assert base.tobytes() == wanted.tobytes()


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_transposed_copy_is_that_of_numpy(data: st.DataObject) -> None:
    a = typed(data.draw(views(random_bytes(4, 1 << 17))))
    axes = data.draw(st.one_of(st.none(), st.permutations(range(a.ndim))))
    same(transpose_copy(a, axes), a.transpose(axes).copy())


# Element types and kinds of arrays -----------------------------------------------------------------------------------


@pytest.mark.parametrize("code", DTYPES)
@pytest.mark.parametrize("shape", [(3, 5), (17, 64, 3), (130, 70)])
def test_any_plain_type_is_copied(code: str, shape: tuple[int, ...]) -> None:
    dtype = np.dtype(code)
    a = np.resize(np.arange(211).astype("u1"), int(np.prod(shape)) * dtype.itemsize).view(
        f"V{dtype.itemsize}"
    )
    a = (a.reshape(shape).view("u1") % 2).view(dtype).reshape(shape).T
    same(ascontiguousarray(a), np.ascontiguousarray(a))
    out = np.zeros_like(a)
    copyto(out, a)
    assert out.tobytes() == a.tobytes()


THINGS = (
    "objects", "records", "a record", "voids", "strings", "a matrix", "masked", "no dims", "nothing", "many dims",
    "text of no length", "a list", "a number", "read-only", "a memory map",
)  # fmt: skip


def things() -> dict[str, Any]:
    masked = np.ma.masked_array(np.arange(6.0).reshape(2, 3), mask=np.array([[0, 1, 0], [1, 0, 0]], bool))
    return {
        "objects": np.array([[1, "a"], [None, {}], [(), 2]], object),
        "records": np.zeros((3, 4), RECORD),
        "a record": np.zeros((), RECORD),
        "voids": np.zeros((3, 4), "V7"),
        "strings": np.array([["a", "bc"], ["d" * 50, ""]], np.dtypes.StringDType()),
        "a matrix": np.matrix([[1, 2, 3], [4, 5, 6]]),
        "masked": masked,
        "no dims": np.array(3.5),
        "nothing": np.zeros((3, 0, 4)),
        "many dims": np.arange(2**11).reshape((2,) * 11),
        "text of no length": np.zeros((2, 3), "S0"),
        "a list": [[1, 2, 3], [4, 5, 6]],
        "a number": 7,
        "read-only": np.broadcast_to(np.arange(3.0), (4, 3)),
        "a memory map": np.zeros((3, 4)).view(np.memmap),
    }


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("name", THINGS)
def test_whatever_else_is_given_numpy_answers(name: str) -> None:
    for a in (things()[name], np.transpose(things()[name]) if name != "masked" else things()[name].T):
        for order, function in (("C", np.ascontiguousarray), ("F", np.asfortranarray)):
            result, reference = ascontiguousarray(a, order=order), function(a)
            assert type(result) is type(reference)
            assert (result is a) == (reference is a)
            assert (result.dtype, result.strides) == (reference.dtype, reference.strides)
            assert result.tolist() == reference.tolist()
        copy = transpose_copy(a)
        assert copy.tolist() == np.transpose(a).tolist()
        assert copy.flags.c_contiguous and not np.may_share_memory(copy, a)


def test_references_of_objects_are_counted() -> None:
    thing = object()
    a = np.array([[thing] * 5] * 4, object)
    before = sys.getrefcount(thing)
    copy = ascontiguousarray(a.T)
    assert sys.getrefcount(thing) == before + 20
    copyto(copy, a[:1, :1])
    assert sys.getrefcount(thing) == before + 20
    del copy
    assert sys.getrefcount(thing) == before


def test_no_reference_is_kept_or_lost() -> None:
    a, out = np.zeros((40, 50), "S7"), np.zeros((50, 40), "S7")
    dtypes = a.dtype, out.dtype
    counted = (a, out, *dtypes, None)

    def counts() -> list[int]:
        return [sys.getrefcount(x) for x in counted[:-1]]

    before = counts()
    for _ in range(1000):
        ascontiguousarray(a.T)
        ascontiguousarray(a)
        ascontiguousarray(a, order="F")
        transpose_copy(a)
        copyto(a.T, out)
        copyto(out, a.T)
    assert counts() == before


WRONG: list[Callable[[Any], tuple[Any, ...]]] = [
    lambda a: (a[:3], a[:2]),
    lambda a: (a, a[None, None]),
    lambda a: (a[:1], a),
    lambda a: (a.astype("i4"), a),
    lambda a: (np.broadcast_to(a, (2, *a.shape)), a),
    lambda a: (a.tolist(), a),
    lambda a: (a,),
    lambda a: (a, a, "same_kind", True, 5),
    lambda a: (a, object()),
]


@pytest.mark.parametrize("arguments", WRONG)
def test_errors_are_those_of_numpy(arguments: Callable[[Any], tuple[Any, ...]]) -> None:
    a = np.arange(12.0).reshape(3, 4)
    found: list[Any] = []
    for function in (np.copyto, copyto):
        try:
            found.append(function(*arguments(a.copy())))
        except (ValueError, TypeError) as error:
            found.append((type(error), str(error)))
    (kind, text), (our_kind, our_text) = (x if x is not None else (None, "") for x in found)
    assert kind is our_kind
    assert text == our_text or "argument" in text  # how a function calls what is missing is its own


def test_casts_and_masks_are_those_of_numpy() -> None:
    a = np.arange(12.0).reshape(3, 4)
    for casting in ("unsafe", "same_kind"):
        ours, theirs = np.zeros((3, 4), "f4"), np.zeros((3, 4), "f4")
        copyto(ours, a, casting=casting)
        np.copyto(theirs, a, casting=casting)
        assert (ours == theirs).all()
    with pytest.raises(TypeError, match="rule 'safe'"):
        copyto(np.zeros((3, 4), "f4"), a, casting="safe")
    ours = np.zeros((3, 4))
    copyto(ours, a, where=a > 5)
    assert (ours == np.where(a > 5, a, 0)).all()
    same(ascontiguousarray(a.T, "f4"), np.ascontiguousarray(a.T, "f4"))
    same(ascontiguousarray(a.T, np.float64), np.ascontiguousarray(a.T, np.float64))
    same(ascontiguousarray(a.T, dtype="i2", order="F"), np.asfortranarray(a.T, "i2"))
    same(ascontiguousarray(a, like=a), np.ascontiguousarray(a, like=a))


def test_shifts_of_an_array_onto_itself_are_those_of_numpy() -> None:
    for moved in (
        (slice(1, None), slice(None, -1)),
        (slice(None, -1), slice(1, None)),
        (slice(None), slice(None, None, -1)),
    ):
        ours, theirs = np.arange(500.0), np.arange(500.0)
        copyto(ours[moved[0]], ours[moved[1]])
        np.copyto(theirs[moved[0]], theirs[moved[1]])
        assert (ours == theirs).all()
    square = np.arange(10000.0).reshape(100, 100)
    wanted = square.T.copy()
    copyto(square, square.T)
    assert (square == wanted).all()


# Orders --------------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_order_of_the_array_itself_is_kept(data: st.DataObject) -> None:
    a = typed(data.draw(views(random_bytes(5, 1 << 17))))
    result, reference = ascontiguousarray(a, order="K"), a.copy(order="K")
    assert result.tobytes() == reference.tobytes()
    if a.size:
        moving = [axis for axis, n in enumerate(a.shape) if n > 1]
        assert [result.strides[k] for k in moving] == [reference.strides[k] for k in moving]
        assert (result is a) == all(a.strides[k] == reference.strides[k] for k in moving)


def test_a_format_says_the_order_of_dims() -> None:
    a = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    for order, axes in (
        ("nhwc", (0, 2, 3, 1)),
        (li.Format.from_tag("acdb"), (0, 2, 3, 1)),
        ("nchw", (0, 1, 2, 3)),
    ):
        result = ascontiguousarray(a, order=order)
        assert result.tolist() == a.tolist()
        assert result.transpose(axes).flags.c_contiguous
        assert ascontiguousarray(result, order=order) is result
    assert ascontiguousarray(a, order="nchw") is a


@pytest.mark.parametrize("order", ["nChw8c", "nchw", "Q", "", "c", None, 3, "nhwc{c:8}"])
def test_negative_what_is_no_order_of_dims_is_refused(order: Any) -> None:
    with pytest.raises(li.LayoutError):
        ascontiguousarray(np.zeros((4, 5)), order=order)


def test_negative_blocks_are_for_reorder() -> None:
    with pytest.raises(li.LayoutError, match="more than an order of dims"):
        ascontiguousarray(np.zeros((2, 16, 4, 4)), order="nChw8c")


# Transposed copies ---------------------------------------------------------------------------------------------------


def test_a_transposed_copy_goes_where_it_should() -> None:
    a = np.arange(24.0, dtype="f4").reshape(2, 3, 4)
    out = np.zeros((4, 2, 6), "f8")[:, :, ::2]
    assert transpose_copy(a, (2, 0, 1), out) is out
    assert (out == a.transpose(2, 0, 1)).all()
    assert (transpose_copy(a.tolist()) == a.T).all()
    square = np.arange(9).reshape(3, 3)
    assert (transpose_copy(square, out=square) == np.arange(9).reshape(3, 3).T).all()
    assert transpose_copy(square, (0, 1)) is not square


def test_negative_a_transposed_copy_is_not_broadcast() -> None:
    a = np.zeros((2, 3))
    with pytest.raises(ValueError, match=r"out has shape \(4, 3, 2\)"):
        transpose_copy(a, out=np.zeros((4, 3, 2)))
    with pytest.raises(ValueError, match="axes"):
        transpose_copy(a, (0, 0, 1))
    read_only = np.zeros((3, 2))
    read_only.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        transpose_copy(a, out=read_only)


# Threads -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2, 900, 700), (1100, 1030), (3, 480, 640), (480, 640, 3), (1, 300000, 2)])
@pytest.mark.parametrize("code", ["u1", "f4", "c16"])
def test_what_threads_share_is_whole(shape: tuple[int, ...], code: str) -> None:
    count = int(np.prod(shape)) * np.dtype(code).itemsize
    a = np.random.default_rng(6).integers(1, 60, count, np.uint8).view(code).reshape(shape)
    for axes in ((0, 2, 1), (2, 0, 1), (1, 2, 0)) if len(shape) == 3 else ((1, 0),):
        turned = a.transpose(axes)
        guarded = np.full(a.nbytes + 128, 77, np.uint8)
        out = guarded[64:-64].view(code).reshape(turned.shape)
        copyto(out, turned)
        assert out.tobytes() == turned.tobytes()
        assert (guarded[:64] == 77).all() and (guarded[-64:] == 77).all()
        assert ascontiguousarray(turned).tobytes() == turned.tobytes()


def test_threads_of_the_program_may_copy_at_once() -> None:
    a = np.random.default_rng(7).random((400, 300))
    wanted = a.T.copy()
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(50):
            if not (ascontiguousarray(a.T) == wanted).all():
                wrong.append(number)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


# Functions -----------------------------------------------------------------------------------------------------------


def test_functions_say_what_they_take() -> None:
    assert str(inspect.signature(ascontiguousarray)) == "(a, dtype=None, *, order='C', like=None)"
    assert str(inspect.signature(copyto)) == "(dst, src, casting='same_kind', where=True)"
    assert "np.copyto" in (copyto.__doc__ or "")
    for function in (ascontiguousarray, copyto, transpose_copy):
        assert pickle.loads(pickle.dumps(function)) is function
    assert li.ascontiguousarray is ascontiguousarray
    with pytest.raises(TypeError):
        ascontiguousarray()  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError):
        ascontiguousarray(np.zeros(3), orders="C")  # pyright: ignore[reportCallIssue]


def test_negative_a_dtype_that_is_none_is_numpys_error_in_any_order():
    for order in ("C", "F", "K", "ba"):
        with pytest.raises(TypeError, match="not understood"):
            ascontiguousarray(np.zeros((2, 3)), dtype="f33", order=order)


@pytest.mark.parametrize("order", ["C", "F"])
def test_another_object_for_the_same_dtype_makes_what_numpy_makes(order: Any):
    a = np.zeros(3, "i4")
    other = np.dtype("i4", metadata={"unit": "bytes"})
    make = np.ascontiguousarray if order == "C" else np.asfortranarray
    found, wanted = ascontiguousarray(a, other, order=order), make(a, other)
    assert found is not a and found.dtype.metadata == wanted.dtype.metadata == {"unit": "bytes"}
    assert ascontiguousarray(a, np.int32, order=order) is a is make(a, np.int32)
