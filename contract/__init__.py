"""The types that operator and jobs share: the kinds, names and documents. No I/O."""
