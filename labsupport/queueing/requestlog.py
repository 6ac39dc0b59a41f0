"""What happened to each request: the one data model that simulators, load tests and files share."""

from dataclasses import dataclass, fields

import numpy as np

_COUNTS = ("prompt_tokens", "output_tokens")
_NO_CLOCK = (*_COUNTS, "longest_gap")
_AFTER_ARRIVAL = ("start", "first_token", "finish")


@dataclass(frozen=True, eq=False, repr=False)
class RequestLog:
    """The life of each request, as columns of equal length sorted by arrival.

    Columns (all float64, made read-only; times in seconds from the beginning of the run):

    arrival        when the request came in (an open load generator: when it was really sent)
    start          when its service began
    finish         when its last result was delivered
    intended       when the load generator's schedule wanted to send it
    first_token    when its first token was delivered
    prompt_tokens  tokens read, output_tokens: tokens written
    longest_gap    longest time between two of its tokens in a row (0 where there were fewer than two)
    ok             bool; False for a request that failed, was refused or was cut off

    Where `ok` is False, `start`, `first_token` and `finish` may be inf: it never came so far. A refused
    request has an infinite `start` and a finite `finish`, the moment it was sent away. Everywhere else
    arrival <= start <= first_token <= finish holds.

    Raises ValueError or TypeError in one sentence that names column, row, value and remedy.
    """

    arrival: np.ndarray
    start: np.ndarray
    finish: np.ndarray
    intended: np.ndarray | None = None
    first_token: np.ndarray | None = None
    prompt_tokens: np.ndarray | None = None
    output_tokens: np.ndarray | None = None
    longest_gap: np.ndarray | None = None
    ok: np.ndarray | None = None

    def __post_init__(self):
        columns = _checked({f.name: getattr(self, f.name) for f in fields(self)})
        arrival = columns["arrival"]
        if (row := _first(arrival[1:] < arrival[:-1])) is not None:
            raise ValueError(
                f"arrival is not sorted: row {row + 1} ({arrival[row + 1]:g} s) comes before row {row} "
                f"({arrival[row]:g} s); use RequestLog.from_unsorted(...), which sorts all columns."
            )
        for name, column in columns.items():
            object.__setattr__(self, name, column)

    @classmethod
    def from_unsorted(cls, **columns):
        """A log from columns in any order: every column is sorted by arrival, ties keep their order."""
        if unknown := set(columns) - {f.name for f in fields(cls)}:
            raise TypeError(f"RequestLog has no column {sorted(unknown)[0]!r}; it has {_names(cls)}.")
        columns = _checked({"arrival": None, "start": None, "finish": None} | columns)
        order = np.argsort(columns["arrival"], kind="stable")
        return cls(**{name: None if c is None else _read_only(c[order]) for name, c in columns.items()})

    def __len__(self):
        return len(self.arrival)

    def __repr__(self):
        n = len(self)
        span = f" arriving from {self.arrival[0]:.6g} s to {self.arrival[-1]:.6g} s" if n else ""
        failed = 0 if self.ok is None else n - int(np.count_nonzero(self.ok))
        present = ", ".join(f.name for f in fields(self) if getattr(self, f.name) is not None)
        return f"RequestLog({n} requests{span}, {failed} not ok; columns {present})"

    @property
    def wait(self):
        """Waiting time in s, from arrival to the start of service; inf if service never began."""
        return self.start - self.arrival

    @property
    def response(self):
        """Response time in s, from arrival to finish; inf if the request never finished."""
        return self.finish - self.arrival

    @property
    def service(self):
        """Time from start to finish in s; inf if never finished, NaN if service never began."""
        with np.errstate(invalid="ignore"):
            return np.where(np.isinf(self.start), np.nan, self.finish - self.start)

    @property
    def ttft(self):
        """Time to first token in s, from arrival to the first token; inf if there was none."""
        return self._needed("first_token") - self.arrival

    @property
    def tpot(self):
        """Time per output token in s: (finish - first_token) / (output_tokens - 1).

        NaN for fewer than two tokens, since then no token follows the first, and NaN without a first token.
        """
        first, tokens = self._needed("first_token"), self._needed("output_tokens")
        defined = (tokens >= 2) & np.isfinite(first)
        tpot = np.full(len(self), np.nan)
        tpot[defined] = (self.finish[defined] - first[defined]) / (tokens[defined] - 1)
        return tpot

    def in_system(self, t):
        """Number of requests in the system at time(s) t in s: those with arrival <= t < finish."""
        t = np.asarray(t, dtype=np.float64)
        if np.isnan(t).any():
            raise ValueError("t holds NaN; give times in seconds.")
        return np.searchsorted(self.arrival, t, "right") - np.searchsorted(np.sort(self.finish), t, "right")

    def between(self, t0, t1):
        """The log of the requests that arrive in [t0, t1), times in s; their finish may lie after t1."""
        if not t0 <= t1:
            raise ValueError(f"between({t0!r}, {t1!r}) is no window; give t0 <= t1 in seconds.")
        part = slice(*np.searchsorted(self.arrival, (t0, t1), "left"))
        columns = {f.name: getattr(self, f.name) for f in fields(self)}
        return RequestLog(**{name: None if c is None else c[part] for name, c in columns.items()})

    def _needed(self, name):
        column = getattr(self, name)
        if column is None:
            raise ValueError(f"this log has no column {name!r}; make it with RequestLog(..., {name}=...).")
        return column


def _names(cls):
    return ", ".join(f.name for f in fields(cls))


def _first(bad):
    """Index of the first True, or None."""
    row = int(bad.argmax()) if len(bad) else 0
    return row if len(bad) and bad[row] else None


def _read_only(array):
    array.flags.writeable = False
    return array


def _column(name, values):
    """A read-only 1-d array of the log's own (a copy, unless it is read-only already)."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"column {name!r} must hold numbers, not {values!r:.60}.") from None
    if array.ndim != 1:
        raise ValueError(f"column {name!r} has {array.ndim} dimensions; give one value per request.")
    if name == "ok":
        if (row := _first((array != 0) & (array != 1))) is not None:
            raise ValueError(f"column 'ok' has {array[row]:g} in row {row}; give True or False.")
        array = array.astype(bool)
    return _read_only(array.copy() if array.flags.writeable else array)


def _checked(columns):
    """The columns as read-only arrays, or the reason why one row is impossible."""
    columns = {name: None if v is None else _column(name, v) for name, v in columns.items()}
    for name in ("arrival", "start", "finish"):
        if columns[name] is None:
            raise TypeError(f"column {name!r} is missing: a log needs arrival, start and finish.")
    n = len(columns["arrival"])
    for name, column in columns.items():
        if column is not None and len(column) != n:
            raise ValueError(
                f"column {name!r} has {len(column)} rows but arrival has {n}; give one value per request."
            )
    present = {name: column for name, column in columns.items() if column is not None}
    ok = present.pop("ok", None)
    if set(present) == {"arrival", "start", "finish"} and _sound(**present):
        return columns
    for name, column in present.items():
        _check_values(name, column, ok)
    for earlier, later in (
        ("arrival", "start"),
        ("arrival", "finish"),
        ("start", "finish"),
        ("start", "first_token"),
        ("first_token", "finish"),
    ):
        if earlier in present and later in present:
            _check_order(earlier, present[earlier], later, present[later])
    return columns


def _sound(arrival, start, finish):
    """Whether all is well, in few passes, for the many logs of simulators. Comparing with NaN is False."""
    ordered = (arrival[1:] >= arrival[:-1]).all() and (start >= arrival).all() and (finish >= start).all()
    return ordered and (not len(arrival) or (arrival[0] >= 0 and finish.max() < np.inf))


def _check_values(name, column, ok):
    bad = np.isnan(column)
    remedy = "give inf, and ok=False, for what never happened" if name in _AFTER_ARRIVAL else "drop the row"
    if not bad.any():
        bad = column < 0
        remedy = "give 0 or more" if name in _NO_CLOCK else "count seconds from the beginning of the run"
    if not bad.any():
        bad = np.isinf(column)
        remedy = "drop the row"
        if name in _AFTER_ARRIVAL:
            bad &= True if ok is None else ok
            remedy = "mark what never came so far with ok=False"
    if (row := _first(bad)) is not None:
        unit = "" if name in _COUNTS else " s"
        raise ValueError(f"column {name!r} has {column[row]:g}{unit} in row {row}; {remedy}.")


def _check_order(earlier, a, later, b):
    # An infinite time (allowed only where ok is False) says "never"; it orders nothing after it.
    if (row := _first((b < a) & np.isfinite(a))) is not None:
        raise ValueError(
            f"column {later!r} in row {row} is {b[row]:.9g} s, before {earlier!r} at {a[row]:.9g} s; "
            "check that both columns use the same clock and the same rows."
        )
