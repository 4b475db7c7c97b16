"""Requests and their answers, as typed values."""
