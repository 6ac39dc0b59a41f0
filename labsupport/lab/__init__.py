"""What a learner touches: explorers, predictions, exercise checks and the look of figures."""

from importlib import import_module

# Loaded on first use: reading a RequestLog needs no widgets.
_HOME = {
    "Explorer": "explorer",
    "slider": "explorer",
    "choice": "explorer",
    "Still": "canvas",
    "Table": "table",
    "Asked": "prediction",
    "predict": "prediction",
    "recall": "prediction",
    "exercise": "check",
}
__all__ = list(_HOME)


def __getattr__(name):
    if name not in _HOME:
        raise AttributeError(f"labsupport.lab has no {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)
