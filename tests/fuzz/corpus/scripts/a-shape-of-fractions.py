"""A shape of fractions is refused, and so is misuse of the calls: with an error of ours or a TypeError."""

import numpy as np

import layout_ir as li

a, b = li.TensorDesc((None, 3), "f32", "ab"), li.TensorDesc((None, 3), "f32", "ba")
x = np.ones((2, 3), np.float32)
misuses = (
    lambda: li.compile_reorder(a, b)(x, np.ones(6, np.float32), shape=(2.5, 3)),
    lambda: li.reorder(x, "ab", "ba", out=[1, 2]),
    lambda: li.reorder(x, "ab", "ba", out=3),
    lambda: li.reorder(x, "ab", None),
    lambda: li.reorder(x, 5, "ba"),
    lambda: li.reorder(x, b"ab", "ba"),
    lambda: li.TensorDesc(None, "f32", "ab"),
    lambda: li.reorder(x, "ab", "ba", scale="x"),
    lambda: li.compile_reorder(li.TensorDesc((2, 3), "f32", "ab"), li.TensorDesc((2, 3), "f32", "ba"))(
        x, None
    ),
)
for number, misuse in enumerate(misuses):
    try:
        misuse()
    except (li.LayoutError, TypeError):
        continue
    raise AssertionError(f"misuse {number} is not noticed")
