"""The selection problem of a program: its decision points, how often they run, and what an answer means."""
