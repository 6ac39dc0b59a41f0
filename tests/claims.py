"""The numbers that the course must reproduce, each tied to one test by its id."""

import csv
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

TABLE = Path(__file__).with_name("claims.csv")


@dataclass(frozen=True)
class Claim:
    """One row of claims.csv; `numbers` are those in its `expected` column, in order."""

    id: str
    lesson: str
    quantity: str
    setting: str
    expected: str
    kind: str
    note: str

    @property
    def numbers(self) -> list[float]:
        return [float(text) for text in re.findall(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?", self.expected)]


def table() -> dict[str, Claim]:
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return {row["id"]: Claim(**row) for row in rows}


class Claims:
    """Collects the tests of one lesson's claims.

    Decorate a function of a Claim with `@claim("L1")`, one for each id, and end the module with
    `test_claim = claim.test()`: this fails at import when an id of the lesson has no test.
    """

    def __init__(self, lesson: str):
        self.rows = {key: row for key, row in table().items() if row.lesson == lesson}
        if not self.rows:
            raise ValueError(f"no claim belongs to lesson {lesson!r}; see the column `lesson` of claims.csv")
        self.checks = {}

    def __call__(self, *ids: str):
        def register(check):
            for key in ids:
                if key not in self.rows or key in self.checks:
                    raise ValueError(f"claim {key} is not one of this lesson's, or is tested twice")
                self.checks[key] = check
            return check

        return register

    def test(self):
        if missing := self.rows.keys() - self.checks.keys():
            raise ValueError(f"no test for the claims {', '.join(sorted(missing))}")

        @pytest.mark.parametrize("key", self.rows)
        def test_claim(key):
            self.checks[key](self.rows[key])

        return test_claim
