"""The science: workloads, simulators, closed forms and statistics of queues (numpy and scipy only)."""
