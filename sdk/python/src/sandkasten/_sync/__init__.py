# Written by scripts/generate.py from _async/__init__.py. Change that instead.
"""The clients as they are written."""
