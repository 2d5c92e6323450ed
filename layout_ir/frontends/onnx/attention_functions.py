"""The kinds of attention that ONNX Runtime has, as functions of standard operators, and the rotation of pairs by their
place."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

from layout_ir.frontends.onnx.function_body import INT64, Body, NoFunctionError, product_of_integers

_FLOATS = (1, 10, 11, 16)
"""Floats of 16 to 64 bits, as TensorProto numbers element types."""

_END = (1 << 63) - 1
"""The end of a Slice that goes as far as the tensor does."""


class _Scores:
    """The products of queries and keys, (batch, heads, steps, size) both, scaled, and what is done to them before their
    softmax."""

    def __init__(self, body: Body, queries: str, keys: str, size: int, element: int) -> None:
        if size < 1 or element not in _FLOATS:
            raise NoFunctionError
        self.body, self.element, self._queries = body, element, queries
        products = body.add("MatMul", queries, body.add("Transpose", keys, perm=[0, 1, 3, 2]))
        scale = body.attribute("scale", 0.0) or 1 / sqrt(size)
        self._value = body.add("Mul", products, body.constant(scale, element))

    def add(self, value: str) -> None:
        """Adds `value`, whose shape is broadcast to (batch, heads, queries, keys)."""
        self._value = self.body.add("Add", self._value, value)

    def cap(self, bound: float) -> None:
        """Bends scores to between -bound and bound."""
        limit = self.body.constant(bound, self.element)
        bent = self.body.add("Tanh", self.body.add("Div", self._value, limit))
        self._value = self.body.add("Mul", bent, limit)

    def keep(self, shown: str) -> None:
        """Keeps the scores where `shown`."""
        self._value = self.body.add("Where", shown, self._value, self.body.constant(-np.inf, self.element))

    def weigh(self, values: str, width: int = -1, sinks: str = "") -> str:
        """The sum of `values` by the softmax of the scores, (batch, steps, heads * size).

        `width` is heads * size where that is known. `sinks` are scores of one more key for each head, (heads) or a
        tensor of one element, whose value is 0.
        """
        body = self.body
        if sinks:
            row = body.shape(self._value, 0, 3)
            column = body.add("Concat", row, body.integers([1]), axis=0)
            more = body.add("Expand", body.reshaped(sinks, 1, -1, 1, 1), column)
            weights = body.add("Softmax", body.add("Concat", more, self._value, axis=3), axis=-1)
            weights = body.part(weights, 3, 1, _END)
        else:
            weights = body.add("Softmax", self._value, axis=-1)
        sums = body.add("Transpose", body.add("MatMul", weights, values), perm=[0, 2, 1, 3])
        # Of the queries, since of the keys less may be known.
        extents = (body.shape(self._queries, 0, 1), body.shape(self._queries, 2, 3), body.integers([width]))
        return body.add("Reshape", sums, body.add("Concat", *extents, axis=0))


def _heads(body: Body, value: str, count: int) -> str:
    """(batch, steps, heads * size) as (batch, heads, steps, size)."""
    return body.add("Transpose", body.reshaped(value, 0, 0, count, -1), perm=[0, 2, 1, 3])


def _earlier(body: Body, queries: str, keys: str) -> str:
    """Which keys come no later than a query, where the last of both are of the same place: (queries, keys)."""
    steps, total = body.size(queries, 2), body.size(keys, 2)
    places = body.add("Add", body.indices(steps), body.add("Sub", total, steps))
    return body.add("LessOrEqual", body.indices(total), body.reshaped(places, -1, 1))


def _mask(body: Body, number: int, keys: str, element: int) -> str:
    """What a mask adds to scores: the mask is per key, per query and key, or a number of keys for each sequence."""
    mask, kind, rank = body.input(number), body.element(number), body.rank(number)
    if rank == 1:
        count = body.cast(body.indices(body.size(keys, 2)), kind)
        shown = body.add("Less", body.reshaped(count, 1, 1, 1, -1), body.reshaped(mask, -1, 1, 1, 1))
        is_known = body.extents(0)[:1] == body.extents(number)  # else the mask says more than a count
    else:
        dims = body.integers([1, 2] if rank == 2 else [1])
        shown = body.add("Greater", body.add("Unsqueeze", mask, dims), body.constant(0, kind))
        is_known = rank in (2, 3)
    if not is_known:
        raise NoFunctionError
    low = body.attribute("mask_filter_value", -10000.0)
    return body.add("Where", shown, body.constant(0.0, element), body.constant(low, element))


def _attended(
    body: Body, projected: str, sizes: Sequence[int], element: int, inputs: tuple[int, int, int]
) -> list[str]:
    """What both kinds of Attention do with the product that has queries, keys and values in its columns; `inputs` are
    the numbers of mask, earlier keys and values, and what is added to scores."""
    mask, past, bias = inputs
    heads = body.attribute("num_heads", 0)
    if heads < 1 or len(sizes) != 3:
        raise NoFunctionError
    if body.attribute("do_rotary", 0) or body.attribute("past_present_share_buffer", 0):
        raise NoFunctionError
    starts = [0, sizes[0], sizes[0] + sizes[1], sum(sizes)]
    queries, keys, values = (
        _heads(body, body.part(projected, 2, *starts[number : number + 2]), heads) for number in range(3)
    )
    if body.has(past):
        before = [body.add("Gather", body.input(past), body.integers(number), axis=0) for number in (0, 1)]
        keys = body.add("Concat", before[0], keys, axis=2)
        values = body.add("Concat", before[1], values, axis=2)
    scores = _Scores(body, queries, keys, sizes[0] // heads, element)
    if body.has(mask):
        scores.add(_mask(body, mask, keys, element))
    if body.has(bias):
        scores.add(body.input(bias))
    if body.attribute("unidirectional", 0):
        scores.keep(_earlier(body, queries, keys))
    result = scores.weigh(values)
    if sizes[1] != sizes[2]:
        return [result]
    pairs = (body.add("Unsqueeze", value, body.integers([0])) for value in (keys, values))
    return [result, body.add("Concat", *pairs, axis=0)]


def attention(body: Body) -> Sequence[str]:
    """Attention: one product gives queries, keys and values of all heads."""
    body.allow(0, 1, 2, 3, 4, 5)
    sizes = body.attribute("qkv_hidden_sizes", []) or [body.extent(1, 1) // 3] * 3
    projected = body.add("MatMul", body.input(0), body.input(1))
    if body.has(2):
        projected = body.add("Add", projected, body.input(2))
    return _attended(body, projected, sizes, body.element(1), (3, 4, 5))


def quantized_attention(body: Body) -> Sequence[str]:
    """QAttention: the same with a product of integers."""
    projected = product_of_integers(body, (3, 4), (6, 7))
    projected = body.add("Add", projected, body.input(2))
    return _attended(body, projected, [body.extent(1, 1) // 3] * 3, body.element(3), (5, 8, 9))


def multi_head_attention(body: Body) -> Sequence[str]:
    """MultiHeadAttention: queries, keys and values are given, the last two by heads where they are of a cache."""
    body.allow(0, 1, 2, 3, 4, 5, 6, 7)
    heads, element, width = body.attribute("num_heads", 0), body.element(3, 6, 0), body.extent(0, -1)
    if heads < 1 or body.rank(0) != 3 or body.rank(1) not in (3, 4) or body.rank(1) != body.rank(2):
        raise NoFunctionError
    by_heads = body.rank(1) == 4
    given = [body.input(number) for number in range(3)]
    if body.has(3):
        if by_heads:
            raise NoFunctionError
        starts = [0, width, 2 * width, body.extent(3, 0)]
        given = [
            body.add("Add", value, body.part(body.input(3), 0, *starts[number : number + 2]))
            for number, value in enumerate(given)
        ]
    queries = _heads(body, given[0], heads)
    keys, values = given[1:] if by_heads else (_heads(body, value, heads) for value in given[1:])
    if body.has(6):
        keys = body.add("Concat", body.input(6), keys, axis=2)
        values = body.add("Concat", body.input(7), values, axis=2)
    scores = _Scores(body, queries, keys, width // heads, element)
    if body.has(4):
        scores.add(_mask(body, 4, keys, element))
    if body.has(5):
        scores.add(body.input(5))
    if body.attribute("unidirectional", 0):
        scores.keep(_earlier(body, queries, keys))
    return scores.weigh(values), keys, values


def group_query_attention(body: Body) -> Sequence[str]:
    """GroupQueryAttention: several heads of queries share one of keys and values; sequences of a batch may differ in
    length, and each has its new keys behind the earlier ones of its own."""
    body.allow(*range(12))
    heads, shared = body.attribute("num_heads", 0), body.attribute("kv_num_heads", 0)
    element = body.element(3, 7, 0)
    if heads < 1 or shared < 1 or heads % shared or body.attribute("qk_output", 0):
        raise NoFunctionError
    if any(body.attribute(name, "NONE") != "NONE" for name in ("k_quant_type", "v_quant_type")):
        raise NoFunctionError
    packed = 0 if body.has(1) else 2 * shared
    size = body.extent(3, 3) if body.has(3) else body.extent(0, 2) // (heads + packed)
    if packed:
        starts = [0, heads * size, (heads + shared) * size, (heads + packed) * size]
        given = [body.part(body.input(0), 2, *starts[number : number + 2]) for number in range(3)]
    else:
        given = [body.input(number) for number in range(3)]
    queries, keys, values = (
        _heads(body, value, count) for value, count in zip(given, (heads, shared, shared), strict=True)
    )
    steps = body.size(queries, 2)
    total = body.cast(body.reshaped(body.input(6), -1), INT64)
    # How many are known of each sequence before these; none where all are given at once.
    lengths = body.add("Add", body.cast(body.reshaped(body.input(5), -1), INT64), body.integers(1))
    is_first = body.add("Equal", total, steps)
    before = body.add("Where", is_first, body.integers(0), body.add("Sub", lengths, steps))
    before = body.reshaped(before, -1, 1)
    places = body.add("Add", before, body.indices(steps))  # (batch, steps)
    if body.attribute("do_rotary", 0):
        given_places = body.input(9) if body.has(9) else places
        turn = _Rotation(body, 7, 8, given_places, 4, bool(body.attribute("rotary_interleaved", 0)))
        queries, keys = turn.turned(queries, size), turn.turned(keys, size)
    slots = body.indices(_room(body, total))
    keys, values = (
        _put(body, body.input(number) if body.has(number) else "", value, before, slots)
        for number, value in ((3, keys), (4, values))
    )
    result = _grouped(body, queries, keys, values, (heads, shared, size), element, places, slots)
    return result, keys, values


def _room(body: Body, total: str) -> str:
    """How many keys and values there is room for: as many as there are with the new ones, or as many as came."""
    known = body.number(6)
    if not body.has(3):
        return body.add("Squeeze", total) if known is None else body.integers(known)
    earlier = body.extents(3)[2]
    if known is not None and earlier is not None:
        return body.integers(max(known, earlier))
    return body.add("Squeeze", body.add("Max", total, body.size(body.input(3), 2)), body.integers([0]))


def _put(body: Body, past: str, value: str, before: str, slots: str) -> str:
    """Keys or values of a cache with new ones at the place `before`, per sequence: (batch, heads, slots, size)."""
    place = body.add("Sub", body.reshaped(slots, 1, -1), before)  # (batch, slots), among the new ones
    last = body.add("Sub", body.size(value, 2), body.integers(1))
    within = body.add(
        "And", body.add("GreaterOrEqual", place, body.integers(0)), body.add("LessOrEqual", place, last)
    )
    inside = body.add("Min", body.add("Max", place, body.integers(0)), last)
    count = body.add("Shape", slots)
    target = body.add("Concat", body.shape(value, 0, 2), count, body.shape(value, 3, 4), axis=0)
    chosen = body.add("Expand", body.add("Unsqueeze", inside, body.integers([1, 3])), target)
    new = body.add("GatherElements", value, chosen, axis=2)
    if past:
        missing = body.add("Sub", count, body.shape(past, 2, 3))
        pads = body.add("Concat", body.integers([0] * 6), missing, body.integers([0]), axis=0)
        is_new = body.add("Unsqueeze", within, body.integers([1, 3]))
        new = body.add("Where", is_new, new, body.add("Pad", past, pads))
    return body.add("Reshape", new, target)  # which says the shape where it does not follow from the pads


def _grouped(
    body: Body,
    queries: str,
    keys: str,
    values: str,
    sizes: tuple[int, int, int],
    element: int,
    places: str,
    slots: str,
) -> str:
    """The attention of a GroupQueryAttention; `places` of queries, (batch, steps), and `slots` of keys, (slots)."""
    heads, shared, _ = sizes
    if heads != shared:
        keys, values = (_repeated(body, value, heads // shared) for value in (keys, values))
    scores = _Scores(body, queries, keys, sizes[2], element)
    if bound := body.attribute("softcap", 0.0):
        scores.cap(bound)
    if body.has(10):
        scores.add(body.input(10))
    place = body.add("Unsqueeze", places, body.integers([1, 3]))
    shown = body.add("LessOrEqual", slots, place)
    window = body.attribute("local_window_size", -1)
    if window > 0:
        start = body.add("Sub", place, body.integers(window))
        shown = body.add("And", shown, body.add("Greater", slots, start))
    scores.keep(shown)
    sinks = ""
    if body.has(11):
        sinks = body.input(11)
    elif body.attribute("smooth_softmax", 0) > 0:
        sinks = body.constant([0.0], element)
    return scores.weigh(values, heads * sizes[2], sinks)


def _repeated(body: Body, value: str, times: int) -> str:
    """Each head of (batch, heads, steps, size) so many times."""
    last, count = body.shape(value, 2, 4), body.integers([times])
    target = body.add("Concat", body.shape(value, 0, 2), count, last, axis=0)
    spread = body.add("Expand", body.add("Unsqueeze", value, body.integers([2])), target)
    heads = body.add("Mul", body.shape(value, 1, 2), count)
    return body.add("Reshape", spread, body.add("Concat", body.shape(value, 0, 1), heads, last, axis=0))


class _Rotation:
    """Turns pairs of elements by angles that depend on their place."""

    def __init__(
        self, body: Body, cosines: int, sines: int, places: str, rank: int, interleaved: bool
    ) -> None:
        """`cosines` and `sines` are the numbers of inputs (most places, pairs); `places` (batch, steps) or (steps)."""
        self.body, self.interleaved = body, interleaved
        self.pairs = body.extent(cosines, 1)
        shape = (1, 1, -1, self.pairs) if rank == 3 else (0, 1, -1, self.pairs)
        self.cosines, self.sines = (
            body.reshaped(body.add("Gather", body.input(number), places), *shape)
            for number in (cosines, sines)
        )

    def turned(self, value: str, size: int) -> str:
        """(batch, heads, steps, size), turned; what is beyond the pairs stays."""
        # Of the places less may be known.
        return self.body.add("Reshape", self._turned(value, size), self.body.add("Shape", value))

    def _turned(self, value: str, size: int) -> str:
        body, turned = self.body, 2 * self.pairs
        inner = value if turned == size else body.part(value, 3, 0, turned)
        if self.interleaved:
            one, other = (body.part(inner, 3, start, turned, 2) for start in (0, 1))
        else:
            one, other = body.part(inner, 3, 0, self.pairs), body.part(inner, 3, self.pairs, turned)
        new = [
            body.add("Sub", body.add("Mul", one, self.cosines), body.add("Mul", other, self.sines)),
            body.add("Add", body.add("Mul", one, self.sines), body.add("Mul", other, self.cosines)),
        ]
        if self.interleaved:
            columns = (body.add("Unsqueeze", half, body.integers([4])) for half in new)
            result = body.reshaped(body.add("Concat", *columns, axis=4), 0, 0, 0, -1)
        else:
            result = body.add("Concat", *new, axis=3)
        if turned == size:
            return result
        return body.add("Concat", result, body.part(value, 3, turned, size), axis=3)


def rotary_embedding(body: Body) -> Sequence[str]:
    """RotaryEmbedding: places are one number from which they count, or given one by one."""
    body.allow(0, 1, 2, 3)
    x, rank, pairs = body.input(0), body.rank(0), body.extent(2, 1)
    if body.attribute("is_packed_batching", 0) or body.attribute("scale", 1.0) != 1.0 or rank not in (3, 4):
        raise NoFunctionError
    heads = body.attribute("num_heads", 0)
    size = body.extent(0, 3) if rank == 4 else body.extent(0, 2) // heads if heads else 2 * pairs
    by_heads = x if rank == 4 else body.add("Transpose", body.reshaped(x, 0, 0, -1, size), perm=[0, 2, 1, 3])
    places, counted = body.input(1), body.rank(1) == 1
    if counted:
        places = body.add("Add", places, body.indices(body.size(by_heads, 2)))
    turn = _Rotation(body, 2, 3, places, 3 if counted else 4, bool(body.attribute("interleaved", 0)))
    result = turn.turned(by_heads, size)
    if rank == 4:
        return [result]
    return [body.reshaped(body.add("Transpose", result, perm=[0, 2, 1, 3]), 0, 0, -1)]
