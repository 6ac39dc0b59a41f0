"""Theory against reference values to all their digits, independent computations, simulations, and itself."""

import math
import subprocess
import sys

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special, stats

from labsupport.queueing import simulate, workload
from labsupport.queueing import theory as th


def same(values, printed):
    """Every value rounds to what is printed, in the last digit too."""
    for value, text in zip(np.ravel(values), printed.split(), strict=True):
        mantissa, _, exponent = text.partition("e")
        unit = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
        assert abs(value - float(text)) <= 0.501 * unit, (value, text)
    return True


# --- reference values computed with 40 to 60 digits or exact chains; the mean service is 1 unless said --------------


@pytest.mark.parametrize(
    "servers, load, printed",  # B, C, mean wait
    [
        (2, 1.6, ".329896907216 .711111111111 1.77777777778"),
        (8, 6.4, ".144393889853 .457644925442 .286028078401"),
        (10, 5, ".0183845703366 .0361053591583 .00722107183166"),
        (64, 60.8, ".0666090583405 .588010931910 .183753416222"),
        (100, 90, ".0269573804644 .216940480906 .0216940480906"),
        (1000, 900, "5.92986267015e-5 5.92669966379e-4 5.92669966379e-6"),
        (1000, 999, ".0241991785956 .961239260408 .961239260408"),
        (10000, 9990, ".00731718688727 .880541711374 .0880541711374"),
    ],
)
def test_erlang(servers, load, printed):
    queue = th.MMc(load, 1, servers)
    same([th.erlang_b(servers, load), th.erlang_c(servers, load), queue.mean_wait], printed)
    assert queue.wait_probability == th.erlang_c(servers, load)


@pytest.mark.parametrize(
    "model, rho, printed",  # P50, P95, P99 of the wait
    [
        (th.MD1, 0.5, "0 2.050638 3.336256"),
        (th.MD1, 0.7, ".729751 4.102898 6.485499"),
        (th.MD1, 0.8, "1.275940 6.620325 10.355887"),
        (th.MD1, 0.9, "3.013048 14.128674 21.898237"),
        (th.MD1, 0.95, "6.480668 29.116204 44.937766"),
        (th.MM1, 0.8, "2.350018 13.862944 21.910133"),
        (th.MM1, 0.9, "5.877867 28.903718 44.998097"),
        (th.MM1, 0.95, "12.837078 58.888780 91.077538"),
    ],
)
def test_quantiles_of_the_wait(model, rho, printed):
    same(model(rho, 1).wait_quantile([0.5, 0.95, 0.99]), printed)


def test_md1_distribution():
    same(th.MD1(0.95, 1).wait_cdf([30, 40]), ".954299032 .983474973")


@pytest.mark.parametrize(
    "servers, rho, printed",
    [
        (2, 0.8, ".9032838794"),
        (4, 0.8, ".3860949308"),
        (8, 0.8, ".1519538026"),
        (8, 0.95, "1.067928567"),
        (2, 0.9, "2.146923215"),
        (50, 0.9, ".03952588717"),
        (100, 0.95, ".05344603912"),
    ],
)
def test_mdc(servers, rho, printed):
    same(th.MDc(servers * rho, 1, servers).mean_wait, printed)


@pytest.mark.parametrize(
    "scv, printed, vut",  # sigma, mean wait, P99; the approximation over the exact value
    [
        (0.25, ".552911500774 1.23669363388 8.974986", "1.179"),
        (0.5, ".615476742133 1.60062292603 10.714078", "1.093"),
        (1, ".7 2.33333333333 14.161651", "1"),
        (2, ".791948133963 3.80649377988 21.013562", ".919"),
        (4, ".871162472604 6.76171368863 34.673464", ".863"),
        (9, ".934035983620 14.1597803602 68.778860", ".824"),
    ],
)
def test_gamma_m_1(scv, printed, vut):
    queue = th.GM1(workload.gamma(1 / 0.7, scv), 1)
    same([queue.root, queue.mean_wait, queue.wait_quantile(0.99)], printed)
    same(th.vut_wait(0.7, 1, scv, 1) / queue.mean_wait, vut)
    assert queue.mean_wait <= th.kingman_bound(0.7, 1, scv, 1)


def test_mg1_waits_by_inversion():
    p = [0.5, 0.95, 0.99]
    hyper = th.MG1.of_law(0.8, workload.hyperexponential(1, 4))
    same(hyper.wait_quantile(p), "4.808919 37.296392 60.012607")
    heavy = th.MG1.of_law(0.8, workload.lognormal(1, 4)).wait_quantile(p)
    assert (np.array([3.995, 39.719, 74.060]) < heavy).all() and (heavy < [4.002, 39.741, 74.089]).all()


@pytest.mark.parametrize("scv", [0.01, 0.5, 4, 100])
def test_lognormal_transform_for_complex_arguments(scv):
    sigma, (z, dz) = math.sqrt(math.log1p(scv)), np.linspace(-12, 12, 200_001, retstep=True)
    x = np.exp(sigma * z - sigma**2 / 2)
    for s in (0.01 + 0.5j, 3 - 40j, 1000 + 12000j):
        plain = (np.exp(-s * x) * stats.norm.pdf(z)).sum() * dz
        assert abs(workload.lognormal(1, scv).lst(s) - plain) < 1e-12


@pytest.mark.parametrize("sigma, mean, p99", [(1.2, "1.755905", "24.8"), (1.0, ".907542", "11.4")])
def test_one_request_at_a_time_at_6_ms_per_token(sigma, mean, p99):
    service = workload.lognormal_from_median(120 * 0.006, sigma)
    queue = th.MG1.of_law(0.36 / service.mean, service)
    same(queue.mean_wait, mean)
    same(queue.wait_quantile(0.99), p99)  # found with 2e7 simulated customers
    assert queue.wait_probability == pytest.approx(0.36)


@pytest.mark.parametrize(
    "rho, printed", [(0.8, "3.900000"), (0.9, "8.110600"), (0.95, "13.320549"), (0.99, "20.510106")]
)
def test_mean_wait_over_the_first_1000(rho, printed):
    waits = th.mm1_transient_wait(rho, 1, 1000)
    same(waits.mean(), printed)
    if rho == 0.95:
        same(waits[-1], "16.836958")


def test_autocorrelation_time():
    same(th.mm1_wait_autocorrelation_time([0.8, 0.9, 0.95]), "82.333 362.636 1522.81")


@pytest.mark.parametrize(
    "users, think, printed",
    [
        (12, 9, ".916913388534 4.08738660604"),
        (10, 10, ".785417656893 2.73207943855"),
        (50, 50, ".895212544496 5.85265790497"),
        (100, 9, "1.0 91.0"),
        (100, 100, ".924299547289 8.19003459786"),
    ],
)
def test_closed_loop(users, think, printed):
    loop, network = th.MachineRepairman(users, think, 1), th.mva(users, think, [1])
    same([loop.throughput, loop.mean_response], printed)
    same([network.throughput[-1], network.response_s[-1]], printed)


@pytest.mark.parametrize(
    "rate, printed",  # mean response in ms, mean batch
    [
        (100, "7.00953 1.129822"),
        (500, "10.55433 3.384867"),
        (1000, "15.83322 10.000331"),
        (1400, "26.84475 23.333334"),
        (1450, "30.84469 26.363636"),
        (1480, "36.24037 28.461538"),
    ],
)
def test_dynamic_batching(rate, printed):
    server = th.DynamicBatching(rate, 0.005, 0.0005, 32)
    same([server.mean_response * 1e3, server.mean_batch], printed)
    # Every batch costs 5 ms, every request .5 ms: the busy share without any chain.
    assert server.utilisation == pytest.approx(rate * (0.005 / server.mean_batch + 0.0005), rel=1e-9)


def test_attainment_of_50_ms():
    server = th.DynamicBatching(1450, 0.005, 0.0005, 32)
    same(server.response_cdf(0.05), ".963")
    same(th.largest_rate(server, 0.05, p=0.9), "1473")
    assert server.response_cdf(server.response_quantile(0.9)) == pytest.approx(0.9, abs=1e-9)
    assert server.at_rate(100).response_quantile(0.4) == 0.0055  # half the requests find the server idle
    assert server.response_cdf([0.0054, math.inf]) == pytest.approx([0, 1])


def test_capacity_of_batches():
    same([th.batch_capacity(0.005, 0.0005, b) for b in (1, 32, math.inf)], "181.8 1523.81 2000")


def test_fan_out():
    same(th.fan_out_probability([10, 100], 0.01), ".095618 .633968")
    assert th.fan_out_tasks(0.001, 0.5) == 693
    sigma = math.log(10) / stats.norm.ppf(0.99)  # median 10 ms, P99 100 ms
    task = workload.lognormal_from_median(10, sigma)
    same(th.fan_out_quantile(task.ppf, 100, 0.5), "114.37")


def test_textbook_examples():
    queue = th.MM1(8, 0.1)
    same([queue.mean_response, queue.mean_wait, queue.mean_in_system, queue.mean_queue], ".5 .4 4 3.2")
    same(queue.response_quantile(0.99) / queue.mean_response, "4.60517")
    rho = np.array([0.5, 0.7, 0.9])
    same(th.MM1(rho, 1).wait_quantile(0.99), "7.824046 14.16165 44.998097")
    same(th.MM1(rho, 1).response_quantile(0.99), "9.210340 15.350567 46.051702")
    same([th.MG1(0.9, 1, scv).mean_wait for scv in (0, 1, 9)], "4.5 9 45")
    same([th.MG1(0.7, 1, scv).mean_wait for scv in (0, 1, 4, 25)], "1.166667 2.333333 5.833333 30.333333")
    same(th.MD1(np.array([5, 8, 9, 9.5, 9.9]), 0.1).mean_wait, ".05 .2 .45 .95 4.95")
    same(th.MMc(1.8, 1, 2).wait_probability, ".852632")
    same(th.largest_rate(th.MM1(1, 0.2), 1), "4.0")
    same(th.largest_rate(th.MM1(1, 0.2), 2, p=0.99), "2.697415")


# --- independent computations --------------------------------------------------------------------------------


@pytest.mark.parametrize("servers, load", [(1, 0.3), (40, 60.0), (500, 470.0)])
def test_erlang_b_is_the_truncated_poisson_law(servers, load):
    with mp.workdps(40):
        terms = [mp.mpf(load) ** k / mp.factorial(k) for k in range(servers + 1)]
        assert th.erlang_b(servers, load) == pytest.approx(float(terms[-1] / sum(terms)), rel=1e-13)


@pytest.mark.parametrize(
    "servers, load", [(1, 0.9), (2, 1.0), (3, 2.0), (8, 7.5), (5, 0.5)]
)  # 2 and 3: equal rates
def test_mmc_response_is_wait_plus_service(servers, load):
    queue = th.MMc(load / 2, 2, servers)  # a mean service of 2 s
    for t in (0.3, 5.0, 40.0):
        convolved, _ = integrate.quad(
            lambda s, t=t: queue.wait_cdf(t - s) * math.exp(-s / 2) / 2, 0, t, epsabs=1e-13
        )
        assert queue.response_cdf(t) == pytest.approx(convolved, abs=1e-11)


@pytest.mark.parametrize("rho", [0.02, 0.5, 0.97])
def test_md1_is_erlang_s_alternating_series(rho):
    def cdf(t):  # exact in 200 digits, worthless in 16
        terms = (
            (-x) ** j / mp.factorial(j) * mp.exp(x)
            for j, x in ((j, mp.mpf(rho) * (mp.mpf(t) - j)) for j in range(int(t) + 1))
        )
        return (1 - mp.mpf(rho)) * sum(terms)

    t = np.array([0, 0.25, 0.999, 1, 1.5, 2.75, 10.1, 60.5, 150.3])
    with mp.workdps(200):
        exact = [float(cdf(x)) for x in t]
    np.testing.assert_allclose(th.MD1(rho / 3, 3).wait_cdf(3 * t), exact, rtol=0, atol=3e-14)


@pytest.mark.parametrize("rho", [1e-6, 0.1, 0.9, 0.999, 0.999999])
def test_mdc_with_one_server_is_pollaczek_khinchin(rho):
    assert th.MDc(rho, 1, 1).mean_wait == pytest.approx(rho / (1 - rho) / 2, rel=1e-10)


def test_mdc_is_spitzer_s_sum_of_gamma_functions():
    n = np.arange(1, 3000)
    m, x = n * 3, n * 3 * 0.9
    plain = special.gammainc(m, x) - special.gammainc(m + 1, x) / 0.9  # E[(n D - Gamma(n c))+] / n
    assert th.MDc(3 * 0.9 / 7, 7, 3).mean_wait == pytest.approx(7 * plain.sum(), rel=1e-11)


def test_kingman_s_bound_is_made_of_variances():
    between, service = workload.gamma(3, 2.5), workload.gamma(2, 0.7)
    variances = between.scv * between.mean**2 + service.scv * service.mean**2
    bound = th.kingman_bound(2 / 3, service.mean, between.scv, service.scv)
    assert bound == pytest.approx(variances / between.mean / (2 * (1 - 2 / 3)))
    # It is the exact value in heavy traffic.
    busy = th.GM1(workload.gamma(1 / 0.9999, 4), 1).mean_wait
    assert busy == pytest.approx(th.kingman_bound(0.9999, 1, 4, 1), rel=1e-3)


def test_d_m_1_root_by_lambert_w():
    for rho in (0.05, 0.5, 0.95, 0.999):
        root = -rho * special.lambertw(-math.exp(-1 / rho) / rho).real
        assert th.GM1(workload.deterministic(1), rho).root == pytest.approx(root, rel=1e-9)


def test_waits_from_empty_by_the_number_that_each_arrival_finds():
    rate, service, n = 9.5, 0.1, 120
    leave = 1 / (1 + rate * service)  # P(a service ends before the next arrival)
    found, means = np.eye(n + 1)[0], []
    for _ in range(n):
        means.append(service * found @ np.arange(n + 1))
        after = np.zeros(n + 1)
        for number, chance in enumerate(found[:n]):
            left = np.arange(1, number + 2)  # served: number + 1 - left, or more if none is left
            after[left] += chance * (1 - leave) * leave ** (number + 1 - left)
            after[0] += chance * leave ** (number + 1)
        found = after
    np.testing.assert_allclose(th.mm1_transient_wait(rate, service, n), means, rtol=1e-10)


def test_waits_in_overload_grow_by_the_excess_of_each_interval():
    waits = th.mm1_transient_wait(20, 0.1, 4001)
    assert waits[0] == 0 and (waits[4000] - waits[3000]) / 1000 == pytest.approx(0.1 - 0.05, rel=1e-9)


@pytest.mark.parametrize("rho", [0.1, 0.5, 0.95])
def test_autocorrelation_time_by_poisson_s_equation(rho):
    """g(W) - E[g(next wait)] = W - E[W] has g quadratic in M/M/1; then the variance sum is E[2 g(W) (W - EW)] - var W."""
    lam, mu = rho, 1.0
    drift, below = (
        1 / lam - 1 / mu,
        mu / (lam + mu),
    )  # below: P(interarrival > service + x) = below * exp(-lam x)
    a = 1 / (2 * drift)
    b = 2 * a / lam  # makes the terms in exp(-lam x), from the wait being held at 0, cancel
    x = np.linspace(0, 5, 7)
    second_u = 2 / mu**2 + 2 / lam**2 - 2 / (lam * mu)
    held = below * np.exp(-lam * x)
    following = a * (x**2 - 2 * x * drift + second_u - held * 2 / lam**2) + b * (x - drift + held / lam)
    np.testing.assert_allclose(
        a * x**2 + b * x - following, x - th.MM1(lam, 1).mean_wait, atol=1e-9 / (1 - rho)
    )
    w1, w2, w3 = (rho * math.factorial(k) / (1 - rho) ** k for k in (1, 2, 3))
    variance = w2 - w1**2
    total = 2 * (a * w3 + b * w2 - w1 * (a * w2 + b * w1)) - variance
    assert th.mm1_wait_autocorrelation_time(rho) == pytest.approx(total / variance, rel=1e-10)


def test_mva_is_the_product_form():
    think, demands, users = 2.0, np.array([0.3, 0.5, 0.1]), 7

    def weight(population):  # sum of all products, by brute force
        return sum(
            demands[0] ** i * demands[1] ** j * demands[2] ** k * think**z / math.factorial(z)
            for i in range(population + 1)
            for j in range(population + 1 - i)
            for k in range(population + 1 - i - j)
            for z in [population - i - j - k]
        )

    result = th.mva(users, think, demands)
    exact = [weight(n - 1) / weight(n) for n in range(1, users + 1)]
    np.testing.assert_allclose(result.throughput, exact, rtol=1e-12)
    np.testing.assert_allclose(result.utilisation, np.outer(exact, demands), rtol=1e-12)
    np.testing.assert_allclose(result.in_station.sum(axis=1), exact * result.response_s, rtol=1e-12)


def test_dynamic_batching_is_the_chain_solved_with_many_states():
    rate, service, cap, top = 1.3, np.array([1.2, 1.5, 1.8]), 3, 400
    step, size = np.zeros((top, top)), np.clip(np.arange(top), 1, cap)
    for n in range(top):
        left = max(n - cap, 0)
        step[n, left:] = stats.poisson.pmf(np.arange(top - left), rate * service[size[n] - 1])
    step[:, -1] += 1 - step.sum(axis=1)
    p = np.linalg.matrix_power(step, 2**14)[0]
    server = th.DynamicBatching(rate, 0.9, 0.3, cap)
    assert server.mean_batch == pytest.approx(p @ size, rel=1e-8)
    cycle = p @ service[size - 1] + p[0] / rate
    assert rate * cycle == pytest.approx(p @ size, rel=1e-8)
    s = service[size - 1]
    area = p @ (np.maximum(np.arange(top), 1) * s + rate * s**2 / 2)
    assert server.mean_response == pytest.approx(area / cycle / rate, rel=1e-8)
    assert server.mean_wait == pytest.approx(server.mean_response - p @ (size * s) / (p @ size), rel=1e-8)


@pytest.mark.parametrize("rho", [0.1, 0.8, 0.999])
def test_batches_of_one_are_m_d_1(rho):
    batches, queue = th.DynamicBatching(rho / 0.2, 0.05, 0.15, 1), th.MD1(rho / 0.2, 0.2)
    assert batches.mean_wait == pytest.approx(queue.mean_wait, rel=1e-8)
    t = np.array([0.1, 0.2, 0.25, 0.4, 0.9, 3.0])
    np.testing.assert_allclose(batches.response_cdf(t), queue.response_cdf(t), atol=1e-8)


@pytest.mark.parametrize(
    "rate, fixed, per_item, cap, t",
    [(520, 0.005, 0.0005, 4, 0.05), (1450, 0.005, 0.0005, 32, 0.04), (200, 0.002, 0.003, 8, 0.02)],
)
def test_batch_responses_by_simulation(rate, fixed, per_item, cap, t):
    rng, runs, n, warm = np.random.default_rng(7), 40, 12_000, 2_000
    server = th.DynamicBatching(rate, fixed, per_item, cap)
    measured = []
    for _ in range(runs):
        log = simulate.dynamic_batches(workload.poisson(rng, rate, n), fixed, per_item, cap)
        response, wait = log.response[warm:], log.wait[warm:]
        measured.append([response.mean(), wait.mean(), (response <= t).mean()])
    exact = [server.mean_response, server.mean_wait, server.response_cdf(t)]
    z = (np.mean(measured, axis=0) - exact) / (np.std(measured, axis=0, ddof=1) / math.sqrt(runs))
    assert (abs(z) < 4).all(), z


# --- what holds for all of them --------------------------------------------------------------------------------

loads = st.floats(0.01, 0.995)
services = st.floats(1e-3, 1e3)
shares = st.floats(0.001, 0.9999)
counts = st.integers(1, 60)
scvs = st.just(0.0) | st.floats(1e-3, 20)


def queues(rho, service, servers, scv):
    """One of each open queue whose arrivals are Poisson or bursty, at utilisation rho."""
    rate = rho / service
    return [
        th.MM1(rate, service),
        th.MMc(servers * rate, service, servers),
        th.MG1(rate, service, scv),
        th.MD1(rate, service),
        th.MDc(servers * rate, service, servers),
        th.GM1(workload.gamma(1 / rate, scv), service),
    ]


@settings(max_examples=60, deadline=None)
@given(loads, services, counts, scvs)
def test_means_obey_little_s_law_and_grow_with_the_rate(rho, service, servers, scv):
    lower, higher = queues(rho, service, servers, scv), queues(rho + 0.004, service, servers, scv)
    for queue, more in zip(lower, higher, strict=True):
        assert queue.utilisation == pytest.approx(rho)
        assert queue.mean_in_system == pytest.approx(queue.mean_queue + queue.servers * rho)
        assert 0 <= queue.mean_wait <= more.mean_wait
        assert queue.mean_response >= service
        again = queue.at_rate(more.arrival_rate)
        assert again.mean_wait == pytest.approx(more.mean_wait, rel=1e-9)


@settings(max_examples=60, deadline=None)
@given(loads, services, counts, scvs, shares)
def test_quantiles_invert_distributions(rho, service, servers, scv, p):
    for queue in queues(rho, service, servers, scv):
        for name in ("wait", "response"):
            if not hasattr(queue, f"{name}_cdf") or type(queue) is th.MG1:
                continue
            cdf, t = getattr(queue, f"{name}_cdf"), getattr(queue, f"{name}_quantile")(p)
            below, above = cdf(t * (1 - 1e-10)), cdf(t * (1 + 1e-10))
            assert below - 1e-9 <= p <= above + 1e-9 or t == 0 < below - p
            assert cdf(-service) == 0 and cdf(math.inf) == 1
            assert (np.diff(cdf(np.linspace(0, 3 * t + service, 40))) >= -1e-13).all()


@settings(max_examples=60, deadline=None)
@given(loads, services, counts, scvs, shares)
def test_special_cases_agree(rho, service, servers, scv, p):
    rate = rho / service
    one = th.MM1(rate, service)
    assert one.mean_in_system == pytest.approx(rho / (1 - rho))
    for other in (th.MMc(rate, service, 1), th.GM1(workload.exponential(1 / rate), service)):
        assert other.mean_wait == pytest.approx(one.mean_wait, rel=1e-9)
        assert other.wait_quantile(p) == pytest.approx(one.wait_quantile(p), rel=1e-8, abs=1e-9 * service)
        assert other.response_quantile(p) == pytest.approx(one.response_quantile(p), rel=1e-8)
    assert th.MG1(rate, service, 1).mean_wait == pytest.approx(one.mean_wait)
    constant = th.MD1(rate, service)
    assert constant.mean_wait == pytest.approx(one.mean_wait / 2)
    assert constant.wait_quantile(p) <= one.wait_quantile(p) + 1e-12 * service
    pooled = th.MMc(servers * rate, service, servers)
    assert (
        th.MDc(servers * rate, service, servers).mean_wait <= pooled.mean_wait <= one.mean_wait * (1 + 1e-12)
    )
    assert th.MG1(rate, service, scv).mean_response_processor_sharing == pytest.approx(one.mean_response)
    assert th.vut_wait(rho, service, 1, scv) == pytest.approx(th.MG1(rate, service, scv).mean_wait)


@settings(max_examples=60, deadline=None)
@given(loads, services, scvs, scvs)
def test_root_and_bound(rho, service, arrival_scv, service_scv):
    bursty = th.GM1(workload.gamma(service / rho, arrival_scv), service)
    assert 0 <= bursty.root < 1
    lst = bursty.interarrival_law.lst
    assert float(lst((1 - bursty.root) / service)) == pytest.approx(bursty.root, rel=1e-9)
    assert bursty.mean_wait <= th.kingman_bound(rho, service, arrival_scv, 1) * (1 + 1e-9)
    assert th.MG1(rho / service, service, service_scv).mean_wait <= th.kingman_bound(
        rho, service, 1, service_scv
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 300), st.floats(0, 500), services)
def test_closed_loops_are_mean_value_analysis(users, think, service):
    loop, network = (
        th.MachineRepairman(users, think * service, service),
        th.mva(users, think * service, service),
    )
    assert loop.throughput == pytest.approx(network.throughput[-1], rel=1e-9)
    assert loop.mean_response == pytest.approx(network.response_s[-1], rel=1e-9)
    assert loop.throughput <= min(1 / service, users / (think + 1) / service) * (1 + 1e-9)
    assert loop.mean_in_system + loop.throughput * think * service == pytest.approx(users)
    assert loop.saturation_users == pytest.approx(think + 1)


def test_closed_loops_far_beyond_saturation():
    full = [th.MachineRepairman(n, 9, 1) for n in (499, 500)]
    assert full[1].mean_response - full[0].mean_response == pytest.approx(1)
    assert full[1].throughput == pytest.approx(1) and full[1].mean_wait == pytest.approx(490)


@settings(max_examples=25, deadline=None)
@given(st.floats(0.02, 0.98), st.integers(1, 40), st.floats(0, 0.01), st.floats(1e-5, 0.01))
def test_dynamic_batching_for_all_inputs(load, cap, fixed, per_item):
    server = th.DynamicBatching(load * th.batch_capacity(fixed, per_item, cap), fixed, per_item, cap)
    assert 1 - 1e-9 <= server.mean_batch <= cap + 1e-9 and server.capacity * load == pytest.approx(
        server.arrival_rate
    )
    busy = server.arrival_rate * (
        fixed / server.mean_batch + per_item
    )  # each batch and each request have a price
    assert server.utilisation == pytest.approx(busy, rel=1e-9) and load * (1 - 1e-9) <= busy <= 1 + 1e-9
    assert server.mean_response >= fixed + per_item
    more = server.at_rate(server.arrival_rate * 1.01)
    assert server.mean_response < more.mean_response
    shorter, longer = server.response_cdf(server.mean_response * np.array([1, 2]))
    assert 0 < shorter < longer <= 1 and 1 - longer <= 0.5  # Markov's inequality


MODELS = [
    th.MM1(1, 0.2),
    th.MMc(1, 0.2, 7),
    th.MD1(1, 0.2),
    th.GM1(workload.hyperexponential(1, 3), 0.2),
    th.MG1.of_law(1, workload.gamma(0.2, 2)),
    th.DynamicBatching(1, 0.1, 0.1, 4),
]


@pytest.mark.parametrize(
    "quantity, p", [("response", None), ("wait", None), ("response", 0.9), ("wait", 0.99)]
)
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_largest_rate(model, quantity, p):
    def time(rate):
        at = model.at_rate(rate)
        return getattr(at, f"mean_{quantity}") if p is None else getattr(at, f"{quantity}_quantile")(p)

    if p is not None and not hasattr(model, f"{quantity}_cdf"):
        with pytest.raises(TypeError, match=f"quantile of the {quantity} time.*; "):
            th.largest_rate(model, 0.7, quantity, p)
        return
    rate = th.largest_rate(model, 0.7, quantity, p)
    assert time(rate * (1 - 1e-5)) <= 0.7 <= time(rate * (1 + 1e-5))


@settings(max_examples=30, deadline=None)
@given(st.floats(0.1, 300), services, st.floats(1.01, 20), st.sampled_from([None, 0.5, 0.99]))
def test_smallest_servers(load, service, stretch, p):
    for quantity in ("wait", "response"):
        least = service * (1 if p is None else -math.log1p(-p)) if quantity == "response" else 0.02 * service
        target = least * stretch
        servers = th.smallest_servers(load / service, service, target, quantity, p)

        def keeps(c, quantity=quantity, target=target):
            if c <= load:
                return False
            queue = th.MMc(load / service, service, c)
            if p is None:
                return getattr(queue, f"mean_{quantity}") <= target
            return getattr(queue, f"{quantity}_cdf")(target) >= p

        assert keeps(servers) and not (servers > 1 and keeps(servers - 1))


def test_servers_for_most_not_to_wait_at_all():
    servers = th.smallest_servers(10, 0.5, 0, "wait", p=0.9)
    assert th.MMc(10, 0.5, servers).wait_probability <= 0.1 < th.MMc(10, 0.5, servers - 1).wait_probability


@given(st.floats(1e-6, 0.5), st.floats(0.01, 0.99))
def test_fan_out_tasks_is_the_inverse(p, share):
    tasks = th.fan_out_tasks(p, share)
    assert th.fan_out_probability(tasks, p) >= share * (1 - 1e-9)
    assert tasks == 1 or th.fan_out_probability(tasks - 1, p) < share
    assert th.fan_out_quantile(lambda u: u, tasks, share) ** tasks == pytest.approx(share)


def test_whole_answers_of_fan_out_stay_whole():
    assert [th.fan_out_tasks(0.5, 1 - 0.5**k) for k in (1, 2, 3, 10)] == [1, 2, 3, 10]


@pytest.mark.parametrize(
    "build",
    [
        lambda r: th.MM1(r, 0.2),
        lambda r: th.MMc(r, 0.2, 3),
        lambda r: th.MG1(r, 0.2, 5),
        lambda r: th.MD1(r, 0.2),
    ],
)
def test_arrays_of_rates_answer_like_one_rate_each(build):
    rates, p, t = np.array([0.3, 2.0, 4.9]), 0.9, 0.7
    curve, each = build(rates), [build(rate) for rate in rates]
    for name in (
        "utilisation",
        "mean_wait",
        "mean_response",
        "mean_queue",
        "mean_in_system",
        "wait_probability",
    ):
        np.testing.assert_allclose(getattr(curve, name), [getattr(one, name) for one in each], rtol=1e-14)
        assert type(getattr(each[0], name)) is float
    if not isinstance(curve, th.MG1):
        for name, x in (("wait_cdf", t), ("response_cdf", t), ("wait_quantile", p), ("response_quantile", p)):
            expected = [getattr(one, name)(x) for one in each]
            np.testing.assert_allclose(getattr(curve, name)(x), expected, rtol=1e-12)
            assert type(expected[0]) is float


# --- the door --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call, error, says",
    [
        (
            lambda: th.MM1(10, 0.2),
            ValueError,
            "arrival_rate=10, service_mean=0.2 and servers=1 .* 2, .*; lower",
        ),
        (lambda: th.MM1(5, 0.2), ValueError, "utilisation of 1, .*; lower"),
        (lambda: th.MM1([1, 6], 0.2), ValueError, "arrival_rate=6.*; lower"),
        (lambda: th.MM1(-1, 0.2), ValueError, "arrival_rate=-1 .*; give requests per second"),
        (lambda: th.MM1([1, -2], 0.2), ValueError, r"arrival_rate\[1\]=-2 .*; give"),
        (lambda: th.MM1(math.nan, 0.2), ValueError, "arrival_rate=nan .*; give"),
        (lambda: th.MM1("ten", 0.2), TypeError, "arrival_rate='ten' .*; give"),
        (lambda: th.MM1(1, 0), ValueError, "service_mean=0 .*; give seconds"),
        (lambda: th.MM1(1, [0.1, 0.2]), TypeError, "service_mean has 2 values .*; make"),
        (lambda: th.MMc(1, 0.2, 0), ValueError, "servers=0 .*; give the number"),
        (lambda: th.MMc(1, 0.2, 1.5), ValueError, "servers=1.5 .*; give the number"),
        (lambda: th.MMc(1, 0.2, None), TypeError, "servers=None .*; give the number"),
        (lambda: th.MG1(1, 0.2, -1), ValueError, "service_scv=-1 .*; give variance"),
        (lambda: th.MG1(1, 0.2, 2).wait_cdf(1), TypeError, "service_law=None .*; use MG1.of_law"),
        (lambda: th.MG1.of_law(1, 0.2), TypeError, r"service_law=0.2 .*; give a law"),
        (lambda: th.MD1([1, 2], 0.2).wait_cdf(1), TypeError, "arrival_rate has 2 values .*; make"),
        (lambda: th.MDc([1, 2], 0.2, 2).mean_wait, TypeError, "arrival_rate has 2 values .*; make"),
        (lambda: th.MM1(1, 0.2).wait_quantile(99), ValueError, r"p=99 .*\(0, 1\); give .* 0.99"),
        (lambda: th.MD1(1, 0.2).wait_quantile([0.5, 1]), ValueError, r"p\[1\]=1 .*; give"),
        (lambda: th.MMc(1, 0.2, 2).response_quantile(0), ValueError, "p=0 .*; give"),
        (lambda: th.MM1(1, 0.2).wait_cdf(math.nan), ValueError, "t=nan .*; give seconds"),
        (lambda: th.GM1(1, 0.2), TypeError, "interarrival_law=1 .*; give a law"),
        (lambda: th.GM1(workload.gamma(0.1, 2), 0.2), ValueError, "utilisation of 2, .*; lower"),
        (lambda: th.erlang_b(0, 1), ValueError, "servers=0 .*; give"),
        (lambda: th.erlang_c(5, 5), ValueError, "offered_load=5 and servers=5 .*; lower"),
        (lambda: th.vut_wait(1, 1, 1, 1), ValueError, "utilisation=1 .*; give the busy share"),
        (lambda: th.kingman_bound(0.5, 1, -1, 1), ValueError, "arrival_scv=-1 .*; give variance"),
        (lambda: th.MachineRepairman(0, 1, 1), ValueError, "users=0 .*; give"),
        (lambda: th.MachineRepairman(1, -1, 1), ValueError, "think_mean=-1 .*; give"),
        (lambda: th.mva(3, 1, [0, 0]), ValueError, r"demands_s=\[0, 0\] .*; give"),
        (lambda: th.DynamicBatching(2000, 5e-3, 5e-4, 32), ValueError, "=2000 .* 1523.81 .*; lower"),
        (lambda: th.DynamicBatching(1, 0, 0, 4), ValueError, "fixed_s=0 and per_item_s=0 .*; give"),
        (lambda: th.DynamicBatching(1, 1, 1, 0), ValueError, "cap=0 .*; give"),
        (lambda: th.largest_rate(th.MM1(1, 0.2), 0.1), ValueError, "target_s=0.1 .*; allow more time"),
        (lambda: th.largest_rate(th.MM1(1, 0.2), 1, "sojourn"), ValueError, "quantity='sojourn' .*; give"),
        (lambda: th.largest_rate(th.MG1(1, 0.2, 2), 1, p=0.99), TypeError, "p=0.99 .*MG1.*; leave p out"),
        (lambda: th.largest_rate(th.MachineRepairman(1, 1, 1), 2), TypeError, "model=Mach.*; give"),
        (lambda: th.smallest_servers(9, 1, 1), ValueError, "target_s=1 .* exceed 1 s; allow"),
        (lambda: th.smallest_servers(9, 1, 4.6, p=0.99), ValueError, "target_s=4.6 .* 4.60517 s; allow"),
        (lambda: th.mm1_transient_wait(1, 0.2, 0), ValueError, "customers=0 .*; give"),
        (lambda: th.mm1_wait_autocorrelation_time(1), ValueError, "utilisation=1 .*; give"),
        (lambda: th.fan_out_probability(0, 0.1), ValueError, "tasks=0 .*; give"),
        (lambda: th.fan_out_quantile(3, 2, 0.5), TypeError, "task_quantile=3 .*; give"),
    ],
)
def test_bad_input_gets_one_sentence(call, error, says):
    with pytest.raises(error, match=f"^.*{says}.*\\.$") as caught:
        call()
    assert "\n" not in str(caught.value) and ". " not in str(caught.value)


def test_import_is_light():
    code = "import sys, labsupport.queueing.theory; print([m for m in sys.modules if m.startswith('scipy')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
