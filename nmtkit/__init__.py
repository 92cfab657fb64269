"""nmtkit: neural machine translation with attention, from raw parallel text to scores."""

__version__ = "0.1.0"
