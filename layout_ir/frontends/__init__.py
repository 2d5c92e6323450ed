"""Readers of foreign model formats."""
