"""`qlab serve` and `qlab load`: the server and the generators from a shell. Imports what it needs when it runs."""

LAWS = ("deterministic", "exponential", "gamma", "lognormal", "hyperexponential")


def add_serve_arguments(parser):
    """The arguments of `serve`."""
    parser.add_argument(
        "--mean", type=float, default=0.0, metavar="S", help="mean service time in s (default: 0)"
    )
    parser.add_argument("--law", choices=LAWS, default="exponential", help="law of the service time")
    parser.add_argument(
        "--scv", type=float, metavar="C", help="its SCV, for gamma, lognormal, hyperexponential"
    )
    parser.add_argument(
        "--concurrency", type=int, default=1, metavar="C", help="requests served at the same time"
    )
    parser.add_argument(
        "--token", type=float, default=0.0, metavar="S", help="s per further token of a completion"
    )
    parser.add_argument("--stall", type=float, default=0.0, metavar="S", help="length of a stall in s")
    parser.add_argument("--stall-every", type=float, default=10.0, metavar="S", help="s from stall to stall")
    parser.add_argument(
        "--stall-at",
        type=float,
        metavar="S",
        help="s from the first request to the first stall (default: half of that)",
    )
    parser.add_argument("--port", type=int, default=8080, help="port on 127.0.0.1; 0: any free one")
    parser.add_argument("--seed", type=int, default=0, help="of the service times")


def serve(args):
    """Serve until interrupted."""
    from labsupport.loadtest.server_process import behaviour, need_packages

    need_packages()
    from labsupport.loadtest import server
    from labsupport.queueing.simulate import Stalls

    told = behaviour(
        _law(args) if args.mean else 0.0,
        args.concurrency,
        token_s=args.token,
        stalls=Stalls(args.stall, args.stall_every, args.stall_at) if args.stall else None,
        seed=args.seed,
    )
    server.run(told, args.port, lambda url: print(f"{url} (end with Ctrl-C)", flush=True))


def _law(args):
    from labsupport.queueing import workload

    if args.law in ("deterministic", "exponential"):
        if args.scv is not None:
            raise ValueError(f"--scv is fixed for the {args.law} law; leave it out or choose another --law.")
        return getattr(workload, args.law)(args.mean)
    if args.scv is None:
        raise ValueError(f"the {args.law} law needs --scv, its squared coefficient of variation.")
    return getattr(workload, args.law)(args.mean, args.scv)


def add_load_arguments(parser):
    """The arguments of `load`."""
    parser.add_argument("url", help="address of the server, such as http://127.0.0.1:8080")
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument(
        "--rate", type=float, metavar="R", help="open: R requests per second, whatever the server does"
    )
    kind.add_argument("--users", type=int, metavar="N", help="closed: N users who wait for their answers")
    parser.add_argument(
        "--duration", type=float, default=30.0, metavar="S", help="how long to send (default: 30 s)"
    )
    parser.add_argument("--think", type=float, metavar="S", help="closed: mean think time in s, exponential")
    parser.add_argument(
        "--clockwork", action="store_true", help="open: equal intervals instead of Poisson arrivals"
    )
    parser.add_argument("--cap", type=int, metavar="N", help="open: at most N requests in flight")
    parser.add_argument(
        "--when-full", choices=("queue", "skip", "drop"), help="open: what becomes of a request above the cap"
    )
    parser.add_argument(
        "--timeout", type=float, default=60.0, metavar="S", help="give a request up after S seconds"
    )
    parser.add_argument("--tokens", type=int, metavar="N", help="ask for completions of N tokens, streamed")
    parser.add_argument("--model", default="queueing-lab", help="their model, as the server calls it")
    parser.add_argument("--seed", type=int, default=0, help="of arrivals and think times")
    parser.add_argument("--csv", metavar="FILE", help="write one line per request, times in s")


def load(args):
    """Run the load, print what was measured; 1 when the run was cut short."""
    from labsupport.loadtest.session import run

    log = run(_open(args) if args.rate is not None else _closed(args))
    print(report(log, args.url))
    if args.csv:
        write_csv(log, args.csv)
    return int(log.partial)


def _open(args):
    import numpy as np

    from labsupport.loadtest.generators import OpenLoop
    from labsupport.queueing.workload import poisson

    if args.think is not None:
        raise ValueError("--think belongs to --users: an open load does not wait for answers.")
    if args.when_full and not args.cap:
        raise ValueError("--when-full needs --cap, the largest number of requests in flight.")
    if not (args.rate > 0 and args.duration > 0 and args.rate * args.duration >= 1):
        raise ValueError(
            f"--rate {args.rate:g} for --duration {args.duration:g} s sends no request; give more."
        )
    if args.clockwork:
        intended = np.arange(int(args.rate * args.duration)) / args.rate
    else:
        rng = np.random.default_rng(args.seed)
        n = args.rate * args.duration
        intended = poisson(rng, args.rate, int(n + 6 * n**0.5 + 20))  # six standard deviations above the mean
        intended = intended[intended < args.duration]
    return OpenLoop(
        args.url,
        intended,
        cap=args.cap,
        when_full=args.when_full or "queue",
        timeout_s=args.timeout,
        output_tokens=args.tokens,
        model=args.model,
    )


def _closed(args):
    from labsupport.loadtest.generators import ClosedLoop
    from labsupport.queueing.workload import exponential

    for name in ("cap", "when_full", "clockwork"):
        if getattr(args, name):
            raise ValueError(f"--{name.replace('_', '-')} belongs to --rate: users wait for their answers.")
    return ClosedLoop(
        args.url,
        args.users,
        args.duration,
        exponential(args.think) if args.think else 0.0,
        timeout_s=args.timeout,
        output_tokens=args.tokens,
        model=args.model,
        seed=args.seed,
    )


def report(log, url):
    """What a load test found, as lines of text, with the moment at which each clock was started."""
    import numpy as np

    from labsupport.queueing.statistics import mean_batches, quantile

    good = log.ok
    lines = [f"{url}: {log.summary()}"]
    if not good.any():
        return lines[0]
    last = log.finish[good].max()
    lines.append(f"throughput  {good.sum() / (last - log.arrival[0]):.4g} /s of good answers")
    quantities = [("response time in ms, from the actual send", log.response)]
    quantities.append(("response time in ms, from the intended send", log.response_from_intended))
    if log.first_token is not None:
        quantities.append(("TTFT in ms, from the actual send", log.ttft))
        quantities.append(("TPOT in ms", log.tpot))
    for title, values in quantities:
        values = 1e3 * values[good & ~np.isnan(values)]
        if len(values):
            lines += [title, f"  mean  {mean_batches(values)}"]
            lines += [f"  P{100 * p:.0f}   {quantile(values, p)}" for p in (0.5, 0.95, 0.99)]
    lines.append(
        "Quantile intervals take requests as independent; those of one queue are not: repeat the run."
    )
    return "\n".join(lines)


def write_csv(log, path):
    """One line per request, a column for each that the log has, times in s."""
    import csv
    from dataclasses import fields

    columns = {f.name: c for f in fields(log) if (c := getattr(log, f.name)) is not None}
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*(c.tolist() for c in columns.values()), strict=True))
