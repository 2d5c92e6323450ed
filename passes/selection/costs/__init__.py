"""What moving and computing costs: built in, from a table, or measured."""
