"""What may be said about a RequestLog, gathered by question; each function says what it assumes.

How much is inside?     number_in_system_steps, time_average_in_system, peak_in_system, time_weighted_mean
Is capacity wasted?     idle_while_waiting
Where does it begin?    mser5
How dependent is it?    autocorrelation, integrated_autocorrelation_time, effective_size
How variable is it?     scv, index_of_dispersion
How sure is a mean?     mean_replications, mean_batches, bootstrap
... a quantile?         quantile, quantile_replications
... a difference?       paired, unpaired
How much is enough?     smallest_n_for_quantile, mlperf_query_count, mlperf_early_stopping
Was the promise kept?   meets, attainment, goodput_rate, largest_rate_meeting
What did the tool miss? backfill
"""

from labsupport.queueing.intervals import (
    Estimate,
    bootstrap,
    mean_batches,
    mean_replications,
    mlperf_early_stopping,
    mlperf_query_count,
    paired,
    quantile,
    quantile_replications,
    smallest_n_for_quantile,
    unpaired,
)
from labsupport.queueing.series import (
    autocorrelation,
    backfill,
    effective_size,
    idle_while_waiting,
    index_of_dispersion,
    integrated_autocorrelation_time,
    mser5,
    number_in_system_steps,
    peak_in_system,
    scv,
    time_average_in_system,
    time_weighted_mean,
)
from labsupport.queueing.slo import attainment, goodput_rate, largest_rate_meeting, meets

__all__ = [
    "Estimate",
    "attainment",
    "autocorrelation",
    "integrated_autocorrelation_time",
    "backfill",
    "bootstrap",
    "effective_size",
    "goodput_rate",
    "idle_while_waiting",
    "index_of_dispersion",
    "largest_rate_meeting",
    "mean_batches",
    "mean_replications",
    "meets",
    "mlperf_early_stopping",
    "mlperf_query_count",
    "mser5",
    "number_in_system_steps",
    "paired",
    "peak_in_system",
    "quantile",
    "quantile_replications",
    "scv",
    "smallest_n_for_quantile",
    "time_average_in_system",
    "time_weighted_mean",
    "unpaired",
]
