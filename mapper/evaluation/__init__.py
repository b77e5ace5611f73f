"""Evaluation of a finished mapping: metrics, simulation, verification."""
