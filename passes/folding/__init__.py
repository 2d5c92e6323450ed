"""The parts of layout-fold-reorders that take more than a few lines.

cost_changes.py   what a change of layout costs where it stands, and making one
reformat.py       ops taken to another Format, so that reorders around them vanish
hoist_sink.py     reorders moved out of loops, into branches, around loop-carried values
"""
