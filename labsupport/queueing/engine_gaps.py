"""The gaps between tokens, out of the stretches of equal batches in which an engine wrote them."""

from dataclasses import dataclass

import numpy as np

STRETCH = np.dtype(
    [
        *(("engine", int), ("begin_s", float), ("steps", int), ("sequences", int), ("kv_tokens", int)),
        *(("step_s", float), ("growth_s", float), ("stall_s", float)),
    ]
)


@dataclass(frozen=True, eq=False)
class Decoding:
    """Who was in the batch when.

    stretches  rows of STRETCH, engine by engine; `EngineRun` says what its columns are
    request    (v,) the request of each visit: a stay in the batch, to the end or until a preemption
    low, high  (v,) it decoded in the stretches low <= s < high
    token_at   (v,) in s, when its latest token before them was written
    paused, pauses  (p,) requests, and times in s from the last token before a preemption to the next one
    """

    stretches: np.ndarray
    request: np.ndarray
    low: np.ndarray
    high: np.ndarray
    token_at: np.ndarray
    paused: np.ndarray
    pauses: np.ndarray

    @classmethod
    def of(cls, columns, per_context_token_s, request, engine, joined, ended, token_at, paused, pauses):
        """From what the kernel says: its stretches are not sorted by engine, and `joined` counts by engine."""
        rows = np.zeros(len(columns[0]), STRETCH)
        names = ("engine", "begin_s", "steps", "sequences", "kv_tokens", "step_s")
        for name, column in zip(names, columns, strict=True):
            rows[name] = column
        rows["growth_s"] = per_context_token_s * rows["sequences"]
        rows = rows[np.argsort(rows["engine"], kind="stable")]
        some = joined < ended
        low, high = np.searchsorted(rows["engine"], engine) + (joined, ended)
        decoding = cls(rows, request[some], low[some], high[some], token_at[some], paused, pauses)
        pairs = rows["steps"] * (rows["steps"] - 1) // 2
        end = rows["begin_s"] + (rows["steps"] * rows["step_s"] + rows["growth_s"] * pairs)
        stood = decoding.stayed[1:] > 0  # somebody was there before and has waited
        rows["stall_s"][1:][stood] = (rows["begin_s"][1:] - end[:-1])[stood]
        return decoding

    @property
    def stayed(self):
        """How many of each stretch's sequences have decoded in the stretch before."""
        return self.stretches["sequences"] - np.bincount(self.low, minlength=len(self.stretches))

    def _first_gaps(self):
        """The first gap of each visit, in s; within each stretch the first gap of those who stayed, and the last."""
        rows = self.stretches
        of_newcomer = (rows["begin_s"] + rows["step_s"])[self.low] - self.token_at
        last = np.where(rows["steps"] > 1, rows["step_s"] + rows["growth_s"] * (rows["steps"] - 1), 0)
        return of_newcomer, rows["stall_s"] + rows["step_s"], last

    def longest_gaps(self, n):
        """The longest gap of each of n requests in s, 0 where there is none."""
        of_newcomer, of_stayed, last = self._first_gaps()
        later = _range_max(np.maximum(of_stayed, last), self.low + 1, self.high)
        longest = np.zeros(n)
        np.maximum.at(longest, self.request, np.maximum.reduce([of_newcomer, last[self.low], later]))
        np.maximum.at(longest, self.paused, self.pauses)
        return longest

    def gaps(self):
        """Every gap in s, and how often it occurred."""
        rows, (of_newcomer, of_stayed, _) = self.stretches, self._first_gaps()
        stayed = self.stayed
        more = rows["steps"] - 1
        level = np.flatnonzero((rows["growth_s"] == 0) & (more > 0))
        grows = np.flatnonzero((rows["growth_s"] > 0) & (more > 0))
        nth = np.arange(more[grows].sum()) - np.repeat(np.cumsum(more[grows]) - more[grows], more[grows]) + 1
        grows = np.repeat(grows, more[grows])
        parts = [
            (self.pauses, np.ones(len(self.pauses), int)),
            (of_newcomer, np.ones(len(of_newcomer), int)),
            (of_stayed[stayed > 0], stayed[stayed > 0]),
            (rows["step_s"][level], (rows["sequences"] * more)[level]),
            ((rows["step_s"][grows] + rows["growth_s"][grows] * nth), rows["sequences"][grows]),
        ]
        return np.concatenate([gap for gap, _ in parts]), np.concatenate([count for _, count in parts])


def _range_max(values, low, high):
    """The maximum of values[low:high] for each pair, 0 where that is empty: two overlapping runs of a power of 2."""
    result = np.zeros(len(low))
    length, run = high - low, 1
    while True:
        here = np.flatnonzero((length >= run) & (length < 2 * run))
        result[here] = np.maximum(values[low[here]], values[high[here] - run])
        if not (length >= 2 * run).any():
            return result
        values = np.maximum(values[:-run], values[run:])  # now maxima over 2 * run values
        run *= 2
