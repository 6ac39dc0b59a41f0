"""Readers for what real tools and clusters write: `read(path)` returns a `Record`."""

from importlib import import_module

_HOME = {
    "read": "reading",
    "read_all": "reading",
    "Record": "record",
    "Claims": "record",
    "Summary": "record",
}
__all__ = list(_HOME)


def __getattr__(name):
    if name not in _HOME:
        raise AttributeError(f"labsupport.records has no {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)
