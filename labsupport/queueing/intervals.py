"""A number and how far it can be trusted: intervals for means, quantiles and differences."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from labsupport.queueing._checks import as_series, as_share


@dataclass(frozen=True, repr=False)
class Estimate:
    """An estimated value with its confidence interval, or the reason why there is none.

    value       the estimate, in the unit of the data
    low, high   ends of the interval in the same unit; both None when no interval exists;
                a one-sided interval has one infinite end
    confidence  share of such intervals that cover the true value, if the method's assumptions hold
    method, n   how the interval was made and from how many: "batch means" and 20
    reason      why low and high are None
    """

    value: float
    low: float | None = None
    high: float | None = None
    confidence: float = 0.95
    method: str = ""
    n: int = 0
    reason: str = ""

    @property
    def half_width(self):
        """Half the length of the interval; None when there is no interval."""
        return None if self.low is None else (self.high - self.low) / 2

    def covers(self, truth):
        """Whether the interval contains `truth`; False when there is no interval."""
        return self.low is not None and bool(self.low <= truth <= self.high)

    @property
    def brief(self):
        """Value and interval alone, for a table whose caption says confidence and method: `4.07 [3.95, 4.19]`."""
        if self.low is None:
            return f"{self.value:.4g} (no interval: {self.reason})"
        value, low, high = _rounded(self.value, self.low, self.high)
        return f"{value} [{low}, {high}]"

    def __str__(self):
        if self.low is None:
            return self.brief
        source = f"{self.n} {self.method}" if self.n else self.method
        return f"{self.brief} ({100 * self.confidence:g}%{', ' if source else ''}{source})"

    def __repr__(self):
        return f"Estimate({self})"


def mean_replications(values, confidence=0.95):
    """Mean of independent replications with Student's t interval.

    values  one number per replication (one mean, one P99, one share, ... of each run)

    The interval needs independent values that are roughly normal; a run's mean usually is. It knows nothing
    of the bias of a run that starts empty: see `mser5` (Law, Simulation Modeling and Analysis, 2015, ch. 9).
    """
    values = as_series("values", values)
    return _student_mean(values, confidence, "replications")


def mean_batches(series, batches=20, confidence=0.95):
    """Mean of one long run of dependent values by the method of batch means.

    series   successive values, such as `log.wait`, its warm-up removed
    batches  number of batches of equal length; the first `len(series) % batches` values are left out

    The means of the batches are treated as independent. They are nearly so only if a batch is much longer
    than `integrated_autocorrelation_time(series)`; else the interval is too short (Schmeiser, 1982).
    """
    series = as_series("series", series)
    if batches != int(batches) or batches < 2:
        raise ValueError(f"batches is {batches!r}; give a whole number of at least 2.")
    length = len(series) // int(batches)
    if length == 0:
        reason = f"{len(series)} values do not fill {batches} batches; make a longer run or fewer batches"
        return Estimate(float(series.mean()), confidence=confidence, n=len(series), reason=reason)
    means = series[len(series) - length * int(batches) :].reshape(int(batches), length).mean(axis=1)
    return _student_mean(means, confidence, "batch means")


def quantile(series, p, confidence=0.95, sided="two"):
    """The p-quantile of independent values with a distribution-free interval between order statistics.

    series  independent values; +inf (a request that never finished) is allowed and counts as slowest
    p       0.99 for P99
    sided   "two" (equal tails), "upper" (from -inf to an upper bound) or "lower"

    The number of values below the true quantile is binomial(n, p) whatever the distribution, so the interval
    runs between the order statistics that bound it (David and Nagaraja, Order Statistics, 2003, ch. 7). The
    value interpolates as `numpy.quantile` does. With too few values even the largest is no upper end: P99 at
    95% has no interval below n = 368; see `smallest_n_for_quantile`. Waiting times of one run are not
    independent, and then the interval is too short: use `quantile_replications`.
    """
    x = np.sort(as_series("series", series, infinite=True))
    p, tails = as_share("p", p), _tails(confidence, sided)
    n = len(x)
    at = (n - 1) * p
    below, above = x[math.floor(at)], x[math.ceil(at)]
    value = below if below == above else below + (at - math.floor(at)) * (above - below)
    low_rank, high_rank = _ranks(n, p, tails)
    if low_rank < 1 or high_rank > n:
        needed = smallest_n_for_quantile(p, confidence, sided)
        return Estimate(
            float(value),
            confidence=confidence,
            method="values",
            n=n,
            reason=f"{n} values are fewer than the {needed} that an interval for this quantile needs",
        )
    low = -math.inf if low_rank == math.inf else x[int(low_rank) - 1]
    high = math.inf if high_rank == -math.inf else x[int(high_rank) - 1]
    return Estimate(float(value), float(low), float(high), confidence, "values, order statistics", n)


def quantile_replications(runs, p, confidence=0.95):
    """Mean over independent replications of each run's p-quantile, with Student's t interval.

    runs  one array of values per replication, or an array shaped (replications, values)

    Right for dependent values, where `quantile` is not. The quantile of a short run is biased (for P99 of a
    heavy tail usually low), and more replications do not remove that: make the runs longer.
    """
    p = as_share("p", p)
    quantiles = [np.quantile(as_series(f"run {i} of runs", run), p) for i, run in enumerate(runs)]
    return _student_mean(as_series("runs", quantiles), confidence, "replications")


def bootstrap(values, statistic, rng, confidence=0.95, resamples=2000, method="percentile"):
    """Any statistic of independent values with a bootstrap interval (Efron and Tibshirani, 1993).

    statistic  function of an array that returns a number, such as `numpy.mean`
    rng        numpy.random.Generator that draws the resamples
    method     "percentile", "basic" or "BCa", as in `scipy.stats.bootstrap`, which does the work

    The resamples break every dependence between the values, so for the waits of one run the interval is far
    too short. A bootstrap sample holds no value above the largest seen: it cannot know the tail of a P99.
    """
    from scipy import stats

    values = as_series("values", values)
    as_share("confidence", confidence)
    value = float(statistic(values))
    if len(values) < 2:
        return Estimate(value, confidence=confidence, n=1, reason="one value cannot be resampled; give more")
    batch = max(1, int(4e6 / len(values)))  # keeps a resample of a long series within some 32 MB
    interval = stats.bootstrap(
        (values,),
        statistic,
        n_resamples=resamples,
        batch=batch,
        confidence_level=confidence,
        method=method,
        random_state=rng,
    ).confidence_interval
    if np.isnan(interval.low) or np.isnan(interval.high):
        reason = f"the {method} bootstrap is not defined for these values; try method='percentile'"
        return Estimate(value, confidence=confidence, n=len(values), reason=reason)
    label = f"values, {method} bootstrap"
    return Estimate(value, float(interval.low), float(interval.high), confidence, label, len(values))


def paired(a, b, confidence=0.95):
    """Mean change from a to b, `mean(b - a)`, when run i of a and run i of b share their random numbers.

    a, b  one number per replication; negative values of the result mean that b is smaller

    Student's t on the differences. Common random numbers make both rise and fall together, so the differences
    vary less than either does (Law, 2015, ch. 11). Not for runs with different seeds: use `unpaired`.
    """
    a, b = as_series("a", a), as_series("b", b)
    if len(a) != len(b):
        raise ValueError(
            f"a has {len(a)} values and b has {len(b)}; pair runs that share random numbers, or use unpaired."
        )
    return _student_mean(b - a, confidence, "paired differences")


def unpaired(a, b, confidence=0.95):
    """Mean change from a to b, `mean(b) - mean(a)`, of independent replications (Welch, 1947).

    a, b  one number per replication; the lengths and the variances may differ
    """
    a, b = as_series("a", a), as_series("b", b)
    value, n = float(b.mean() - a.mean()), len(a) + len(b)
    if min(len(a), len(b)) < 2:
        reason = "one value shows no spread; make at least two replications of each"
        return Estimate(value, confidence=confidence, n=n, reason=reason)
    va, vb = a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)
    spread = va**2 / (len(a) - 1) + vb**2 / (len(b) - 1)
    freedom = (va + vb) ** 2 / spread if spread > 0 else n - 2
    return _student(value, math.sqrt(va + vb), freedom, confidence, "replications, Welch", n)


def smallest_n_for_quantile(p, confidence=0.95, sided="two"):
    """Smallest number of independent values that gives `quantile(..., p, confidence, sided)` an interval.

    The largest of n values is an upper bound only if p**n is at most the tail's share: P99 at 95% needs 368
    values with equal tails and 299 for an upper bound alone.
    """
    p = as_share("p", p)
    low_tail, high_tail = _tails(confidence, sided)
    needed = [math.log(tail) / math.log(base) for tail, base in ((low_tail, 1 - p), (high_tail, p)) if tail]
    n = max(1, math.floor(max(needed)) - 1)  # the logarithms may be off by one ulp, the ranks decide
    while True:
        low_rank, high_rank = _ranks(n, p, (low_tail, high_tail))
        if low_rank >= 1 and high_rank <= n:
            return n
        n += 1


def mlperf_query_count(p, confidence=0.99, margin=None, multiple=8192):
    """Number of queries MLPerf Inference asks for when the p-quantile of latency must stay below a bound.

    margin    half-width of the interval on the share of late queries; (1 - p) / 20 when None
    multiple  the count is rounded up to a multiple of this; 1 gives the count before that

    Normal approximation z^2 p (1 - p) / margin^2, to the nearest query as in the table of Reddi et al.
    (MLPerf Inference Benchmark, 2020): 262,742 for P99, rounded up to 270,336.
    """
    from scipy.special import ndtri

    p = as_share("p", p)
    margin = (1 - p) / 20 if margin is None else as_share("margin", margin)
    z = ndtri(0.5 + as_share("confidence", confidence) / 2)
    return multiple * math.ceil(round(z**2 * p * (1 - p) / margin**2) / multiple)


def mlperf_early_stopping(late, p=0.99, confidence=0.99):
    """Smallest number of queries, of which `late` were over the bound, that shows P(on time) >= p.

    Exact binomial: with fewer queries, that few late ones would come with more than 1 - confidence
    probability although the share on time is only p (MLPerf Inference, early stopping criterion, 2022).
    With 0 / 1 / 10 / 100 late ones, P99 at 99% needs 459 / 662 / 2010 / 12571.
    """
    from scipy.special import bdtr

    if late != int(late) or late < 0:
        raise ValueError(f"late is {late!r}; give the whole number of late queries, 0 or more.")
    late, miss, risk = int(late), 1 - as_share("p", p), 1 - as_share("confidence", confidence)
    too_few, enough = late, late + 1
    while bdtr(late, enough, miss) > risk:
        too_few, enough = enough, 2 * enough
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        too_few, enough = (middle, enough) if bdtr(late, middle, miss) > risk else (too_few, middle)
    return enough


def _student_mean(values, confidence, method):
    n = len(values)
    if n < 2:
        reason = "one value shows no spread; make at least two replications"
        return Estimate(float(values[0]), confidence=confidence, method=method, n=n, reason=reason)
    error = values.std(ddof=1) / math.sqrt(n)
    return _student(float(values.mean()), error, n - 1, confidence, method, n)


def _student(value, standard_error, freedom, confidence, method, n):
    from scipy.special import stdtrit

    half = float(stdtrit(freedom, 0.5 + as_share("confidence", confidence) / 2) * standard_error)
    return Estimate(value, value - half, value + half, confidence, method, n)


@lru_cache(maxsize=256)
def _ranks(n, p, tails):
    """Ranks (from 1) of the order statistics that bound the p-quantile; outside 1..n where there is none."""
    from scipy.stats import binom

    low_tail, high_tail = tails
    low = binom.ppf(low_tail, n, p) if low_tail else math.inf
    high = binom.isf(high_tail, n, p) + 1 if high_tail else -math.inf
    return low, high


def _tails(confidence, sided):
    """Probability left out below and above the interval."""
    left_out = 1 - as_share("confidence", confidence)
    tails = {"two": (left_out / 2, left_out / 2), "upper": (0.0, left_out), "lower": (left_out, 0.0)}
    if sided not in tails:
        raise ValueError(f'sided is {sided!r}; choose "two", "upper" or "lower".')
    return tails[sided]


def _rounded(value, *ends):
    """The numbers as text, to two significant digits of the distance from the value to an end."""
    finite = [end for end in ends if math.isfinite(end)]
    size = max(abs(value), *map(abs, finite))
    distance = max((abs(end - value) for end in finite), default=0) or size / 100
    if not 1e-5 < size < 1e9:
        return [f"{x:.4g}" for x in (value, *ends)]
    decimals = max(0, 1 - math.floor(math.log10(distance)))
    if distance < 1e-6 * size:  # equal but for rounding errors
        return [f"{x:.4g}" for x in (value, *ends)]
    return [f"{x:.{decimals}f}" for x in (value, *ends)]
