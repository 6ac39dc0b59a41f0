"""What a load test returns: the RequestLog, and what happened to the test itself."""

import numpy as np

from labsupport.queueing.requestlog import RequestLog

LATE_S = 0.001  # lateness below this is no matter: timers and processors are no better
SHARE = 0.1  # ... and so is lateness that is a small part of the response times


class LoadLog(RequestLog):
    """The RequestLog of a load test, one row per request, times in s from the beginning of the run.

    intended     when the schedule wanted the request: an open generator's intended send time; for a user of
                 a closed one the end of the think time
    arrival      when it was really sent. A request that was never sent (dropped, or still in the
                 generator's own queue when the run ended) has the moment when that was decided.
    start        arrival plus the time that the server says it waited (header Server-Timing); of a server
                 that says nothing, arrival: `wait` is then 0, and unknown in truth
    first_token  when the first token came; only of completions, as are prompt_tokens and output_tokens
    finish       when the answer was complete; inf if the run or the time-out ended first
    ok           whether the answer was complete and said so

    Beside the columns:

    lateness     actual send minus the moment when it could be sent, in s, per row (NaN: never sent): the
                 intended time, or when the cap, or the user's last answer, let it go. This is the
                 generator's own fault.
    skipped      number of intended requests that left no row
    partial      whether the run was cut short: what was measured until then is here
    problems     sentences on what went wrong, if anything did
    """

    lateness: np.ndarray
    skipped: int
    partial: bool
    problems: tuple[str, ...]

    @property
    def response_from_intended(self):
        """finish - intended in s: what a user who came at the intended time waited for."""
        return self.finish - self._needed("intended")

    @property
    def answers(self):
        """Number of requests that were answered well."""
        return int(np.count_nonzero(self.ok))

    @property
    def lateness_p99(self):
        """99th percentile of the lateness in s, NaN if nothing was sent."""
        sent = self.lateness[np.isfinite(self.lateness)]
        return float(np.quantile(sent, 0.99)) if len(sent) else np.nan

    @property
    def lateness_max(self):
        """Largest lateness in s, NaN if nothing was sent."""
        sent = self.lateness[np.isfinite(self.lateness)]
        return float(sent.max()) if len(sent) else np.nan

    @property
    def spoiled(self):
        """Whether lateness spoils the result: its P99 is above 1 ms and a tenth of the response times' P99."""
        finished = self.response[np.isfinite(self.response)]
        allowed = SHARE * np.quantile(finished, 0.99) if len(finished) else 0.0
        return bool(self.lateness_p99 > max(LATE_S, allowed))

    def sent_for(self, seconds):
        """For how many s requests were sent: `seconds` as planned, or less where the run was cut short."""
        return min(seconds, round(float(self.arrival.max(initial=0)), 1)) if self.partial else seconds

    def summary(self):
        """One line: how many requests, how many failed, how late they were sent."""
        return f"{len(self)} requests, {len(self) - self.answers} not ok{self._beside()}"

    def _beside(self):
        late = ""
        if np.isfinite(self.lateness_p99):
            late = f"; sent {self.lateness_p99 * 1e3:.2g} ms late at P99, {self.lateness_max * 1e3:.2g} ms at most"
        return f"{late}{f'; {self.skipped} skipped' * bool(self.skipped)}{'; partial' * self.partial}"

    def __repr__(self):
        return f"LoadLog{super().__repr__().removeprefix('RequestLog')[:-1]}{self._beside()})"


def load_log(rows, begin, *, prompt_tokens=None, skipped=0, reason=""):
    """The LoadLog of a generator's rows, whose moments are on a clock that shows `begin` at the beginning.

    prompt_tokens  per request, when the requests are completions
    reason         why the run was cut short, as the beginning of a sentence; "" if it was not
    """
    table = np.array(
        [(r.intended, r.due, r.sent, r.queue_s, r.first_token, r.finish, r.tokens, r.ok) for r in rows]
    ).reshape(len(rows), 8)
    table = table[np.argsort(table[:, 2], kind="stable")]
    intended, due, arrival, queue_s, first_token, finish, tokens, ok = table.T
    ok = ok.astype(bool)
    began = ok | np.isfinite(first_token)
    start = np.where(began, np.minimum(arrival + queue_s, np.minimum(first_token, finish)), np.inf)
    columns = {"arrival": arrival, "start": start, "finish": finish, "intended": intended}
    if prompt_tokens is not None:
        columns["first_token"] = first_token
    columns = {name: np.maximum(column - begin, 0) for name, column in columns.items()}
    if prompt_tokens is not None:
        columns |= {"prompt_tokens": np.full(len(rows), float(prompt_tokens)), "output_tokens": tokens}
    log = LoadLog(**columns, ok=ok)
    lateness = np.where(np.isfinite(due), arrival - due, np.nan)
    lateness.flags.writeable = False
    problems = []
    if reason:
        problems.append(f"{reason}; the {len(log)} requests until then are kept and marked partial.")
    beside = {"lateness": lateness, "skipped": skipped, "partial": bool(reason)}
    for name, value in beside.items():
        object.__setattr__(log, name, value)
    if log.spoiled:
        problems.append(
            f"the generator sent {log.lateness_p99 * 1e3:.3g} ms late at P99 ({log.lateness_max * 1e3:.3g} ms "
            "at most), which spoils the result: ask for fewer requests per second, or close other programs."
        )
    object.__setattr__(log, "problems", tuple(problems))
    return log
