"""Tests of what is derived for ops of other dialects."""
