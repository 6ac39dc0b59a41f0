"""What the statistics ask of their input: numbers in a row, and shares between 0 and 1."""

import numpy as np


def as_series(name, values, infinite=False):
    """The values as a non-empty 1-d float array; ValueError or TypeError in one sentence if they are not.

    infinite  whether +inf may occur
    """
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"{name} must hold numbers, not {type(values).__name__}; of a RequestLog give one quantity, "
            "such as log.wait."
        ) from None
    if array.ndim != 1 or len(array) == 0:
        raise ValueError(f"{name} has shape {array.shape}; give one row of at least one number.")
    bad = np.isnan(array) | (array == -np.inf) | (False if infinite else array == np.inf)
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(
            f"{name} holds {array[row]:g} in row {row}; leave out what has no value, and judge requests that "
            "never finished with attainment or quantile."
        )
    return array


def as_share(name, value):
    """The value as a float strictly between 0 and 1; ValueError if it is not."""
    if not 0 < value < 1:
        raise ValueError(f"{name} is {value!r}; give a share between 0 and 1, such as 0.99 for 99%.")
    return float(value)
