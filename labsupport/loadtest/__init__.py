"""A real HTTP server whose service law is known, and real load generators that return a RequestLog.

    with serving(service=exponential(0.005), stalls=Stalls(1, 10)) as url:
        users, tool = run(OpenLoop(url, poisson(rng, 100, 3000)), ClosedLoop(url, users=1, duration_s=30))

Needs the extra `load`: pip install "queueing-lab[load]".
"""

from importlib import import_module

# Loaded on first use: the server's own process and the command line need only a part.
_HOME = {
    "serving": "server_process",
    "run": "session",
    "ClosedLoop": "generators",
    "OpenLoop": "generators",
    "Hey": "tools",
    "Wrk": "tools",
    "ToolReport": "tools",
    "parse_hey": "tools",
    "parse_wrk": "tools",
    "LoadLog": "loadlog",
}
__all__ = list(_HOME)


def __getattr__(name):
    if name not in _HOME:
        raise AttributeError(f"labsupport.loadtest has no {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)
