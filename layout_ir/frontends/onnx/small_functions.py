"""Functions of ONNX Runtime's operators on arrays: distances, windows of a dim, boxes of images, small integers, tokens
that would repeat others, transposed convolutions whose pads are an input."""

from __future__ import annotations

from collections.abc import Sequence

from layout_ir.frontends.onnx.function_body import FLOAT, INT64, Body, NoFunctionError

_INT32 = 6


def distances(body: Body) -> Sequence[str]:
    """CDist: the distance of each row of one matrix from each of another, or its square."""
    metric = body.attribute("metric", "sqeuclidean")
    if metric not in ("euclidean", "sqeuclidean"):
        raise NoFunctionError
    first = body.add("Unsqueeze", body.input(0), body.integers([1]))
    difference = body.add("Sub", first, body.add("Unsqueeze", body.input(1), body.integers([0])))
    operator = "ReduceL2" if metric == "euclidean" else "ReduceSumSquare"
    return [body.add(operator, difference, body.integers([-1]), keepdims=0)]


def product_of_small_integers(body: Body) -> Sequence[str]:
    """MatMulInteger16: a product of integers of 16 bits in 32."""
    return [body.add("MatMul", *(body.cast(body.input(number), _INT32) for number in (0, 1)))]


def windows_of_a_dim(body: Body) -> Sequence[str]:
    """UnfoldTensor: the windows along a dim, whose elements become the last dim."""
    rank, dim = body.rank(0), body.attribute("dim", -1)
    size, step = body.attribute("size", 0), body.attribute("step", 1)
    if not -rank <= dim < rank or min(size, step) < 1:
        raise NoFunctionError
    dim %= rank
    count = (body.extent(0, dim) - size) // step + 1
    if count < 1:
        raise NoFunctionError
    places = [[window * step + place for place in range(size)] for window in range(count)]
    windows = body.add("Gather", body.input(0), body.integers(places), axis=dim)
    order = [*(k for k in range(rank + 1) if k != dim + 1), dim + 1]
    return [body.add("Transpose", windows, perm=order)]


def boxes_of_images(body: Body) -> Sequence[str]:
    """CropAndResize: boxes of images, in parts of their extents, resampled linearly. What lies outside of an image is
    one number. A single row or column is taken from the middle of the box."""
    if body.attribute("mode", "bilinear") != "bilinear":
        raise NoFunctionError
    element, outside = body.element(0), body.attribute("extrapolation_value", 0.0)
    boxes, known = body.input(1), body.numbers(3)
    if known is not None and len(known) != 2:
        raise NoFunctionError
    images = body.add("Gather", body.input(0), body.cast(body.input(2), INT64), axis=0)
    one, half, two = (body.constant(value, element) for value in (1.0, 0.5, 2.0))

    def places(side: int) -> str:
        """The places that are read along one dim, in parts of the extent: a row per box."""
        low, high = (body.part(boxes, 1, side + end, side + end + 1) for end in (0, 2))
        if known is None:
            extent = body.add("Gather", body.cast(body.input(3), INT64), body.integers(side), axis=0)
        else:
            extent = body.integers(known[side])
        number = body.cast(body.indices(extent), element)
        last = body.add("Max", body.add("Sub", body.cast(extent, element), one), one)
        share = body.add(
            "Where", body.add("Equal", extent, body.integers(1)), half, body.add("Div", number, last)
        )
        return body.add("Add", low, body.add("Mul", body.add("Sub", high, low), share))

    rows = body.add("Unsqueeze", places(0), body.integers([2]))
    columns = body.add("Unsqueeze", places(1), body.integers([1]))
    zero = body.constant(0.0, element)
    rows, columns = (
        body.add("Add", one_way, body.add("Mul", other, zero))
        for one_way, other in ((rows, columns), (columns, rows))
    )
    ends = [
        body.add(operator, one_way, bound)
        for one_way in (rows, columns)
        for operator, bound in (("GreaterOrEqual", zero), ("LessOrEqual", one))
    ]
    is_inside = body.add("And", body.add("And", ends[0], ends[1]), body.add("And", ends[2], ends[3]))
    pair = [body.add("Unsqueeze", one_way, body.integers([-1])) for one_way in (columns, rows)]
    grid = body.add("Sub", body.add("Mul", body.add("Concat", *pair, axis=-1), two), one)
    sampled = body.add("GridSample", images, grid, align_corners=1, padding_mode="border", mode="linear")
    filling = body.constant(outside, element)
    return [body.add("Where", body.add("Unsqueeze", is_inside, body.integers([1])), sampled, filling)]


def without_repetitions(body: Body) -> Sequence[str]:
    """NGramRepeatBlock: scores of the next token, -inf for those that would repeat a row of so many tokens."""
    size, length = body.attribute("ngram_size", 0), body.extent(0, 1)
    if size < 1:
        raise NoFunctionError
    if size > length:
        return [body.add("Identity", body.input(1))]
    *first, next_token = (
        body.part(body.input(0), 1, place, length - size + 1 + place) for place in range(size)
    )
    filling = body.constant(float("-inf"), FLOAT)
    for place, window in enumerate(first, length - size + 1):
        last = body.part(body.input(0), 1, place, place + 1)
        filling = body.add(
            "Where", body.add("Equal", window, last), filling, body.constant(float("inf"), FLOAT)
        )
    filling = body.add("Expand", filling, body.add("Shape", next_token))
    return [body.add("ScatterElements", body.input(1), next_token, filling, axis=1, reduction="min")]


def convolution_with_given_pads(body: Body) -> Sequence[str]:
    """ConvTransposeWithDynamicPads: a ConvTranspose whose pads are an input; those that are no constant are cut off."""
    if body.attribute("auto_pad", "NOTSET") != "NOTSET":
        raise NoFunctionError
    known, dims = body.numbers(2), body.rank(0) - 2
    if known is not None and (len(known) != 2 * dims or min(known, default=0) < 0):
        raise NoFunctionError
    operands = [body.input(number) for number in (0, 1, 3) if number < 3 or body.has(number)]
    attributes = body.stated(("dilations", "group", "kernel_shape", "output_padding", "strides"))
    if known is not None:
        return [body.add("ConvTranspose", *operands, pads=known, **attributes)]
    whole, pads = body.add("ConvTranspose", *operands, **attributes), body.input(2)
    starts = body.part(pads, 0, 0, dims)
    ends = body.add("Sub", body.shape(whole, 2, 2 + dims), body.part(pads, 0, dims, 2 * dims))
    return [body.add("Slice", whole, starts, ends, body.integers([*range(2, 2 + dims)]))]
