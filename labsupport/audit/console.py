"""`qlab audit`: from files to a table, JSON, a page or a result sheet."""

from pathlib import Path


def add_arguments(parser):
    """The arguments of `audit`."""
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="result files of load tools, in the order of the runs"
    )
    parser.add_argument(
        "--slo",
        action="append",
        default=[],
        metavar="NAME=S",
        help="a limit in s, such as ttft=0.5; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--html", metavar="FILE", help="write a page with pictures")
    parser.add_argument("--sheet", action="store_true", help="print one page of what may be quoted")
    parser.add_argument("--brief", action="store_true", help="leave the numbers out of the table")
    parser.epilog = (
        "Exit code 0: nothing is broken; 1: a check is broken; 2: a file could not be read. "
        "Give all runs of a series, and an engine's gauge log, together."
    )


def limits(options):
    """{"ttft": 0.5} from ["ttft=0.5"]; a number alone is a limit on the response time."""
    found = {}
    for option in options:
        name, _, value = option.rpartition("=")
        try:
            found[name or "response"] = float(value)
        except ValueError:
            raise ValueError(f"--slo {option} is no limit; write it as ttft=0.5, in seconds.") from None
    return found or None


def run(args):
    from labsupport.audit import report
    from labsupport.audit.auditing import audit_files

    audits = audit_files(args.files, limits(args.slo))
    if args.html:
        Path(args.html).write_text(report.html(audits), encoding="utf-8")
    if args.json:
        print(report.to_json(audits))
    elif args.sheet:
        print("\n\n".join(report.sheet_text(audit) for audit in audits))
    else:
        print("\n\n".join(report.text(audit, numbers=not args.brief) for audit in audits))
        if args.html:
            print(f"\nWritten to {args.html}.")
    return int(any(audit.worst == "broken" for audit in audits))
