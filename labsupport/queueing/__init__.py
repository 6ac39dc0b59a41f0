"""The science: workloads, simulators, closed forms and statistics of queues (numpy and scipy only)."""

from labsupport.queueing.requestlog import RequestLog

__all__ = ["RequestLog"]
