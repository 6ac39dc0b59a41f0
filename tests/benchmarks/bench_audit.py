"""How well the audit tells flawed runs from clean ones: run as a script with a number of instances (default 100).

For each flaw of labsupport.audit.flaws, how many of the instances are found (broken or doubtful); for clean open runs of
20,000 requests, how many raise a false alarm in each check. Exits with 1 when fewer than 95% are found, or when a
check raises an alarm in more than 5%.
"""

import sys
from collections import Counter

import numpy as np

from labsupport.audit import CHECKS, audit, flaws

FOUND = ("broken", "doubtful")


def main(instances):
    good = True
    print(f"{'flaw':<22} {'check':<14} found of {instances}")
    for flaw, check in flaws.FLAWS.items():
        found = sum(
            audit(flaw(np.random.default_rng([seed, 7])))[check].verdict in FOUND for seed in range(instances)
        )
        good &= found >= 0.95 * instances
        print(f"{flaw.__name__:<22} {check:<14} {found}", flush=True)
    alarms = Counter()
    for seed in range(instances):
        alarms.update(
            f.check for f in audit(flaws.clean(np.random.default_rng([seed, 5]))) if f.verdict in FOUND
        )
    print(f"\n{'check':<22} false alarms in {instances} clean runs")
    for check in CHECKS:
        good &= alarms[check] <= 0.05 * instances
        print(f"{check:<22} {alarms[check]}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100))
