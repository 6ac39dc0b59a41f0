"""Real traces: their published shape, what broken files get, and downloading with a checksum."""

import hashlib
import http.server
import threading

import numpy as np
import pytest

from labsupport import course
from labsupport.queueing import statistics as qs
from labsupport.queueing.requestlog import RequestLog
from labsupport.records import download, traces


def real(name):
    """Path of a real data file; the test is skipped where there is none."""
    path = course.data(name)
    if path is None:
        pytest.skip(f"{name} is not here: set QLAB_DATA to a folder that has it, or download it with fetch")
    return path


def sweep(scale):
    folder = "burstgpt_vllm_sweep"
    detail = real(f"{folder}/detail_log_scale{scale}_prompt500.json")
    return traces.burstgpt_sweep(detail, real(f"{folder}/vllm_log_scale{scale}_prompt500.csv"))


# --- the real files -----------------------------------------------------------------------------------------


# claim B12
@pytest.mark.parametrize(
    ("kind", "rows", "rate", "scv", "dispersion", "medians"),
    [
        ("conv", 19366, 5.53, 1.20, (1.4, 3.9, 16), (1020, 129)),
        ("code", 8819, 2.57, 173, (13, 72, 167), (1469, 13)),
    ],
)
def test_azure(kind, rows, rate, scv, dispersion, medians):
    trace = traces.azure(real(f"azure_2023/AzureLLMInferenceTrace_{kind}.csv"))
    assert len(trace) == rows and trace.arrival[0] == 0 and (trace.gaps >= 0).all()
    assert trace.rate == pytest.approx(rate, abs=0.005)
    assert qs.scv(trace.gaps) == pytest.approx(scv, rel=0.005)
    found = [qs.index_of_dispersion(trace.arrival, window) for window in (1, 10, 60)]
    assert [float(f"{x:.{2 if x < 100 else 3}g}") for x in found] == list(dispersion)
    assert (np.median(trace.prompt_tokens), np.median(trace.output_tokens)) == medians
    assert repr(trace).startswith("Trace(Azure 2023 con" if kind == "conv" else "Trace(Azure 2023 code: 8819")


# claim L8
def test_littles_law_on_a_real_trace():
    trace = traces.azure(real("azure_2023/AzureLLMInferenceTrace_conv.csv"))
    response = 0.2 + 0.03 * trace.output_tokens  # an assumed response time per request
    log = RequestLog(trace.arrival, trace.arrival, trace.arrival + response)
    rate = len(log) / log.finish.max()
    assert qs.time_average_in_system(log) == pytest.approx(rate * response.mean(), rel=1e-9)


def test_mooncake_stands_on_ticks():
    trace = traces.mooncake(real("mooncake_fast25/conversation_trace.jsonl"))
    assert len(trace) == 12031
    between_ticks = trace.gaps[trace.gaps > 0]
    assert (np.abs(between_ticks / 3 - np.round(between_ticks / 3)) < 0.002).all()
    assert qs.scv(trace.gaps) == pytest.approx(9.2, abs=0.05)
    moved = [trace.without_ticks(3, np.random.default_rng(seed)) for seed in range(20)]
    scvs = [qs.scv(one.gaps) for one in moved]
    assert abs(np.mean(scvs) - 1.02) < 4 * np.std(scvs, ddof=1) / np.sqrt(20) + 0.005
    assert sorted(moved[0].prompt_tokens) == sorted(trace.prompt_tokens)
    assert moved[0].rate == pytest.approx(trace.rate, rel=0.01)


@pytest.mark.parametrize(
    ("scale", "from_requests", "weighted", "plain", "with_waiting"),
    [(100, 20.7, 21.0, 31.1, 21.0), (500, 151.2, 137.2, 140.5, 151.5), (1000, 208.1, 176.5, 169.9, 208.1)],
)
def test_three_ways_to_count_who_is_inside(scale, from_requests, weighted, plain, with_waiting):
    log, gauge = sweep(scale)
    assert len(log) == 500 and log.arrival[0] == 0
    inside = 500 / log.finish.max() * log.response.mean()
    assert inside == pytest.approx(from_requests, abs=0.05)
    assert qs.time_average_in_system(log) == pytest.approx(inside, rel=1e-9)
    assert qs.time_weighted_mean(gauge.time, gauge.running) == pytest.approx(weighted, abs=0.05)
    assert gauge.running.mean() == pytest.approx(plain, abs=0.05)
    everyone = qs.time_weighted_mean(gauge.time, gauge.running + gauge.waiting)
    assert everyone == pytest.approx(with_waiting, abs=0.05)
    assert everyone == pytest.approx(inside, rel=0.02)  # two clocks and two programs agree
    assert 0 < gauge.kv_usage.max() < 1 and gauge.running.max() <= 256
    assert 0 <= gauge.time[0] < 1 and abs(gauge.time[-1] - log.finish.max()) < 1


def test_checksums_are_those_of_the_real_files():
    for name, (address, checksum) in download.FILES.items():
        assert address.startswith("https://raw.githubusercontent.com/")
        assert address.rsplit("/", 1)[1] == name.rsplit("/", 1)[1]
        assert hashlib.sha256(real(name).read_bytes()).hexdigest() == checksum


# --- made-up and broken files -------------------------------------------------------------------------------

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
ROW = "2023-11-16 18:17:03.9799600,4808,10\r\n"
DETAIL = '{"0": {"record_time": 9.0, "total_chunk_time": 3.0, "first_chunk_time": 0.5, "in_len": 7}}'
GAUGE = "timestamp,num_running,num_pending,gpu_kvcache_usage\n6.5,1,0,12.5\n9.5,0,0,0\n"


def test_small_files_by_hand(tmp_path):
    (tmp_path / "t.csv").write_text(AZURE + ROW.replace("03.9799600", "04.0799601") + ROW)
    trace = traces.azure(tmp_path / "t.csv")
    np.testing.assert_allclose(trace.arrival, [0, 0.1000001], rtol=1e-12)
    assert trace.rate == pytest.approx(1 / 0.1000001)
    with pytest.raises(ValueError, match="tick_s is 0"):
        trace.without_ticks(0, np.random.default_rng())
    (tmp_path / "d.json").write_text(DETAIL)
    (tmp_path / "g.csv").write_text(GAUGE)
    log, gauge = traces.burstgpt_sweep(tmp_path / "d.json", tmp_path / "g.csv")
    assert (log.arrival[0], log.ttft[0], log.finish[0], log.prompt_tokens[0]) == (0, 0.5, 3, 7)
    assert gauge.time.tolist() == [0.5, 3.5] and gauge.kv_usage.tolist() == [0.125, 0]


@pytest.mark.parametrize(
    ("reader", "text", "message"),
    [
        ("azure", "", "it is empty"),
        ("azure", AZURE, "a header but no rows"),
        ("azure", "a,b\n1,2\n", "no column 'TIMESTAMP', so it is not an Azure LLM inference trace"),
        ("azure", AZURE + ROW + "2023-11-16 18:17", "line 3 has 1 of 3 fields"),
        ("azure", AZURE + ROW.replace("18:17", "18.17"), "a timestamp cannot be read"),
        ("azure", AZURE + ",1,2\n", "row 1 has ''"),
        ("azure", AZURE + ROW.replace("-11-", "-13-"), "a timestamp cannot be read"),
        ("azure", AZURE + ROW.replace("4808", "many"), "something else than a number"),
        ("azure", AZURE + ROW + ROW.replace("4808", "-3"), "ContextTokens of row 2 is -3"),
        ("azure", b"\xff\xfe\x00", "it is not text"),
        (
            "mooncake",
            '{"timestamp": 0, "input_length": 5, "output_len',
            "line 1 is not a request with timestamp",
        ),
        (
            "mooncake",
            '{"timestamp": NaN, "input_length": 5, "output_length": 1}',
            "timestamp of row 1 is nan",
        ),
        ("mooncake", '{"timestamp": 0}', "line 1 is not a request"),
        ("mooncake", "[1, 2]", "line 1 is not a request"),
        ("detail", DETAIL[:60], "breaks off or is damaged at line 1"),
        ("detail", "{}", "it holds no request"),
        ("detail", '{"0": {"record_time": 9.0}}', "it is not a record of requests"),
        ("detail", "[]", "it is not a record of requests"),
        ("gauge", GAUGE[:-5], "line 3 has 2 of 4 fields"),
        ("gauge", GAUGE.replace("num_running", "busy"), "no column 'num_running'"),
    ],
)
def test_broken_files_get_one_sentence(tmp_path, reader, text, message):
    file = tmp_path / "file"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    (tmp_path / "d.json").write_text(DETAIL)
    read = {
        "azure": traces.azure,
        "mooncake": traces.mooncake,
        "detail": lambda path: traces.burstgpt_sweep(path, path),
        "gauge": lambda path: traces.burstgpt_sweep(tmp_path / "d.json", path),
    }[reader]
    with pytest.raises(ValueError, match=message) as caught:
        read(file)
    assert str(caught.value).startswith(str(file)) and "get the file again" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_file():
    with pytest.raises(FileNotFoundError, match="no/such.csv is no file; check the path"):
        traces.azure("no/such.csv")


# --- finding and downloading --------------------------------------------------------------------------------

NAME = "azure_2023/AzureLLMInferenceTrace_code.csv"


@pytest.fixture
def away(monkeypatch, tmp_path):
    """No data of one's own, an empty cache, and no proxy between the test and its own server."""
    monkeypatch.delenv("QLAB_DATA", raising=False)
    monkeypatch.setenv("QLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return tmp_path


@pytest.fixture
def server(away, monkeypatch):
    """A local web server in the place of GitHub: `answers` maps a path to the bytes sent."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            answer = Handler.answers.get(self.path)
            Handler.asked.append(self.path)
            self.send_response(404 if answer is None else 200)
            self.send_header("Content-Length", str(len(answer or b"") + Handler.missing))
            self.end_headers()
            self.wfile.write(answer or b"")

        def log_message(self, *args):
            pass

    Handler.answers, Handler.asked, Handler.missing = {"/code.csv": (AZURE + ROW).encode()}, [], 0
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        threading.Thread(target=httpd.serve_forever, args=(0.01,), daemon=True).start()
        checksum = hashlib.sha256(Handler.answers["/code.csv"]).hexdigest()
        address = f"http://127.0.0.1:{httpd.server_port}/code.csv"
        monkeypatch.setitem(download.FILES, NAME, (address, checksum))
        yield Handler
        httpd.shutdown()


def files_in(folder):
    return [path.name for path in folder.rglob("*") if path.is_file()]


def test_fetch_downloads_once_and_data_finds_it(server, away):
    assert course.data(NAME) is None
    path = download.fetch(NAME)
    assert len(traces.azure(path)) == 1
    assert course.data(NAME) == path == download.fetch(NAME)
    assert server.asked == ["/code.csv"]


def test_fetch_prefers_ones_own_copy(server, away, monkeypatch):
    own = away / "own" / NAME
    own.parent.mkdir(parents=True)
    own.write_text(AZURE + ROW + ROW)
    monkeypatch.setenv("QLAB_DATA", str(away / "own"))
    assert download.fetch(NAME) == course.data(NAME) == own and not server.asked


def test_a_damaged_cached_file_is_fetched_again(server, away):
    path = download.fetch(NAME)
    path.write_text("damaged")
    assert download.fetch(NAME).read_bytes() == server.answers["/code.csv"]


@pytest.mark.parametrize("fault", ["changed", "cut short", "gone", "offline"])
def test_a_failed_download_says_what_to_do_and_leaves_nothing(server, away, monkeypatch, fault):
    kind, message = ConnectionError, f"{NAME} could not be downloaded from http://127.0.0.1"
    if fault == "changed":
        server.answers["/code.csv"] += b"more"
        kind, message = ValueError, "its sha256 differs"
    elif fault == "cut short":
        server.missing = 10
    elif fault == "gone":
        server.answers.clear()
    else:
        _, checksum = download.FILES[NAME]
        monkeypatch.setitem(download.FILES, NAME, ("http://127.0.0.1:9/code.csv", checksum))
    with pytest.raises(kind, match=message) as caught:
        download.fetch(NAME)
    assert "\n" not in str(caught.value) and "try again" in str(caught.value)
    assert files_in(away / "cache") == [] and course.data(NAME) is None


def test_unknown_names(away, monkeypatch):
    with pytest.raises(ValueError, match="no public file 'azure'; choose one of azure_2023/"):
        download.fetch("azure")
    assert course.data("azure_2023") is None
    monkeypatch.setenv("QLAB_DATA", str(away / "nowhere"))
    with pytest.raises(ValueError, match="nowhere', which is no folder; correct or unset"):
        course.data(NAME)
