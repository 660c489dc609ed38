"""Daybook: what its packages share."""

from daybook._native import __version__
from daybook.errors import Error

__all__ = ["Error", "__version__"]
