"""Running loads: in an event loop of their own thread, so that a notebook's own loop and interrupt stay free."""

import asyncio
import gc
import sys
import threading

from labsupport.loadtest.client import NoServer, Stopped
from labsupport.loadtest.clock import new_event_loop
from labsupport.loadtest.progress import Progress
from labsupport.loadtest.server_process import need_packages

LEAD_S = 0.05  # time to get going, so that a request intended for 0 s is not late


def run(*loads, progress=True):
    """Run one or more loads at the same time; returns what each measured (not in a list if there is one).

    loads     `ClosedLoop`, `OpenLoop` -> `LoadLog`; `Hey`, `Wrk` -> `ToolReport`. All start together.
    progress  whether to show a progress bar and, at the end, one line per load

    An interrupt (the notebook's button, Ctrl-C) ends the run; what was measured is returned, with `partial`
    set. So does a server that goes away in the middle or a lack of sockets, for the load that meets it.
    What went wrong stands in `problems` and is printed to standard error, one sentence each. Nothing is left
    running.

    Raises ConnectionError when no server answers at all, ImportError when the extra `load` is missing.
    """
    need_packages()
    if not loads or not all(hasattr(load, "drive") for load in loads):
        raise TypeError(
            "run needs loads such as OpenLoop(url, intended) or ClosedLoop(url, users, duration_s)."
        )
    session = _Session(loads)
    bar = Progress(max(load.span_s for load in loads), progress)
    thread = threading.Thread(target=session.work, name="load test", daemon=True)
    # A collection of all that a notebook holds stops every thread for 0.1 to 0.3 s; what is frozen is left out.
    gc.freeze()
    try:
        thread.start()
        while not session.over.wait(0.25):
            bar.update(session.elapsed(), f"{session.sent():,} requests sent")
    except KeyboardInterrupt:
        session.stop("interrupted")
    finally:
        session.stop("ended early by an error")  # without effect on what has ended
        thread.join()
        gc.unfreeze()
    results = session.results()
    bar.close("; ".join(result.summary() for result in results))
    for problem in (problem for result in results for problem in result.problems):
        print(problem, file=sys.stderr)
    return results[0] if len(results) == 1 else results


class _Session:
    """The thread's side of `run`."""

    def __init__(self, loads):
        self.loads = loads
        self.reasons = [""] * len(loads)
        self.over = threading.Event()
        self.begin = None
        self.error = None
        self.dead = ""
        self._interrupted = ""
        self._loop = new_event_loop()
        self._stop = asyncio.Event()

    def elapsed(self):
        return 0.0 if self.begin is None else max(0.0, self._loop.time() - self.begin)

    def sent(self):
        return sum(load.sent for load in self.loads)

    def stop(self, why):
        """Cut the run short; called from another thread."""
        self._interrupted = self._interrupted or why
        try:
            self._loop.call_soon_threadsafe(self._stop.set)
        except RuntimeError:
            pass  # the loop is closed: it is over

    def work(self):
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._main())
        except BaseException as error:
            self.error = error
        finally:
            self.over.set()

    async def _main(self):
        self.begin = self._loop.time() + LEAD_S
        jobs = [asyncio.create_task(self._drive(i, load)) for i, load in enumerate(self.loads)]
        everything = asyncio.gather(*jobs)
        stopper = asyncio.create_task(self._stop.wait())
        await asyncio.wait([everything, stopper], return_when=asyncio.FIRST_COMPLETED)
        stopper.cancel()
        for job in jobs:
            job.cancel()
        await everything

    async def _drive(self, i, load):
        try:
            await load.drive(self.begin)
        except asyncio.CancelledError:
            self.reasons[i] = f"{self._interrupted} after {self.elapsed():.1f} s of {load.span_s:.0f} s"
        except BaseExceptionGroup as group:
            if not (stopped := group.subgroup(Stopped)):
                raise
            while isinstance(stopped, BaseExceptionGroup):  # all users met the same; one may say it
                stopped = stopped.exceptions[0]
            self.dead = self.dead or (isinstance(stopped, NoServer) and str(stopped))
            self.reasons[i] = f"stopped after {self.elapsed():.1f} s of {load.span_s:.0f} s because {stopped}"

    def results(self):
        if self.error:
            raise self.error
        results = [load.result(self.begin, why) for load, why in zip(self.loads, self.reasons, strict=True)]
        if self.dead and not any(result.answers for result in results):
            raise ConnectionError(f"{self.dead}; start one there, or check the address.")
        return results
