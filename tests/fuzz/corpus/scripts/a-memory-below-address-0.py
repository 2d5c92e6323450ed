"""Layouts below address 0, or with two elements at one address: refused, or right; never lost in silence."""

import numpy as np

import layout_ir as li

for text, shape in (
    ("(a, b) : [a*20, b*4, b:2*-1]", (2, 6)),
    ("(a, b) : [a*3, b*-1]", (4, 3)),
    ("(n, c, h, w) : [n, c*200, h, w, c:8]", (8, 5, 11, 9)),
):
    values = np.arange(1.0, np.prod(shape) + 1, dtype=np.float32).reshape(shape)
    try:
        memory = li.Memory(li.TensorDesc(shape, "f32", text))
        memory.set(values)
    except li.LayoutError:
        continue
    assert np.array_equal(memory.numpy(), values), text
