"""What programs mean (`reference`), what they run as, and models in a runtime (`onnxruntime`).

Reorders and loops run as machine code (`llvm`), networks by the kernels of oneDNN and those loops (`onednn`).

Import name: `layout_ir.backends`.
"""

# In the root of a checkout `import backends` finds this folder too and would make a second copy of every class.
if __name__ != "layout_ir.backends":
    raise ImportError(f"import this package as 'layout_ir.backends', not as {__name__!r}")
