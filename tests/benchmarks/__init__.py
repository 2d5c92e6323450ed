"""Of the scripts in benchmarks/: that they count what they say they count."""
