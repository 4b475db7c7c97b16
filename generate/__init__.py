"""Generates files from other files of this repository."""
