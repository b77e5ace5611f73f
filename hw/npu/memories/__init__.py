"""Memories of a core, and RECEIVE, which writes them."""
