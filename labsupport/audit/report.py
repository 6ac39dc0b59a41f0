"""How an audit is shown: a table for the terminal, JSON, a page with pictures, and a one-page result sheet."""

import json
import math
import textwrap
from html import escape

from labsupport.audit.finding import BROKEN, DOUBTFUL, HOLDS, UNKNOWN
from labsupport.queueing.statistics import attainment, quantile

_MARK = {HOLDS: "holds", DOUBTFUL: "doubtful", BROKEN: "BROKEN", UNKNOWN: "can't check"}
_CLASS = {HOLDS: "holds", DOUBTFUL: "doubtful", BROKEN: "broken", UNKNOWN: "unknown"}
_SIGN = {HOLDS: "\u2713", DOUBTFUL: "?", BROKEN: "\u2717", UNKNOWN: "\u2013"}


def number(value):
    """A number of a finding as text."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) or (math.isfinite(value) and value == int(value) and abs(value) < 1e9):
        return str(int(value))
    return f"{value:.4g}"


def heading(audit):
    record = audit.record
    return f"{record.name or 'run'} ({record.tool})"


def _count(audit):
    return ", ".join(
        f"{len(audit.having(v))} {v}" for v in (BROKEN, DOUBTFUL, HOLDS, UNKNOWN) if audit.having(v)
    )


def _worst_first(audit):
    return sorted(audit, key=lambda finding: (BROKEN, DOUBTFUL, HOLDS, UNKNOWN).index(finding.verdict))


def text(audit, width=100, numbers=True):
    """The audit as lines of text, worst findings first."""
    lines = [f"{heading(audit)}: {_count(audit)}", ""]
    for finding in _worst_first(audit):
        lines.append(f"{_MARK[finding.verdict]:<12} {finding.title}")
        lines += textwrap.wrap(finding.reason, width, initial_indent=" " * 13, subsequent_indent=" " * 13)
        if numbers and finding.numbers:
            told = "; ".join(f"{name}: {number(value)}" for name, value in finding.numbers.items())
            lines += textwrap.wrap(told, width, initial_indent=" " * 13, subsequent_indent=" " * 15)
        lines.append(f"{'':<13}lesson {finding.lesson}")
    if audit.record.unknown:
        lines += ["", "What this file cannot tell:"]
        for sentence in audit.record.unknown:
            lines += textwrap.wrap(sentence, width, initial_indent="- ", subsequent_indent="  ")
    return "\n".join(lines)


def as_dict(audit):
    """The audit as plain dictionaries and lists; infinite and undefined numbers become text, as JSON has none."""

    def plain(value):
        return str(value) if isinstance(value, float) and not math.isfinite(value) else value

    return {
        "name": audit.record.name,
        "tool": audit.record.tool,
        "verdict": audit.worst,
        "slo_s": audit.slo,
        "findings": [
            {
                "check": finding.check,
                "title": finding.title,
                "verdict": finding.verdict,
                "numbers": {name: plain(value) for name, value in finding.numbers.items()},
                "reason": finding.reason,
                "lesson": finding.lesson,
            }
            for finding in audit
        ],
        "unknown": list(audit.record.unknown),
    }


def to_json(audits):
    """Several audits as JSON text: {"audits": [...]}."""
    return json.dumps(
        {"audits": [as_dict(audit) for audit in audits]}, indent=1, ensure_ascii=False, allow_nan=False
    )


def sheet(audit):
    """What may be said of the run on one page, as (what, value, remark) rows; nothing that a broken check forbids."""
    record, log = audit.record, audit.record.log
    claims = record.claims
    rows = [("Source", heading(audit), "")]
    if log is None or not len(log):
        rows.append(
            ("Requests", number(claims.requests) if claims.requests is not None else "unknown", "by the tool")
        )
        if claims.rate is not None:
            rows.append(("Throughput", f"{number(claims.rate)} /s", "by the tool, no interval possible"))
        for (name, p), value in sorted(claims.quantiles.items()):
            rows.append((f"P{100 * p:g} of {name}", f"{value:.4g} s", "by the tool, no interval possible"))
    else:
        ok = log.response[log.ok] if log.ok is not None else log.response
        failed = len(log) - len(ok)
        span = float(log.arrival[-1] - log.arrival[0])
        rows.append(("Requests", f"{len(log)} sent, {failed} failed or cut off", ""))
        rows.append(("Sent for", f"{span:.4g} s", f"{(len(log) - 1) / span:.4g} /s" if span > 0 else ""))
        steady = audit["stability"].verdict != BROKEN
        clock = "from the actual send" if log.intended is None else "from the intended send"
        begin = log.arrival if log.intended is None else log.intended
        response = log.finish - begin
        if log.ok is not None:
            response = response.copy()
            response[~log.ok] = math.inf
        for p in (0.5, 0.95, 0.99):
            if not steady:
                break
            estimate = quantile(response, p)
            told = str(estimate) if math.isfinite(estimate.value) else "infinite: too many failed"
            rows.append((f"P{100 * p:g} of the response time (s)", told, f"{clock}, failures infinite"))
        if not steady:
            rows.append(
                (
                    "Response time",
                    "none",
                    "the system filled up during the run; the number depends on its length",
                )
            )
        if audit["goodput"].verdict != UNKNOWN:
            limits = {
                k: v
                for k, v in audit.slo.items()
                if k == "response" or getattr(log, "first_token", None) is not None
            }
            limits = {k: v for k, v in limits.items() if k != "tpot" or log.output_tokens is not None}
            told = ", ".join(f"{name} within {limit:g} s" for name, limit in limits.items())
            rows.append(("SLO attainment", str(attainment(log, limits)), f"{told}; failures count as misses"))
        rows.append(("Intervals", "95%", "requests taken as independent: too short if they are not"))
    for verdict, what in ((BROKEN, "Do not quote"), (DOUBTFUL, "Quote with this remark")):
        rows += [(what, finding.title, finding.reason) for finding in audit.having(verdict)]
    return rows


def sheet_text(audit, width=100):
    """The result sheet as lines of text."""
    lines = [f"Result sheet: {heading(audit)}", ""]
    for what, value, remark in sheet(audit)[1:]:
        lines += textwrap.wrap(
            f"{what}: {value}{f' ({remark})' if remark else ''}",
            width,
            initial_indent="- ",
            subsequent_indent="  ",
        )
    return "\n".join(lines)


def table_html(audit):
    """The findings as an HTML table, worst first."""
    rows = []
    for finding in _worst_first(audit):
        told = "<br>".join(
            f"{escape(name)}: {escape(number(value))}" for name, value in finding.numbers.items()
        )
        rows.append(
            f'<tr class="{_CLASS[finding.verdict]}"><th scope="row">{escape(finding.title)}</th>'
            f"<td><b>{_SIGN[finding.verdict]} {escape(finding.verdict)}</b></td><td>{escape(finding.reason)}</td>"
            f"<td>{told}</td><td>{escape(finding.lesson)}</td></tr>"
        )
    return (
        f'<table class="findings"><caption>{escape(heading(audit))}: {escape(_count(audit))}</caption><thead><tr>'
        + "".join(
            f'<th scope="col">{name}</th>' for name in ("Check", "Verdict", "Reason", "Numbers", "Lesson")
        )
        + f"</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )


_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; color: #1A1A1A;
       background: white; overflow-wrap: break-word }
h1 { overflow-wrap: anywhere } img { max-width: 100% } figure { margin: 1.5rem 0 }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem } caption { text-align: left; font-weight: 600 }
th, td { border-bottom: 1px solid #D9D9D9; padding: 0.4rem; text-align: left; vertical-align: top }
.broken b { color: #A03E00 } .doubtful b { color: #7A5000 } .holds b { color: #006B4F } .unknown b { color: #555 }
@media (min-width: 50rem) { .findings td:nth-child(2) { white-space: nowrap } .findings td:nth-child(4) { width: 28% } }
@media (max-width: 50rem) {
  tr { display: block; border-bottom: 1px solid #888; padding: 0.5rem 0 } thead { display: none }
  th, td { display: block; border: 0; padding: 0.15rem 0 } td:empty { display: none }
}
@media print { section { break-after: page } }
"""


def html(audits):
    """A page of its own with the result sheet, the findings and pictures of each audit; needs no other file."""
    from labsupport.audit.pictures import pictures

    parts = []
    for audit in audits:
        rows = "".join(
            f'<tr><th scope="row">{escape(what)}</th><td>{escape(value)}</td><td>{escape(remark)}</td></tr>'
            for what, value, remark in sheet(audit)
        )
        figures = "".join(
            f'<figure><img alt="{escape(alt)}" src="data:image/png;base64,{data}"></figure>'
            for data, alt in pictures(audit)
        )
        unknown = "".join(f"<li>{escape(sentence)}</li>" for sentence in audit.record.unknown)
        parts.append(
            f"<section><h1>{escape(heading(audit))}</h1><h2>Result sheet</h2><table>{rows}</table></section>"
            f"<section><h2>Findings</h2>{table_html(audit)}"
            + (f"<h2>What the file cannot tell</h2><ul>{unknown}</ul>" if unknown else "")
            + f"{figures}</section>"
        )
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>Benchmark audit</title>'
        f"<style>{_STYLE}</style></head><body>{''.join(parts)}</body></html>"
    )
