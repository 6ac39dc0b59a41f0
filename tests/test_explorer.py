"""The explorer itself on a toy, then every explorer of every lesson at the ends of its controls."""

import importlib
import io
import sys

import numpy as np
import pytest
from PIL import Image

from labsupport import course
from labsupport.lab import Asked, Explorer, Table, choice, predict, progress, recall, slider, style
from labsupport.queueing import statistics


def toy(compute=None, **setting):
    def picture(figure):
        ax = figure.subplots()
        ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="x (s)", ylabel="y (s)")
        (line,) = ax.plot([], [], color=style.BLUE)

        def move(result):
            line.set_data([0, 1], [0, result])
            return f"A line that rises to {result:g}."

        return [line], move

    controls = [
        slider("load", "utilisation", "", 0.1, 0.9, 0.5, step=0.1),
        slider("customers", "customers", "", 10, 1000, 100, per_decade=3),
        choice("order", "order", {"first come": "fcfs", "shortest": "sjf"}),
    ]
    compute = compute or (lambda load, customers, order, seed: load + seed / 1000)
    return Explorer("toy", controls, compute, picture, sample=True, setting=setting)


def pixels(png):
    return np.asarray(Image.open(io.BytesIO(png)))


def pixels_rgb(png):
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))


def test_picture_and_alt_text_follow_a_control_and_come_back():
    e = toy()
    before, alt = e.png(), e.alt
    e.set(load=0.9)
    assert e.png() != before and e.alt == "A line that rises to 0.901." != alt
    e.reset()
    assert e.png() == before and e.alt == alt


def test_blitting_gives_the_pixels_of_a_fresh_drawing():
    moved = toy().set(load=0.9).set(load=0.2)
    assert np.array_equal(pixels(moved.png()), pixels(toy(load=0.2).png()))


def test_control_in_the_browser_moves_picture_field_and_slider():
    e = toy()
    e._sliders["load"].index = 7
    assert e.setting["load"] == 0.8 and e._fields["load"].value == 0.8 and "0.801" in e.alt
    e._fields["load"].value = 0.43  # between two positions: the exact value counts
    assert e.setting["load"] == 0.43 and e._sliders["load"].value == 0.4
    assert e.as_python == "toy(load=0.43)"


def test_typed_value_outside_the_range_is_refused_with_one_sentence():
    e = toy()
    e._fields["load"].value = 1.5
    assert "load must be within 0.1 to 0.9, got 1.5; choose a value in that range" in e._message.value
    assert e.setting["load"] == 0.5 == e._fields["load"].value


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"load": 2}, "load must be within 0.1 to 0.9, got 2"),
        ({"load": "high"}, "load must be a number, got 'high'"),
        ({"load": float("nan")}, "load must be within 0.1 to 0.9, got nan"),
        ({"order": "lifo"}, r"order must be one of \['fcfs', 'sjf'\], got 'lifo'"),
        ({"rate": 1}, "toy has no control 'rate'; choose from load, customers, order, seed"),
    ],
)
def test_bad_setting_raises_one_sentence_and_changes_nothing(setting, said):
    e = toy()
    with pytest.raises((ValueError, TypeError), match=said):
        e.set(**setting)
    assert e.setting == toy().setting


def test_new_sample_changes_only_the_seed():
    e = toy()
    new = next(b for b in e.children[-3].children if getattr(b, "description", "") == "New sample")
    new.click()
    assert e.setting == {**toy().setting, "seed": 2}


def test_error_in_a_computation_is_said_in_the_picture_of_the_same_size():
    def fails(load, **_):
        if load > 0.8:
            raise RuntimeError("the queue is on fire")
        return load

    e = toy(fails)
    size = pixels(e.png()).shape
    e._sliders["load"].value = 0.9
    assert e.alt == "This setting cannot be drawn: the queue is on fire"
    assert pixels(e.png()).shape == size
    with pytest.raises(RuntimeError, match="on fire"):
        e.set(load=0.9)
    assert e.set(load=0.5).error is None and e.alt.startswith("A line")


def test_saved_page_has_picture_alt_text_and_no_random_text():
    data, _ = toy()._repr_mimebundle_()
    assert data["text/plain"] == toy().alt
    assert f'alt="{toy().alt}"' in data["text/html"] and data["image/png"] == toy().png()
    assert "application/vnd.jupyter.widget-view+json" in data


def test_frames_hold_every_position_of_one_control():
    frames = toy(load=0.3).frames("load")
    assert frames.texts == tuple(f"0.{n}" for n in range(1, 10)) and frames.start == 2
    assert frames.alts[0] == "A line that rises to 0.101." and repr(frames) == toy(load=0.3).alt
    assert len(set(frames.pictures)) == len(set(frames.alts)) == 9
    assert "customers 100, order first come, sample 1" in frames.others


@pytest.mark.parametrize("at", [0, 4, 8])
def test_a_frame_shows_what_the_live_explorer_shows(at):
    frames = toy().frames()
    live = toy(load=round(0.1 + 0.1 * at, 9))
    assert (frames.label, frames.alts[at]) == ("utilisation", live.alt)
    few, all_colours = (pixels_rgb(png).astype(int) for png in (frames.pictures[at], live.png()))
    assert few.shape == all_colours.shape
    assert np.abs(few - all_colours).mean() < 0.5, "the few colours of a frame can be seen to differ"
    assert (few[0, 0] == 255).all(), "the ground of a frame is not white"


def test_frames_of_a_choice_and_of_a_value_between_two_positions():
    assert toy().frames("order").texts == ("first come", "shortest")
    choices = Explorer("toy", [toy().controls["load"], toy().controls["order"]], lambda load, order: load, toy()._picture,
                       framed="order")  # fmt: skip
    assert choices.frames().label == "order"
    between = toy(load=0.43).frames("load")
    assert between.texts[between.start] == "0.43" and len(between.pictures) == 10
    assert list(between.texts) == sorted(between.texts)
    with pytest.raises(ValueError, match="toy has no control 'rate'; choose from load, customers, order, seed"):
        toy().frames("rate")


def test_frames_of_a_fine_slider_are_thinned_and_keep_start_and_ends():
    fine = slider("load", "utilisation", "", 1, 1000, 100, step=1)
    frames = Explorer("toy", [fine], lambda load: load, toy()._picture).frames()
    assert len(frames.pictures) <= 102
    assert (frames.texts[0], frames.texts[frames.start], frames.texts[-1]) == ("1", "100", "1,000")


def test_frame_that_cannot_be_drawn_says_so():
    def fails(load, **_):
        if load > 0.8:
            raise RuntimeError("the queue is on fire")
        return load

    frames = toy(fails).frames()
    assert frames.alts[-1] == "This setting cannot be drawn: the queue is on fire"
    assert pixels_rgb(frames.pictures[-1]).shape == pixels_rgb(frames.pictures[0]).shape


def test_page_without_a_kernel_gets_frames_and_no_widget(monkeypatch):
    monkeypatch.setenv("QLAB_PAGES", "frames")
    data = toy()._repr_mimebundle_()
    assert set(data) == {"text/plain", "text/html"} and data["text/plain"] == toy().alt
    before_script = data["text/html"].partition("<template>")[0]
    assert before_script.count("<img") == 1 and data["text/html"].count("<img") == 9
    assert 'aria-valuetext="0.5"' in data["text/html"] and "http" not in data["text/html"]


def test_control_needs_a_step_and_a_start_it_has():
    with pytest.raises(ValueError, match="needs one of step, per_decade and values"):
        slider("load", "load", "", 0, 1, 0.5)
    with pytest.raises(ValueError, match="start of control 'order' is 'lifo'"):
        choice("order", "order", ["fcfs"], "lifo")


def test_positions_of_a_log_slider_stay_between_its_ends():
    values = slider("cap", "largest batch", "", 1, 128, 32, per_decade=20).values
    assert values[0] == 1 and values[-1] == 128 and 32 in values and len(values) > 25


def test_table_reads_the_same_as_text_and_html():
    t = Table(("system", "L"), (("M/M/1", 4.0), ("<b>", 1 / 3)), "No intervals: exact.")
    assert str(t) == "system  L\nM/M/1   4\n<b>     0.3333\nNo intervals: exact."
    assert 'white-space:nowrap">0.3333</td>' in t._repr_html_() and "&lt;b&gt;" in t._repr_html_()


def test_prediction_is_kept_and_shown_back():
    assert "not committed a prediction" in str(recall("99.none", 4.0, "GB"))
    box = predict("99.cache", "How much?", "GB")
    field, commit = box.children[1].children
    field.value = 10.0
    commit.click()
    assert progress.prediction("99.cache") == 10.0
    assert str(recall("99.cache", 42.9, "GB")) == (
        "You predicted 10 GB; the value is 42.9 GB. You were 4.3 times too low."
    )
    simulated = str(recall("99.cache", statistics.Estimate(42.9, 41.0, 45.0), "GB"))
    assert "42.9 GB (simulated, 95% interval 41 to 45). You were 4.3 times too low." in simulated


def test_what_was_recalled_follows_a_prediction_that_comes_later():
    """As when all cells run first: in a lesson as an app, and after "Run all"."""
    recalled = recall("99.later", 42.9, "GB")
    data, _ = recalled._repr_mimebundle_()
    assert "not committed a prediction" in data["text/plain"] and "widget-view" in "".join(data)
    field, commit = predict("99.later", "How much?", "GB").children[1].children
    field.value = 43.0
    commit.click()
    [(_, shown)] = sys.modules[recall.__module__]._shown["99.later"]
    assert "You predicted 43 GB; the value is 42.9 GB. That is within 5%." in shown.value
    assert str(recalled) in shown.value


def test_page_without_a_kernel_shows_questions_and_values_and_no_prediction(monkeypatch):
    progress.record_prediction("99.cache", 10.0)
    monkeypatch.setenv("QLAB_PAGES", "frames")
    two = Asked([predict("99.cache", "How <much>?", "GB"), predict("99.other", "How long?")])
    data = two._repr_mimebundle_()
    assert set(data) == {"text/plain", "text/html"}
    assert data["text/plain"] == "Predict. How <much>? (GB)\nPredict. How long?"
    assert "How &lt;much&gt;? (GB)" in data["text/html"] and "10" not in data["text/html"]
    assert str(recall("99.cache", 42.9, "GB")) == "The value is 42.9 GB."
    assert "qlab progress" in repr(progress.table()) and "99" not in repr(progress.table())


# -- every explorer of the course ---------------------------------------------------------------------


def explorers():
    for stem in course.stems():
        module = importlib.import_module(f"labsupport.{stem.partition('_')[2]}")
        assert module.EXPLORERS, f"lesson {stem} has no explorer"
        for make in module.EXPLORERS:
            yield pytest.param(make, id=f"{stem}.{make.__name__}")


@pytest.mark.parametrize("make", list(explorers()))
def test_explorer_draws_at_both_ends_of_every_control(make):
    e = make()
    first, alt, shape = e.png(), e.alt, pixels(e.png()).shape
    for name, control in e.controls.items():
        pictures = set()
        for value in (*control.values,) if control.options else (control.values[0], control.values[-1]):
            e.set(**{name: value})
            assert e.alt and pixels(e.png()).shape == shape
            pictures.add(e.png())
        assert len(pictures) > 1, f"{name} moves nothing"
        e.set(**{name: control.start})
    assert (e.png(), e.alt) == (first, alt)
    everything_low = {c.name: c.values[0] for c in e.controls.values()}
    everything_high = {c.name: c.values[-1] for c in e.controls.values()}
    e.set(**everything_low).set(**everything_high)


@pytest.mark.parametrize("make", list(explorers()))
def test_explorer_is_named_as_python_opens_it(make):
    e = make()
    assert e.as_python == f"{make.__module__.rpartition('.')[2]}.{make.__name__}()"
    assert 2 <= len(e.controls) <= 6 and e._canvas.width <= 900


def test_there_are_explorers():
    assert len(list(explorers())) > 0
