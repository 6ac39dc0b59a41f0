"""An event loop that wakes within a tenth of a millisecond, on server and client alike."""

import asyncio
import select
import selectors


def new_event_loop():
    """An asyncio event loop whose timers are as precise as the system's, not rounded up to milliseconds."""
    if not hasattr(selectors, "EpollSelector"):  # only epoll rounds
        return asyncio.new_event_loop()
    return asyncio.SelectorEventLoop(_PreciseSelector())


async def until(moment):
    """Sleep until `moment` on the clock of the running loop; let others run once if it has passed."""
    await asyncio.sleep(max(0.0, moment - asyncio.get_running_loop().time()))


class _PreciseSelector(getattr(selectors, "EpollSelector", object)):
    """epoll counts its timeout in whole milliseconds, rounded up; select(2) on its descriptor in microseconds."""

    def select(self, timeout=None):
        if timeout is not None and timeout > 0 and self.fileno() < 1024:  # select(2) knows no larger ones
            select.select([self.fileno()], [], [], timeout)
            timeout = 0
        return super().select(timeout)
