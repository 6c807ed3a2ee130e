# Written by scripts/generate.py from _async/__init__.py. Change that instead.
"""Synchronous clients."""
