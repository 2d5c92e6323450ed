"""The passes of layout-ir, one file each. Import name: `layout_ir.passes`."""

from layout_ir.passes.dialect_extensions import DialectExtension, register_extension

# In the root of a checkout `import passes` finds this folder too and would make a second copy of every class.
if __name__ != "layout_ir.passes":
    raise ImportError(f"import this package as 'layout_ir.passes', not as {__name__!r}")


def _derived() -> DialectExtension:
    from layout_ir.passes.selection.options.foreign import derived_extension

    return derived_extension


for _dialect in ("arith", "linalg", "math", "tensor", "tosa"):
    register_extension(_dialect, _derived)
