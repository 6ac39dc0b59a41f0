"""What ipywidgets leaves out for those who hear an explorer: names, values and the picture in words.

The handle of an ipywidgets slider has no name and its value is read out as a position, "45" for 0.5; the
Image widget has no alternative text. An ipywidgets HTML widget takes no script, but runs the `onerror` of an image: that
is how `SCRIPT` gets to the page, wherever widgets are shown, without an extension to install. Where a page forbids it,
the number field beside each slider has its name all the same, and the picture its title.
"""

from __future__ import annotations

import html

import ipywidgets as widgets

BEFORE = "An earlier picture"  # the title of an image that stands behind the current one

# The observer sees what it sets itself: `put` sets nothing twice.
SCRIPT = """
const mark = this;
const put = (element, name, value) => element.getAttribute(name) === value || element.setAttribute(name, value);
function speak(root) {
  for (const handle of root.querySelectorAll('.noUi-handle')) {
    const slider = handle.closest('.widget-slider');
    const [field, unit] = slider.parentElement.children;
    put(handle, 'aria-label', field.querySelector('label').textContent);
    put(handle, 'aria-valuetext', `${slider.querySelector('.widget-readout').textContent} ${unit.textContent}`.trim());
  }
  for (const image of root.querySelectorAll('img.widget-image')) {
    const behind = image.title === 'BEFORE';
    put(image, 'alt', behind ? '' : image.title);
    put(image, 'aria-hidden', String(behind));
  }
}
(function begin(tries) {
  const root = mark.closest('.qlab-explorer');
  if (root) {
    new MutationObserver(() => speak(root)).observe(
      root, {subtree: true, childList: true, attributeFilter: ['aria-valuetext', 'title']});
    speak(root);
  } else if (tries) setTimeout(begin, 100, tries - 1);
})(100);
""".replace("BEFORE", BEFORE)


def voice() -> widgets.HTML:
    """A widget without size that gives the explorer around it its names."""
    tag = f'<img alt="" hidden src="data:," onerror="{html.escape(SCRIPT)}">'
    return widgets.HTML(tag, layout=widgets.Layout(display="none"))


def alert(sentence: str, seen: bool = True) -> str:
    """HTML of a sentence that is read out as soon as it appears; not `seen` where a picture shows it already."""
    style = "" if seen else ' style="position:absolute;clip-path:inset(50%)"'
    return f'<span role="alert"{style}>{html.escape(sentence)}</span>'
