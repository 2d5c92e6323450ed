"""An array of Python objects has elements of eight bytes, and is no buffer of a kernel."""

import numpy as np

import layout_ir as li

src, dst = li.TensorDesc((2, 3), "f64", "ab"), li.TensorDesc((2, 3), "f64", "ba")
open_src, open_dst = li.TensorDesc((None, 3), "f64", "ab"), li.TensorDesc((None, 3), "f64", "ba")
x = np.arange(6.0).reshape(2, 3) + 0.1
for call in (
    lambda a, b: li.compile_reorder(src, dst)(a, b),
    lambda a, b: li.compile_reorder(open_src, open_dst)(a, b, shape=(2, 3)),
):
    for given, out in (
        (x, np.empty((3, 2), object)),
        (x.astype(object), np.empty((3, 2))),
        (x.astype(object), np.empty((3, 2), object)),
    ):
        try:
            call(given, out)
        except (li.LayoutError, TypeError):
            assert str(out) is not None  # it can still be printed
        else:
            raise AssertionError("objects were taken for numbers")
