"""The parts of layout-fold-reorders that take more than a few lines.

moves.py     what a change of layout costs where it stands, and making one
rerun.py     ops taken to another Format, so that reorders around them vanish
regions.py   reorders moved out of loops, into branches, around loop-carried values
"""
