"""The matrix unit: the MAC array and its rows."""
