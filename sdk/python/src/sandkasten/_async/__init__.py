"""The clients as they are written."""
