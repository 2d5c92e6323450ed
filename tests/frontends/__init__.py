"""Tests of the readers of foreign models."""
