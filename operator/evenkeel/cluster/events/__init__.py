"""Writes Events of Kubernetes."""
