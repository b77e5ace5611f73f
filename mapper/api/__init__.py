"""The functions of the package `mapper` for Python, one module per topic."""
