"""What an audit says: findings, each with a verdict, numbers, a reason and the lesson that explains it."""

from dataclasses import dataclass, field, fields
from functools import cached_property, wraps

import numpy as np

from labsupport.queueing.requestlog import RequestLog
from labsupport.records.record import Claims, Record

HOLDS, DOUBTFUL, BROKEN, UNKNOWN = "holds", "doubtful", "broken", "can't be checked"
VERDICTS = (HOLDS, DOUBTFUL, BROKEN, UNKNOWN)
AGREE, DISAGREE = 0.05, 0.2  # relative difference of two counts of the same thing


def graded(difference, mild=AGREE, strong=DISAGREE):
    """holds up to `mild`, doubtful up to `strong`, else broken. The last digit of a product does not decide."""
    return HOLDS if difference <= mild + 1e-9 else DOUBTFUL if difference <= strong + 1e-9 else BROKEN


def worst(*verdicts):
    """The worst of several verdicts."""
    return next(v for v in (BROKEN, DOUBTFUL, HOLDS, UNKNOWN) if v in verdicts)


def label(p):
    """P99 for 0.99."""
    return f"P{100 * p:.6g}"


def ended(log):
    """The requests of a log that ended, well or not."""
    done = np.isfinite(log.finish)
    columns = {column.name: getattr(log, column.name) for column in fields(log)}
    return RequestLog(**{name: None if column is None else column[done] for name, column in columns.items()})


@dataclass(frozen=True)
class Finding:
    """One check of an audit.

    check    its name; title: the question it answers
    verdict  holds, doubtful, broken or can't be checked
    numbers  {name with unit: number or text}
    reason   two sentences: what was found, and what follows
    lesson   stem of the lesson that explains it
    """

    check: str
    title: str
    verdict: str
    numbers: dict[str, float | str] = field(default_factory=dict)
    reason: str = ""
    lesson: str = ""

    def __post_init__(self):
        plain = {
            name: value.item() if hasattr(value, "item") else value for name, value in self.numbers.items()
        }
        object.__setattr__(self, "numbers", plain)


def check(title, lesson):
    """Makes a check of a function of a `Run` that returns verdict, numbers, reason, and another lesson where that fits."""

    def of(function):
        @wraps(function)
        def judged(run) -> Finding:
            verdict, numbers, reason, *elsewhere = function(run)
            return Finding(function.__name__, title, verdict, numbers, reason, *(elsewhere or [lesson]))

        return judged

    return of


@dataclass(frozen=True, eq=False)
class Audit:
    """All findings on one run; `audit["little"]` is the finding of that name."""

    record: Record
    findings: tuple[Finding, ...]
    slo: dict[str, float]

    def __getitem__(self, check):
        found = next((finding for finding in self.findings if finding.check == check), None)
        if found is None:
            raise KeyError(
                f"there is no check {check!r}; there are {', '.join(f.check for f in self.findings)}"
            )
        return found

    def __iter__(self):
        return iter(self.findings)

    def __len__(self):
        return len(self.findings)

    def having(self, verdict):
        """The findings of one verdict."""
        return [finding for finding in self.findings if finding.verdict == verdict]

    @property
    def worst(self):
        """broken, doubtful, holds, or can't be checked if nothing could be."""
        return next((v for v in (BROKEN, DOUBTFUL, HOLDS) if self.having(v)), UNKNOWN)

    def __str__(self):
        from labsupport.audit.report import text

        return text(self)

    def __repr__(self):
        told = ", ".join(f"{len(self.having(verdict))} {verdict}" for verdict in VERDICTS)
        return f"Audit({self.record.name or self.record.tool}: {told})"

    def _repr_html_(self):
        from labsupport.audit.report import table_html

        return table_html(self)


@dataclass(frozen=True, eq=False)
class Run:
    """What the checks look at: a record, the promise to judge by, and the runs that came before."""

    record: Record
    slo: dict[str, float]
    earlier: tuple[Record, ...] = ()

    @property
    def log(self) -> RequestLog | None:
        return self.record.log if self.record.log is not None and len(self.record.log) else None

    @property
    def claims(self) -> Claims:
        return self.record.claims

    @cached_property
    def ok(self):
        """Which requests of the log succeeded."""
        return np.ones(len(self.log), bool) if self.log.ok is None else self.log.ok

    @cached_property
    def ended(self):
        """The log without requests that never ended: a failure without an end would else count as inside for ever."""
        if self.log is None or np.isfinite(self.log.finish).all():
            return self.log
        return ended(self.log)

    @cached_property
    def arrival(self):
        """Moments of arrival in s, from a log or a trace; None where there are none."""
        if self.log is not None:
            return self.log.arrival
        return None if self.record.trace is None else self.record.trace.arrival

    @cached_property
    def response(self):
        """Response times in s of the successes in order of arrival; of a summary in the file's order; or None."""
        if self.log is not None:
            return self.log.response[self.ok]
        summary = self.record.summary
        if summary is None or "response" not in summary.durations:
            return None
        values = summary.durations["response"]
        return values if summary.ok is None else values[summary.ok]

    @cached_property
    def top(self):
        """(quantity, p) of the highest percentile the tool claims, P99 of the response where it claims none."""
        return max(self.claims.quantiles, key=lambda key: key[1], default=("response", 0.99))

    @cached_property
    def sent(self):
        """Number of requests that were sent, by the tool or else by the records; None if unknown."""
        if self.claims.requests is not None:
            return self.claims.requests
        if self.log is not None:
            return len(self.log)
        return None if self.response is None else len(self.record.summary.durations["response"])

    def has(self, quantity):
        """Whether the log has the columns that the quantity (response, wait, ttft, tpot) needs."""
        needs = {"ttft": ("first_token",), "tpot": ("first_token", "output_tokens")}.get(quantity, ())
        return self.log is not None and all(getattr(self.log, column) is not None for column in needs)

    def values(self, quantity):
        """The quantity's values in s of the successes, their response times where it is not recorded, or None."""
        if self.log is None:
            if self.response is None:
                return None
            summary = self.record.summary
            found = summary.durations.get(quantity, summary.durations["response"])
            found = found if summary.ok is None else found[summary.ok]
        elif quantity in ("ttft", "tpot") and self.has(quantity):
            found = getattr(self.log, quantity)[self.ok]
        else:
            found = self.response
        found = found[~np.isnan(found)]
        return found if len(found) else None
