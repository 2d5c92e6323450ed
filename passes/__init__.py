"""The passes of layout-ir, one file each. Import name: `layout_ir.passes`."""

# In the root of a checkout `import passes` finds this folder too and would make a second copy of every class.
if __name__ != "layout_ir.passes":
    raise ImportError(f"import this package as 'layout_ir.passes', not as {__name__!r}")
