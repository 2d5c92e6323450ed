"""From a program to a selection problem, and from a choice back to the program."""
