"""Generators of files that follow from other files of this repository."""
