"""The selection problem in plain integers, a choice of least cost, and the bound that proves it."""
