"""The same experiment at several settings and with several seeds, on any pool of workers.

A pool is any `concurrent.futures.Executor`: a ThreadPoolExecutor, a ProcessPoolExecutor, or `Client().get_executor()`
of Dask's distributed. It changes how long a sweep takes and no number in it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from labsupport.queueing.intervals import Estimate, mean_replications, paired


def run_all(function: Callable, tasks: Iterable[dict], executor=None, progress: Callable | None = None) -> list:
    """`function(**task)` of every task, in the order of the tasks.

    executor  a `concurrent.futures.Executor`, or None to work here, one after the other
    progress  called with (number done, number of tasks) after each, in this thread

    The first task that fails is named, in a ValueError or TypeError if it raised one and else in a RuntimeError; tasks not
    yet begun are then dropped.
    """
    tasks = list(tasks)
    if executor is not None and not callable(getattr(executor, "submit", None)):
        raise TypeError(
            f"executor={executor!r:.60} has no submit; give a concurrent.futures.Executor, of Dask Client().get_executor()."
        )
    waiting, results = [], []
    try:
        if executor is not None:
            waiting = [executor.submit(function, **task) for task in tasks]
        for done, task in enumerate(tasks, start=1):
            try:
                results.append(waiting[done - 1].result() if waiting else function(**task))
            except Exception as error:
                kind = next((kind for kind in (ValueError, TypeError) if isinstance(error, kind)), RuntimeError)
                raise kind(_told(task, error)) from error
            if progress is not None:
                progress(done, len(tasks))
    finally:
        for future in waiting:
            future.cancel()  # does nothing to those that are done
    return results


def _told(task, error) -> str:
    """One sentence about the task that failed."""
    where = ", ".join(f"{name} = {value!r:.60}" for name, value in task.items())
    what = " ".join(f"{type(error).__name__}: {error}".split())
    if "pickle" in what:
        what += "; other processes need a function that a module defines at its top, or functools.partial of one"
    return f"the run at {where} failed ({what.rstrip('.'):.300})."


@dataclass(frozen=True, eq=False)
class Sweep:
    """What a sweep measured.

    rates      the settings (1/s, or whatever was varied), in the order given
    seeds      one per replication
    values     array (rates, seeds), or (rates, seeds, k) where the function returns k numbers
    """

    rates: tuple
    seeds: tuple
    values: np.ndarray
    confidence: float = 0.95

    def at(self, rate, k=None) -> Estimate:
        """The mean over the replications at one rate, with Student's t interval; of number k where there are several."""
        return mean_replications(self._row(rate, k), self.confidence)

    def estimates(self, k=None) -> list[Estimate]:
        """One Estimate per rate."""
        return [self.at(rate, k) for rate in self.rates]

    def difference(self, rate, other, k=None) -> Estimate:
        """The mean of (value at `other` - value at `rate`), seed by seed: what the common random numbers are for."""
        return paired(self._row(rate, k), self._row(other, k), self.confidence)

    def _row(self, rate, k):
        if rate not in self.rates:
            raise ValueError(f"rate={rate!r:.60} was not run; choose from {', '.join(map(str, self.rates))}.")
        row = self.values[self.rates.index(rate)]
        if (row.ndim == 1) != (k is None):
            has = "one number" if row.ndim == 1 else f"{row.shape[1]} numbers"
            raise ValueError(f"k={k!r} but the function returned {has}; give k only to choose among several.")
        return row if k is None else row[:, k]

    def __str__(self):
        columns = [None] if self.values.ndim == 2 else range(self.values.shape[2])
        return "\n".join(f"{rate}: {', '.join(self.at(rate, k).brief for k in columns)}" for rate in self.rates)

    def __repr__(self):
        return f"Sweep({len(self.rates)} rates, {len(self.seeds)} seeds)\n{self}"


def sweep(function, rates, seeds=10, executor=None, *, progress=None, confidence=0.95) -> Sweep:
    """`function(rate, rng)` at every rate with every seed: a `Sweep` of its results.

    function  takes a rate and a numpy Generator, returns one number or a row of always as many
    rates     the rates to visit (1/s); another quantity will do as well
    seeds     how many replications, or the seeds themselves (whole numbers or tuples of them)
    executor, progress, what is raised   as in `run_all`

    Every call with one seed gets a Generator in the same state, whatever the rate and whoever runs it. A function that
    draws as many numbers at each rate, as `workload.poisson(rng, rate, n)` does, so sees the same unit random numbers
    at all of them: common random numbers. For a pool of processes the function must be importable.

        def mean_wait(rate, rng):
            arrival, service = workload.poisson(rng, rate, 20_000), workload.exponential(0.1).sample(rng, 20_000)
            return simulate.fcfs(arrival, service).wait[2000:].mean()

        sweep(mean_wait, [5, 8, 9], seeds=20)
    """
    if not callable(function):
        raise TypeError(f"function={function!r:.60} cannot be called; give a function of a rate and a Generator.")
    rates = tuple(rates)
    if not rates:
        raise ValueError("rates is empty; give at least one rate.")
    if isinstance(seeds, (int, np.integer)) and not isinstance(seeds, bool):
        if seeds < 1:
            raise ValueError(f"seeds={seeds} leaves nothing to run; give 1 or more, and 2 or more for an interval.")
        seeds = range(int(seeds))
    elif not isinstance(seeds, Iterable):
        raise TypeError(f"seeds={seeds!r:.60} is no number of replications; give a whole number or the seeds.")
    seeds = tuple(seeds)
    if len(set(seeds)) < len(seeds) or not seeds:
        raise ValueError("seeds names a seed twice, or none; replications are independent only with different seeds.")
    for seed in seeds:
        np.random.default_rng(seed)  # numpy's own sentence for what is no seed, before any work
    tasks = [{"rate": rate, "seed": seed} for rate in rates for seed in seeds]
    found = run_all(_Seeded(function), tasks, executor, progress)
    for task, result in zip(tasks, found, strict=True):
        if np.shape(result) != np.shape(found[0]) or np.ndim(result) > 1 or np.asarray(result).dtype.kind not in "biuf":
            raise TypeError(
                f"function returned {result!r:.60} at rate = {task['rate']!r}, seed = {task['seed']!r}; let it return one "
                "number, or always as many numbers in a row."
            )
    values = np.array(found, dtype=float).reshape(len(rates), len(seeds), *np.shape(found[0]))
    values.flags.writeable = False
    return Sweep(rates, seeds, values, confidence)


@dataclass(frozen=True)
class _Seeded:
    """A function of a rate and a Generator as one of a rate and a seed; unlike a closure it can be sent elsewhere."""

    function: Callable

    def __call__(self, rate, seed):
        return self.function(rate, np.random.default_rng(seed))
