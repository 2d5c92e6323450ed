"""Reorders beside what the memory allows and beside other libraries: the table, the libraries, the timing.

cases       the table: two layouts, element types, a shape per size of memory
peers       the same work done by NumPy, torch and oneDNN (`onednn`), where they are installed
rounds      contenders take turns until the noise allows a statement
measure     one case: buffers, contenders, rounds, bytes compared
report      lines, summaries and JSON of what was measured
"""
