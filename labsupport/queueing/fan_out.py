"""Fan-out: a request waits for the slowest of its independent tasks."""

import math

import numpy as np

from labsupport.queueing._theory_checks import as_counts, as_inside, as_one, plain

TASKS = "give the number of tasks, 1 or more"


def fan_out_probability(tasks, p):
    """P(at least one of `tasks` does what one does with probability p): 1 - (1 - p)**tasks. Arrays broadcast.

    With p = 0.01: the share of requests that meet some task's P99 (Dean and Barroso 2013).
    """
    return plain(-np.expm1(as_counts("tasks", tasks, TASKS) * np.log1p(-np.asarray(as_inside("p", p)))))


def fan_out_quantile(task_quantile, tasks, p):
    """The p-quantile of the slowest of `tasks`: one task's quantile at p**(1 / tasks).

    `task_quantile` is a function of a share, such as `law.ppf` or `MM1(8, 0.1).response_quantile`.
    """
    if not callable(task_quantile):
        raise TypeError(
            f"task_quantile={task_quantile!r:.60} cannot be called; give a function such as law.ppf."
        )
    return task_quantile(as_inside("p", p) ** (1 / as_counts("tasks", tasks, TASKS)))


def fan_out_tasks(p, share) -> int:
    """The smallest number of tasks with which a share of the requests meets an event of probability p."""
    p, share = as_one("p", as_inside("p", p)), as_one("share", as_inside("share", share))
    return math.ceil(math.log1p(-share) / math.log1p(-p) * (1 - 1e-12))  # a whole result stays what it is
