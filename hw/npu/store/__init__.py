"""The store unit, and outgoing flits."""
