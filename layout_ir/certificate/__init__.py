"""Checking that a selection of layouts is the cheapest there is, without trusting what found it.

A certificate carries the problem (options of every op, reorder costs of every value), the choice made, and numbers
that prove a lower bound of *every* choice. Checking needs no solver: integers are added up and compared. Nothing here
imports anything but the standard library and the error class, and the proof is read in the order of the files:

stated_problem.py          what a choice costs
stated_cost_functions.py   that cost as a sum of tables, each over few variables
tables.py                  tables of integers over variables, added and minimized
bound.py                   costs shifted between the tables until the sum of their minima is a bound of the sum
checking.py                cost and bound recomputed, and compared with what the certificate states
schema.py                  what is where in a certificate, to say which place is malformed
"""
