"""A choice of least cost, and the bound that proves it."""
