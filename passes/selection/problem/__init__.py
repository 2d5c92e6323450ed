"""The selection problem: values, decision points and the sets of formats, in plain integers."""
