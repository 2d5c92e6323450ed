"""Sizes that only the run time knows: how to calculate with them, and what was assumed of them."""
