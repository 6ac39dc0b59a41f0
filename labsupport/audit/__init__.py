"""Can this benchmark be believed? `audit` judges a RequestLog or a Record, `audit_files` files of load tools."""

from importlib import import_module

_HOME = {"audit": "auditing", "audit_files": "auditing", "audit_records": "auditing"}
_HOME |= {"Audit": "finding", "Finding": "finding", "CHECKS": "auditing"}
__all__ = list(_HOME)


def __getattr__(name):
    if name not in _HOME:
        raise AttributeError(f"labsupport.audit has no {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)
