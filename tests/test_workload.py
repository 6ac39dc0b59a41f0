"""Laws and arrival processes against scipy's distributions, numerical integrals and theory."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from labsupport.queueing import workload as w

SIGMA = math.sqrt(math.log(5))  # of a lognormal with scv 4


class Mixture(stats.rv_continuous):
    """The two exponentials with balanced means, mean 1 and scv 4: p = .88729833 and 1 - p."""

    p = 0.5 + math.sqrt(0.15)

    def _sf(self, x):
        return self.p * np.exp(-2 * self.p * x) + (1 - self.p) * np.exp(-2 * (1 - self.p) * x)

    def _cdf(self, x):
        return 1 - self._sf(x)

    def _pdf(self, x):
        p = self.p
        return 2 * p**2 * np.exp(-2 * p * x) + 2 * (1 - p) ** 2 * np.exp(-2 * (1 - p) * x)


LAWS = [  # a law with mean 3, its scv, and scipy's idea of the same law divided by 3
    (w.exponential(3), 1, stats.expon()),
    (w.gamma(3, 0.25), 0.25, stats.gamma(4, scale=0.25)),
    (w.gamma(3, 9), 9, stats.gamma(1 / 9, scale=9)),
    (w.lognormal(3, 4), 4, stats.lognorm(SIGMA, scale=math.exp(-(SIGMA**2) / 2))),
    (w.hyperexponential(3, 4), 4, Mixture(a=0)),
]
each_law = pytest.mark.parametrize("law, scv, truth", LAWS, ids=lambda x: getattr(x, "name", ""))


@each_law
def test_quantiles_are_the_inverse_of_the_distribution_function(law, scv, truth):
    u = np.array([0, 1e-6, 0.01, 0.3, 0.5, 0.9, 0.99, 1 - 1e-6, 1 - 1e-12])
    x = law.ppf(u)
    np.testing.assert_allclose(truth.sf(x / 3), 1 - u, rtol=1e-9)
    assert law.ppf(0.0) == 0 and law.ppf(1.0) == np.inf and law.ppf(np.full((2, 3), 0.5)).shape == (2, 3)


@each_law
def test_mean_and_scv_are_those_of_the_quantile_function(law, scv, truth):
    # E[X^k] is the integral of x(u)^k over u; in z with u = Phi(z) the integrand has no pole at 1.
    z = np.linspace(-8, 8, 4001)
    x, weight = law.ppf(stats.norm.cdf(z)), stats.norm.pdf(z) * (z[1] - z[0])
    mean = (x * weight).sum()
    assert (law.mean, law.scv) == (3, pytest.approx(scv))
    assert mean == pytest.approx(3, rel=2e-4)
    assert (x**2 * weight).sum() / mean**2 - 1 == pytest.approx(scv, rel=2e-3)


@each_law
def test_samples_follow_the_law(law, scv, truth):
    sample = law.sample(np.random.default_rng(1), (100, 50))
    assert sample.shape == (100, 50)
    assert stats.kstest(sample.ravel() / 3, truth.cdf).pvalue > 1e-4


@each_law
@pytest.mark.parametrize("s", [0.01, 0.5, 20.0])
def test_transform_is_the_integral(law, scv, truth, s):
    # over x = exp(y), because a gamma density with scv 9 has a pole at 0
    value, _ = integrate.quad(
        lambda y: math.exp(y - 3 * s * math.exp(y)) * truth.pdf(math.exp(y)),
        *(-400, 8),
        points=[-30, -10, -3, -1, 0, 1, 3],
        limit=400,
        epsabs=1e-12,
    )
    assert float(law.lst(s)) == pytest.approx(value, rel=1e-7)
    np.testing.assert_allclose(law.lst([[0.0, s]]), [[1, value]], rtol=1e-7)


@each_law
def test_the_same_seed_with_another_mean_is_the_same_pattern(law, scv, truth):
    draw = [one.sample(np.random.default_rng(7), 1000) for one in (law, law.scaled(0.5))]
    np.testing.assert_allclose(draw[1], draw[0] / 2, rtol=1e-15)
    assert law.scaled(0.5).mean == 1.5 and law.scaled(0.5).scv == law.scv
    assert law.scaled(2).ppf(0.3) == pytest.approx(2 * law.ppf(0.3), rel=1e-15)
    assert law.scaled(2).lst(0.3) == pytest.approx(law.lst(0.6), rel=1e-15)


@given(st.floats(1, 1e4), st.lists(st.floats(0, 1, exclude_max=True), min_size=1))
def test_quantiles_of_the_mixture_invert_it_for_every_scv(scv, u):
    u = np.sort(u)
    law = w.hyperexponential(1, scv)
    p = (1 + math.sqrt((scv - 1) / (scv + 1))) / 2
    x = law.ppf(u)
    np.testing.assert_allclose(p * np.exp(-2 * p * x) + (1 - p) * np.exp(-2 * (1 - p) * x), 1 - u, rtol=1e-8)
    assert (np.diff(x) >= 0).all()


@pytest.mark.parametrize("law", [w.deterministic(2), w.gamma(2, 0), w.lognormal(2, 0)])
def test_without_variation_every_value_is_the_mean(law):
    assert (law.mean, law.scv) == (2, 0)
    assert (law.sample(np.random.default_rng(1), 5) == 2).all() and (law.ppf([0, 0.5, 1]) == 2).all()
    assert float(law.lst(0.7)) == pytest.approx(math.exp(-1.4))


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=40).filter(any), st.floats(0, 1))
def test_empirical_law_gives_back_its_values(values, u):
    law = w.empirical(values)
    assert law.mean == pytest.approx(np.mean(values))
    assert law.scv == pytest.approx(np.var(values) / np.mean(values) ** 2)
    assert set(law.sample(np.random.default_rng(1), 30)) <= set(values)  # whole tokens stay whole
    assert float(law.ppf(u)) == np.quantile(values, u, method="inverted_cdf")
    assert float(law.lst(0.01)) == pytest.approx(np.mean(np.exp(-0.01 * np.array(values))))


def test_lognormal_from_median():
    tokens = w.lognormal_from_median(120, 1.2)  # K5 in claims.csv
    assert tokens.mean == pytest.approx(246.5, abs=0.05)
    assert float(tokens.ppf(0.5)) == pytest.approx(120)
    assert float(tokens.ppf(0.99)) == pytest.approx(1956, abs=1)
    assert w.lognormal_from_median(120, 0).mean == 120


def test_poisson_arrivals_have_exponential_gaps_and_poisson_counts():
    times = w.poisson(np.random.default_rng(3), 10, 40_000)
    assert (np.diff(times) > 0).all() and times[0] > 0
    assert stats.kstest(np.diff(times) * 10, "expon").pvalue > 1e-4
    counts = np.bincount(times.astype(int))[: int(times[-1])]
    # (n - 1) times variance over mean is nearly chi-squared for a Poisson sample
    dispersion = (len(counts) - 1) * counts.var(ddof=1) / counts.mean()
    assert 1e-4 < stats.chi2.cdf(dispersion, len(counts) - 1) < 1 - 1e-4
    slower = w.poisson(np.random.default_rng(3), 5, 40_000)
    np.testing.assert_array_equal(slower, 2 * times)


def test_renewal_arrivals_take_their_gaps_from_the_law():
    law = w.gamma(0.1, 4)
    times = w.renewal(np.random.default_rng(3), law, 10_000)
    gaps = law.sample(np.random.default_rng(3), 10_000)
    np.testing.assert_allclose(np.diff(times, prepend=0), gaps, atol=1e-12 * times[-1])
    assert w.renewal(np.random.default_rng(3), w.deterministic(0.5), 3).tolist() == [0.5, 1, 1.5]


@pytest.mark.parametrize("rates, stay", [((2.0, 20.0), (3.0, 1.0)), ((0.0, 12.0), 2.0)])
def test_mmpp_counts_have_the_mean_and_variance_of_theory(rates, stay):
    (r1, r2), (s1, s2) = rates, np.broadcast_to(stay, 2)
    rate = (r1 * s1 + r2 * s2) / (s1 + s2)
    q, t, runs = 1 / s1 + 1 / s2, 5.0, 4000
    # Fischer and Meier-Hellstern (1993); for the time-stationary process
    excess = 2 * (r1 - r2) ** 2 * (s1 * s2) / (s1 + s2) ** 2 / (rate * q)
    idc = 1 + excess * (1 - (1 - math.exp(-q * t)) / (q * t))
    rng = np.random.default_rng(11)
    counts = np.array([np.searchsorted(w.mmpp(rng, rates, stay, 150), t) for _ in range(runs)])
    assert counts.max() < 150
    assert abs(counts.mean() - rate * t) < 4 * math.sqrt(idc * rate * t / runs)
    squares = (counts - rate * t) ** 2
    assert abs(squares.mean() - idc * rate * t) < 4 * squares.std() / math.sqrt(runs)


@given(
    st.integers(0, 300),
    st.lists(st.sampled_from([0, 0.3, 2, 50]), min_size=2, max_size=4).filter(any),
    st.integers(0, 99),
)
def test_mmpp_gives_n_sorted_times_that_scale(n, rates, seed):
    times = w.mmpp(np.random.default_rng(seed), rates, 0.7, n)
    assert len(times) == n and (np.diff(times) >= 0).all() and (times >= 0).all() and np.isfinite(times).all()
    twice = w.mmpp(np.random.default_rng(seed), np.multiply(rates, 2), 0.35, n)
    np.testing.assert_allclose(twice, times / 2, rtol=1e-9)


def test_replay_counts_from_the_first_arrival():
    trace = [1000.0, 1000.5, 1004.0]
    assert w.replay(trace).tolist() == [0, 0.5, 4]
    assert w.replay(trace, speed=2).tolist() == [0, 0.25, 2]
    assert w.replay([]).tolist() == []


@given(st.lists(st.integers(0, 30), max_size=50))
def test_spread_times_stay_in_their_tick(ticks):
    times = w.spread_ticks(np.random.default_rng(5), 3 * np.array(ticks, dtype=float), 3)
    assert sorted(ticks) == np.floor(times / 3).astype(int).tolist()
    assert (np.diff(times) >= 0).all()


RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: w.exponential(0), ValueError, "mean = 0 must be above 0"),
        (lambda: w.exponential("1"), TypeError, "mean must be a number, not '1'"),
        (lambda: w.gamma(1, -1), ValueError, "scv = -1 must be above 0"),
        (lambda: w.gamma(1, math.nan), ValueError, "scv = nan must be"),
        (lambda: w.lognormal(math.inf, 1), ValueError, "mean = inf must be above 0 and finite"),
        (lambda: w.lognormal_from_median(1, -1), ValueError, "sigma = -1"),
        (lambda: w.hyperexponential(1, 0.5), ValueError, "scv = 0.5 is below 1, .* use gamma"),
        (lambda: w.empirical([]), ValueError, "at least one number above 0"),
        (lambda: w.empirical([1, -1]), ValueError, "values must be one row of finite numbers"),
        (lambda: w.exponential(1).ppf(50), ValueError, "not percentages"),
        (lambda: w.exponential(1).ppf(math.nan), ValueError, "u must lie in"),
        (lambda: w.exponential(1).lst(-1), ValueError, "s must be 0 or more"),
        (lambda: w.exponential(1).sample(1, 3), TypeError, "rng must be a numpy.random.Generator"),
        (lambda: w.exponential(1).scaled(0), ValueError, "factor = 0"),
        (lambda: w.poisson(np.random, 1, 3), TypeError, "rng must be"),
        (lambda: w.poisson(RNG, -1, 3), ValueError, "rate = -1 must be above 0"),
        (lambda: w.poisson(RNG, 1, 2.5), ValueError, "n = 2.5 must be a whole number"),
        (lambda: w.renewal(RNG, 0.1, 3), TypeError, "law must be a Law"),
        (lambda: w.mmpp(RNG, [3], 1, 3), ValueError, "at least two arrival rates"),
        (lambda: w.mmpp(RNG, [0, 0], 1, 3), ValueError, "not all 0"),
        (lambda: w.mmpp(RNG, [1, 2], 0, 3), ValueError, "mean_stay_s = 0 must be above 0"),
        (lambda: w.mmpp(RNG, [1, 2], [1, 2, 3], 3), ValueError, "one number, or one per rate"),
        (lambda: w.mmpp(RNG, [0, 1e-9], 1e-9, 3), ValueError, "3 arrivals would take .* bursts; give larger"),
        (lambda: w.replay([1, 3, 2]), ValueError, "times_s is not sorted at row 2; sort"),
        (lambda: w.replay([1, math.nan]), ValueError, "times_s must be one row of finite"),
        (lambda: w.replay([1, 2], 0), ValueError, "speed = 0"),
        (lambda: w.spread_ticks(RNG, [1], 0), ValueError, "tick_s = 0"),
    ],
)
def test_refuses_what_makes_no_sense_in_one_sentence(call, error, words):
    with pytest.raises(error, match=words) as refusal:
        call()
    assert str(refusal.value).endswith(".") and "\n" not in str(refusal.value)
