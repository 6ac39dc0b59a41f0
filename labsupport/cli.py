"""The command `qlab`: one function per subcommand, which imports what it needs when it runs."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from labsupport import __version__

EXAMPLE = """\
example:
  qlab lab 01                       open the first lesson in JupyterLab; move the slider, be surprised
  qlab check work/exercises/01_little.ipynb     what passes, what does not yet, and why
  qlab progress                     how far you are
"""

Run = Callable[[argparse.Namespace], int | None]
COMMANDS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], Run]]] = {}


def command(name: str, summary: str):
    """Register a subcommand: the function adds its arguments to the parser and returns what is to be run."""

    def register(define: Callable[[argparse.ArgumentParser], Run]):
        COMMANDS[name] = (summary, define)
        return define

    return register


def _add_address_arguments(parser: argparse.ArgumentParser) -> None:
    """Where a server of lessons listens, and whether a browser opens."""
    parser.add_argument("--port", type=int, help="port to listen on (default: first free one from 8888 on)")
    parser.add_argument("--ip", default="127.0.0.1", help="address to listen on (default: this machine only)")
    parser.add_argument("--no-browser", action="store_true", help="print the address and open no browser")


@command("lab", "open a lesson in JupyterLab")
def lab(parser: argparse.ArgumentParser) -> Run:
    parser.add_argument("lesson", nargs="?", help="number or name, such as 03; without it, open as you left")
    _add_address_arguments(parser)
    parser.add_argument(
        "--environment", action="store_true", help="start nothing: for a hub, make the copies and print what to set"
    )
    parser.epilog = "What follows -- goes to JupyterLab: qlab lab 03 -- --ServerApp.terminals_enabled=False"

    def run(args: argparse.Namespace) -> None:
        from labsupport import lab_server

        if args.environment:
            return lab_server.prepare()
        lab_server.serve(
            args.lesson, port=args.port, ip=args.ip, browser=not args.no_browser, options=args.after_dashes
        )

    return run


@command("slides", "show a lesson as slides in JupyterLab, or write slides that need no kernel")
def slides(parser: argparse.ArgumentParser) -> Run:
    parser.add_argument("lessons", nargs="*", metavar="LESSON", help="number or name, such as 03 (--static: all)")
    parser.add_argument("--static", action="store_true", help="start nothing: write HTML that works from disk")
    parser.add_argument("--out", default="slides", help="folder for --static (default: slides)")
    _add_address_arguments(parser)
    parser.epilog = "What follows -- goes to JupyterLab."

    def run(args: argparse.Namespace) -> None:
        if args.static:
            from labsupport.pages import slides as static

            return print(f"Open {static.build(args.out, args.lessons or None, say=print)} in a browser.")
        from labsupport import slides

        if len(args.lessons) != 1:
            raise ValueError(f"name one lesson to show, such as qlab slides 03; {len(args.lessons)} are named")
        slides.serve(
            args.lessons[0], port=args.port, ip=args.ip, browser=not args.no_browser, options=args.after_dashes
        )

    return run


@command("app", "show a lesson as an app, without its code")
def app(parser: argparse.ArgumentParser) -> Run:
    parser.add_argument("lesson", nargs="?", help="number or name, such as 03 (default: the first one)")
    _add_address_arguments(parser)
    parser.epilog = "What follows -- goes to Voilà: qlab app 03 -- --theme=dark"

    def run(args: argparse.Namespace) -> None:
        from labsupport import app

        app.serve(args.lesson, port=args.port, ip=args.ip, browser=not args.no_browser, options=args.after_dashes)

    return run


@command("site", "write the lessons as a site to read, which needs no kernel and no network")
def site(parser: argparse.ArgumentParser) -> Run:
    parser.add_argument("out", nargs="?", default="site", metavar="OUT", help="folder to write to (default: site)")

    def run(args: argparse.Namespace) -> None:
        from labsupport.pages import site

        print(f"Open {site.build(args.out, say=print).resolve()} in a browser.")

    return run


@command("exercises", "make exercises/ from solutions/")
def exercises(parser: argparse.ArgumentParser) -> Run:
    parser.add_argument("lessons", nargs="*", metavar="LESSON", help="numbers or names (default: all)")
    parser.add_argument("--check", action="store_true", help="change nothing; fail if any is out of date")

    def run(args: argparse.Namespace) -> int:
        from labsupport import course
        from labsupport.grading import make

        only = [course.stem(lesson) for lesson in args.lessons]
        if not args.check:
            made = make.build(course.root(), only)
            print(f"Made {len(made)} files in {course.root() / 'exercises'}.")
            return 0
        found = make.check(course.root(), only)
        good = "These exercises are up to date." if only else "All exercises are up to date."
        print(*found or [good], sep="\n", file=sys.stderr if found else sys.stdout)
        return 1 if found else 0

    return run


@command("check", "run the public checks of exercise files")
def check(parser: argparse.ArgumentParser) -> Run:
    parser.add_argument("files", nargs="+", metavar="FILE", help="an exercise, .ipynb or .py")

    def run(args: argparse.Namespace) -> int:
        from labsupport.lab.check import check_file

        worst = 0
        for file in args.files:
            if len(args.files) > 1:
                print(f"{file}:")
            report = check_file(file)
            report.show()
            worst = max(worst, report.status)
        return worst

    return run


@command("progress", "show which exercises are done")
def progress(parser: argparse.ArgumentParser) -> Run:
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--reset", action="store_true", help="forget all of it")
    choice.add_argument("--export", metavar="FILE", help="write it to a .json or .csv file")

    def run(args: argparse.Namespace) -> None:
        from labsupport.lab import progress

        if args.reset:
            progress.reset()
            print("All attempts and predictions are forgotten.")
        elif args.export:
            print(f"Written to {progress.export(args.export)}.")
        else:
            print(*progress.summary(), "", *progress.advice(), sep="\n")

    return run


@command("data", "download the real traces that the lessons use")
def data(parser: argparse.ArgumentParser) -> Run:
    def run(args: argparse.Namespace) -> None:
        from labsupport.records import download

        for name in download.FILES:
            print(download.fetch(name))

    return run


@command("audit", "say what may be concluded from result files of load tools")
def audit(parser: argparse.ArgumentParser) -> Run:
    from labsupport.audit import console

    console.add_arguments(parser)
    return console.run


@command("grade", "grade the submissions of a class")
def grade(parser: argparse.ArgumentParser) -> Run:
    from datetime import datetime

    parser.add_argument("lesson", help="number or name of the exercise, such as 01")
    parser.add_argument("submissions", metavar="SUBMISSIONS", help="folder or .zip with what was handed in")
    parser.add_argument("--out", default="grades", help="folder for the reports (default: grades)")
    parser.add_argument("--private", metavar="DIR", help="your own folder: roster.csv, salt, hidden cases")
    parser.add_argument("--roster", metavar="FILE", help="another list of students, as CSV")
    parser.add_argument("--solutions", metavar="DIR", help="folder of solutions (default: the course's)")
    parser.add_argument("--due", type=datetime.fromisoformat, help="for late days, such as 2025-03-01T18:00")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at once (default: cores)")
    parser.add_argument("--dask", metavar="ADDRESS", help="grade on this Dask cluster, such as tcp://host:8786")
    parser.add_argument("--cell-seconds", type=float, default=30, help="for a cell or question (default: 30)")
    parser.add_argument("--seconds", type=float, default=300, help="for a whole submission (default: 300)")
    parser.add_argument("--memory", type=float, default=3, metavar="GB", help="for a submission (default: 3)")
    parser.add_argument("--fresh", action="store_true", help="run again what has been run already")
    parser.add_argument("--unsafe-no-sandbox", action="store_true", help="only if you trust every submission")
    parser.epilog = "Run it again after an interruption or a corrected case: only what changed runs again."

    def run(args: argparse.Namespace) -> int:
        from labsupport.grading import console

        return console.grade(args)

    return run


@command("release", "make the hand-out of an exercise for a class")
def release(parser: argparse.ArgumentParser) -> Run:
    parser.add_argument("lesson", help="number or name of the exercise, such as 01")
    parser.add_argument("out", metavar="OUT", help="new folder or .zip for the hand-out")
    parser.add_argument("--private", metavar="DIR", help="your own folder: roster.csv, salt, hidden cases")
    parser.add_argument("--roster", metavar="FILE", help="list of students, as CSV: a folder and numbers for each")
    parser.add_argument("--same-numbers", action="store_true", help="the textbook's numbers for every student")
    parser.add_argument("--solutions", metavar="DIR", help="folder of solutions (default: the course's)")

    def run(args: argparse.Namespace) -> int:
        from labsupport.grading import console

        return console.release(args)

    return run


@command("feedback", "lay graded pages out as the submissions were, to hand them back")
def feedback(parser: argparse.ArgumentParser) -> Run:
    parser.add_argument("graded", metavar="GRADES", help="folder that qlab grade wrote to")
    parser.add_argument("to", metavar="OUT", help="new folder or .zip")

    def run(args: argparse.Namespace) -> int:
        from labsupport.grading import console

        return console.feedback(args)

    return run


@command("serve", "serve HTTP on loopback with a known law of service, stalls and tokens, for load tests")
def serve(parser: argparse.ArgumentParser) -> Run:
    from labsupport.loadtest import cli

    cli.add_serve_arguments(parser)
    return cli.serve


@command("load", "send an open or a closed load to a server and say what was measured")
def load(parser: argparse.ArgumentParser) -> Run:
    from labsupport.loadtest import cli

    cli.add_load_arguments(parser)
    return cli.load


class _Parser(argparse.ArgumentParser):
    """argparse whose complaints are one sentence."""

    def error(self, message: str):
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `qlab` with `arguments` (default: those of the process); returns the exit code."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a terminal may not have λ
    given = list(sys.argv[1:] if arguments is None else arguments)
    cut = given.index("--") if "--" in given else len(given)
    parser = _Parser(
        prog="qlab",
        description="Queueing Lab: queueing and performance evaluation for people who serve LLMs.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"Queueing Lab {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", parser_class=_Parser)
    for name, (summary, define) in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        subparser.set_defaults(run=define(subparser))
    args = parser.parse_args(given[:cut], argparse.Namespace(run=None, after_dashes=given[cut + 1 :]))
    if args.run is None:
        parser.print_help()
        return 0
    try:
        code = args.run(args) or 0
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output went away: `qlab progress | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ValueError, OSError, ImportError) as error:
        print(f"qlab: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
