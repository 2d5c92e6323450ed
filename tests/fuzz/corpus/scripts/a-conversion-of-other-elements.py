"""A kernel that converts f64 refuses integers and the other byte order: of the same width, they are other numbers."""

import numpy as np

import layout_ir as li

kernel = li.compile_reorder(li.TensorDesc((2, 3), "f64", "ab"), li.TensorDesc((2, 3), "f32", "ba"))
for dtype in (np.int64, ">f8"):
    out = np.zeros((3, 2), np.float32)
    x = np.arange(6).reshape(2, 3).astype(dtype)
    try:
        kernel(x, out)
    except (li.LayoutError, TypeError):
        continue
    assert np.array_equal(out, np.arange(6).reshape(2, 3).T), f"{dtype} was taken for f64"
