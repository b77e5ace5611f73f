"""Passes over graphs of real numbers, before quantisation."""
