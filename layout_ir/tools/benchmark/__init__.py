"""Reorders beside the copy bandwidth and beside other libraries: the table, the libraries, the measurement.

cases       the table: two layouts, element types, a shape per size of memory
peers       the same work done by NumPy, torch and oneDNN (`onednn`), where they are installed
cores       whether threads have cores of their own, and the clock
measure     one case: buffers, contenders, the race (`backends.llvm.runtime.timing`), bytes compared
summary     lines, summaries and JSON of what was measured
"""
