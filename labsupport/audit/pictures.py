"""Pictures of a run for the report: number inside, response times over the run, percentiles with their intervals."""

import base64
import io

import numpy as np

from labsupport.audit.finding import ended
from labsupport.queueing.intervals import quantile
from labsupport.queueing.series import number_in_system_steps


def pictures(audit):
    """(PNG in base64, alt text) of each picture; none where the records have no moments."""
    log = audit.record.log
    if log is None or len(log) < 2 or log.arrival[-1] <= log.arrival[0]:
        return []
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from labsupport.lab import style

    found = []
    with matplotlib.rc_context(style.RC):
        for draw in (_inside, _responses, _percentiles):
            figure = Figure(figsize=(9, 3.4), dpi=style.DPI, layout="constrained")
            canvas = FigureCanvasAgg(figure)
            alt = draw(figure.add_subplot(), log, audit, style)
            if alt:
                with io.BytesIO() as file:
                    canvas.print_png(file)
                    found.append((base64.b64encode(file.getvalue()).decode("ascii"), alt))
    return found


def _inside(ax, log, audit, style):
    if not len(log := ended(log)):
        return ""
    times, counts = number_in_system_steps(log)
    shown = np.linspace(0, len(times) - 1, min(len(times), 4000)).astype(int)
    ax.plot(times[shown], counts[shown], color=style.BLUE, lw=1, drawstyle="steps-post")
    ax.axvline(log.arrival[-1], color=style.GREY, lw=1)
    style.label(ax, log.arrival[-1], counts.max(), " last send", color=style.GREY, va="top")
    ax.set(xlabel="time (s)", ylabel="requests inside", title="Number of requests inside", ylim=(0, None))
    return (
        f"Number of requests inside over {times[-1]:.4g} s: at most {counts.max()}, "
        f"{int(log.in_system(log.arrival[-1]))} at the last send at {log.arrival[-1]:.4g} s."
    )


def _responses(ax, log, audit, style):
    good = np.isfinite(log.response) & (True if log.ok is None else log.ok)
    if not good.any():
        return ""
    rows = np.flatnonzero(good)
    shown = rows[np.linspace(0, len(rows) - 1, min(len(rows), 4000)).astype(int)]
    ax.plot(log.arrival[shown], log.response[shown], ".", color=style.BLUE, ms=3)
    ax.set(
        xlabel="time of sending (s)",
        ylabel="response time (s)",
        title="Response time of each success",
        ylim=(0, None),
    )
    failed = log.arrival[~good]
    if len(failed):
        ax.plot(failed, np.zeros(len(failed)), "x", color=style.VERMILLION, clip_on=False)
        style.label(ax, failed[0], 0, f"{len(failed)} failed", color=style.VERMILLION, va="bottom")
    kept = log.response[good]
    return (
        f"Response times of {len(kept)} successes over the time of sending: median {np.median(kept):.4g} s, "
        f"longest {kept.max():.4g} s; {len(failed)} failed."
    )


def _percentiles(ax, log, audit, style):
    response = log.response if log.ok is None else np.where(log.ok, log.response, np.inf)
    told, points = [], (0.5, 0.9, 0.95, 0.99, 0.999)
    for i, p in enumerate(points):
        estimate = quantile(response, p)
        if not np.isfinite(estimate.value):
            style.label(ax, i, 0, "infinite", color=style.VERMILLION, ha="center", va="bottom")
            told.append(f"P{100 * p:g} infinite")
            continue
        if estimate.low is None:
            ax.plot(i, estimate.value, "o", color=style.GREY, mfc="white")
            style.label(ax, i + 0.07, estimate.value, "no interval", color=style.GREY, va="center")
        else:
            high = estimate.high if np.isfinite(estimate.high) else estimate.value
            ax.plot([i, i], [estimate.low, high], color=style.BLUE)
            ax.plot(i, estimate.value, "o", color=style.BLUE)
        told.append(f"P{100 * p:g} {estimate.brief} s")
    ax.set_xticks(range(len(points)), [f"P{100 * p:g}" for p in points])
    ax.set(ylabel="response time (s)", xlabel="percentile, failures infinite", xlim=(-0.5, len(points) - 0.1))
    ax.set(title="Percentiles with 95% intervals (requests taken as independent)", ylim=(0, None))
    return f"Percentiles of the response time with 95% intervals, failures infinite: {'; '.join(told)}."
