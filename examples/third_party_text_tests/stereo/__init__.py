"""A compiler of somebody else: a dialect for stereo sound, and a tool to test it with."""
