"""Hostile files: some hundred random ones, and every kind that once did harm."""
