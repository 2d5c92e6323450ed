"""The parts of layout-fold-reorders that take more than a few lines.

cost_changes.py   changes of layout: the op that makes one, and what it costs where it stands
reformat.py       ops that run in another Format, so that reorders around them vanish
hoist_sink.py     code motion of reorders: out of loops, into branches, around loop-carried values
"""
