"""A kernel for dynamic shapes refuses layouts that begin in front of their buffers."""

import numpy as np

import layout_ir as li

for source, target, open_shape, shape in (
    ("ab", "(a, b) : [a*3, b*-1]", (None, 3), (4, 3)),
    ("ab", "(a, b) : [b*-4, a]", (None, 3), (4, 3)),
    ("(a, b) : [a*-16, b]", "ab", (None, 3), (4, 3)),
):
    room = np.full(4096, 7, np.float32)
    before, after = room[:1024], room[1024:]
    try:
        kernel = li.compile_reorder(
            li.TensorDesc(open_shape, "f32", source), li.TensorDesc(open_shape, "f32", target)
        )
        kernel(np.ones(1024, np.float32), after[:1024], shape=shape)
    except li.LayoutError:
        continue
    assert (before == 7).all(), f"{source} -> {target} wrote in front of the buffer"
    raise AssertionError(f"{source} -> {target} was run")
