"""The public traces that lessons replay, or labelled synthetic stand-ins where the files are not here.

A stand-in has the trace's number of requests, roughly its rate, its unevenness and its token counts; its name says
what it is and how to get the real file.
"""

import numpy as np

from labsupport import course
from labsupport.queueing import workload
from labsupport.records import traces

MOONCAKE_TICK_S = 3.0  # of the clock that stamped the Mooncake trace


def conversation() -> traces.Trace:
    """Azure's conversation service, an hour of 2023 (Patel et al., Splitwise, ISCA 2024)."""
    path = course.data("azure_2023/AzureLLMInferenceTrace_conv.csv")
    if path:
        return traces.azure(path)
    rng = np.random.default_rng(2)
    return _stand_in("conversation", workload.mmpp(rng, (4.0, 5.5, 7.5, 5.5), 250.0, 19_366), 1020, 129, rng)


def code() -> traces.Trace:
    """Azure's code completion service, the same hour."""
    path = course.data("azure_2023/AzureLLMInferenceTrace_code.csv")
    if path:
        return traces.azure(path)
    rng = np.random.default_rng(1)
    return _stand_in(
        "code", workload.mmpp(rng, (26.0, 4.5, 0.0, 4.5), (3.0, 11.0, 42.0, 11.0), 8_819), 1469, 13, rng
    )


def mooncake() -> traces.Trace:
    """Kimi's conversation service, stamped on ticks of 3 s (Qin et al., Mooncake, FAST 2025)."""
    path = course.data("mooncake_fast25/conversation_trace.jsonl")
    if path:
        return traces.mooncake(path)
    rng = np.random.default_rng(3)
    arrival = workload.mmpp(rng, (3.0, 3.8), 150.0, 12_031)
    return _stand_in("Mooncake", np.floor(arrival / MOONCAKE_TICK_S) * MOONCAKE_TICK_S, 7000, 350, rng)


def names(*several: traces.Trace) -> str:
    """What traces are called, for a caption; stand-ins are named once, together."""
    real = [trace.name for trace in several if not trace.name.startswith(_STAND_IN)]
    made_up = [trace.name.removeprefix(_STAND_IN).partition(" (")[0] for trace in several if trace.name not in real]
    return "; ".join(real + ([f"{_STAND_IN}{', '.join(made_up)} (real: `qlab data`)"] if made_up else []))


_STAND_IN = "SYNTHETIC STAND-IN for "


def _stand_in(name, arrival, prompt_median, output_median, rng) -> traces.Trace:
    prompt, output = (
        np.ceil(median * rng.lognormal(0, 0.9, len(arrival))) for median in (prompt_median, output_median)
    )
    return traces.Trace(
        arrival - arrival[0], prompt, output, f"{_STAND_IN}{name} (real: `qlab data`)"
    )
