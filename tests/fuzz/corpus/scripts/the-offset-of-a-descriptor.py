"""A descriptor has the offset that it was given, or refuses it."""

import layout_ir as li

try:
    desc = li.TensorDesc((2, 3), "f32", "nc", offset=5)
except (li.LayoutError, TypeError):
    pass
else:
    assert desc.offset == 5, desc.offset
