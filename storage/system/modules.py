"""Modules of the standard library that not all systems have."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def module_of(name: str) -> Any:
    """Return a module that not all systems have, or None."""
    try:
        return import_module(name)
    except ImportError:
        return None
