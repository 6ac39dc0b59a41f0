"""Opening result files: as text, line by line, or as one JSON document; every complaint is one sentence."""

import csv
import json
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import numpy as np

WHOLE_LIMIT_BYTES = 1 << 30
_AGAIN = "get the file again, or export it once more from the tool that wrote it"


def wrong(path, problem, remedy=_AGAIN):
    """The ValueError that says what is wrong with a file, in one sentence, however long what it quotes is."""
    problem = " ".join(problem.split())
    return ValueError(f"{path}: {problem if len(problem) <= 240 else f'{problem:.240}…'}; {remedy}.")


def need_file(path):
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} is no file; check the path.")
    return path


def head(path, size=1 << 16):
    """The first characters of a text file; ValueError for an empty or a binary one."""
    with open(need_file(path), "rb") as file:
        raw = file.read(size)
    if b"\0" in raw or raw.startswith((b"\x1f\x8b", b"PK\3\4")):
        raise wrong(path, "it is not text", "unpack it first if it is compressed")
    text = raw.decode("utf-8-sig", errors="replace").lstrip()
    if not text:
        raise wrong(path, "it is empty")
    return text


def lines(path):
    """(number, line) of the lines of a text file that hold anything, one at a time."""
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield number, line


def json_lines(path):
    """(number, object) for a file of JSON lines, one at a time."""
    for number, line in lines(path):
        try:
            row = json.loads(line)
        except (json.JSONDecodeError, RecursionError):
            raise wrong(
                path, f"line {number} is no complete JSON: the file is cut short or damaged"
            ) from None
        if not isinstance(row, dict):
            raise wrong(path, f"line {number} is no JSON object")
        yield number, row


def whole_json(path):
    """A file that is one JSON document, which has to be loaded as a whole (about five times its size)."""
    size = Path(path).stat().st_size
    if size > WHOLE_LIMIT_BYTES:
        raise wrong(
            path,
            f"it is one JSON document of {size / 1e9:.1f} GB, which would have to be loaded whole",
            "make the tool write fewer requests per file",
        )
    try:
        return json.loads(Path(path).read_text(encoding="utf-8-sig", errors="replace"))
    except json.JSONDecodeError as problem:
        raise wrong(path, f"the JSON breaks off or is damaged at line {problem.lineno}") from None
    except RecursionError:
        raise wrong(path, "its JSON is nested too deeply to be a result file") from None


def csv_rows(path):
    """(header, iterator of (line number, fields)) of a CSV file with a header; rows are read one at a time."""

    def rows(width=None):
        with open(path, encoding="utf-8-sig", errors="replace", newline="") as file:
            reader = csv.reader(file)
            for fields in reader:
                if not fields:
                    continue
                width = len(fields) if width is None else width
                if len(fields) != width:
                    raise wrong(path, f"line {reader.line_num} has {len(fields)} of {width} fields")
                yield reader.line_num, fields

    first = rows()
    header = [name.strip() for name in next(first)[1]]
    first.close()
    return header, islice(rows(), 1, None)


@contextmanager
def one_sentence(path, tool):
    """Turns whatever goes wrong in reading odd content into one sentence about the file."""
    try:
        with np.errstate(all="ignore"):  # what is impossible is refused by the log
            yield
    except (LookupError, TypeError, AttributeError, ArithmeticError, csv.Error) as problem:
        what = f"{type(problem).__name__}: {problem}".replace("\n", " ")
        raise wrong(
            path, f"it looks like a result of {tool}, but a field is missing or odd ({what:.120})"
        ) from None
    except ValueError as problem:
        if str(problem).startswith(str(path)):
            raise
        what = " ".join(str(problem).split())
        raise wrong(
            path, f"it looks like a result of {tool}, but its values are impossible ({what:.200})"
        ) from None
