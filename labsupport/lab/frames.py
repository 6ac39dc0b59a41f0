"""A picture with one slider that needs no kernel: every position drawn beforehand, switched by the browser.

One `<input type="range">` and a few lines of script: no widget library, no request. Without the script, the
picture of the start is there and no slider. The other pictures wait in a `<template>`, so that neither the
browser nor a screen reader has to do with them before the script takes them out.
"""

from __future__ import annotations

import base64
import html
import os
from dataclasses import dataclass

# All pictures lie in one cell of a grid, so nothing moves when another one is shown. A hidden one is out of
# the accessibility tree. `decoding=sync`: the browser shows the old picture until the new one is decoded.
SCRIPT = """
for (const box of document.querySelectorAll('.qlab-frames:not([data-ready])')) {
  const [bar, stack] = [box.querySelector('div'), box.querySelector('figure')];
  const [slider, said] = [bar.querySelector('input'), bar.querySelector('output')];
  let shown = stack.querySelector('img');
  const pictures = [...stack.querySelector('template').content.children];
  pictures.splice(slider.defaultValue, 0, shown);
  stack.append(...pictures);
  slider.addEventListener('input', () => {
    shown.style.visibility = 'hidden';
    shown = pictures[slider.value];
    shown.style.visibility = 'visible';
    said.value = shown.dataset.at;
    slider.setAttribute('aria-valuetext', shown.dataset.at);
  });
  // JupyterLab and slides have other uses for these keys.
  slider.addEventListener('keydown', key => /^(Arrow|Page|Home|End)/.test(key.key) && key.stopPropagation());
  bar.style.display = 'flex';
  box.dataset.ready = '';
}
"""


def wanted() -> bool:
    """Whether outputs are for a page without a kernel (QLAB_PAGES=frames), and not for JupyterLab."""
    return os.environ.get("QLAB_PAGES") == "frames"


@dataclass(frozen=True)
class Frames:
    """Pictures of one control of an explorer, one for each position.

    label : of the control; texts : what the slider says at each position, with its unit.
    pictures : PNG bytes; alts : what each picture shows; start : the position shown first.
    others : the setting of the other controls, in words.
    """

    label: str
    texts: tuple[str, ...]
    pictures: tuple[bytes, ...]
    alts: tuple[str, ...]
    start: int
    width: int
    height: int
    others: str = ""

    def __repr__(self):
        return self.alts[self.start]

    def _repr_html_(self) -> str:
        label, last, text = html.escape(self.label), len(self.pictures) - 1, html.escape(self.texts[self.start])
        rest = "".join(self._image(at) for at in range(len(self.pictures)) if at != self.start)
        room = max(map(len, self.texts))
        return (
            f'<div class="qlab-frames" style="max-width:{self.width}px">'
            '<div style="display:none;flex-wrap:wrap;gap:.2em 1em;align-items:center">'
            '<label style="display:flex;flex:1 1 24em;gap:1em;align-items:center">'
            f'<span style="flex:none;max-width:50%">{label}</span>'
            f'<input type="range" min="0" max="{last}" value="{self.start}" autocomplete="off"'
            f' aria-valuetext="{text}" style="flex:1;min-width:6em;margin:.6em 0"></label>'
            f'<output aria-live="off" style="min-width:{room}ch">{text}</output></div>'
            f'<div style="font-size:90%;margin:.2em 0">{html.escape(self.others)}</div>'
            f'<figure style="display:grid;margin:0">{self._image(self.start)}<template>{rest}</template></figure>'
            f"<script>{SCRIPT}</script></div>"
        )

    def _image(self, at: int) -> str:
        source = base64.b64encode(self.pictures[at]).decode()
        hidden = "" if at == self.start else ";visibility:hidden"
        return (
            f'<img alt="{html.escape(self.alts[at])}" data-at="{html.escape(self.texts[at])}" decoding="sync"'
            f' width="{self.width}" height="{self.height}"'
            f' style="grid-area:1/1;max-width:100%;height:auto{hidden}" src="data:image/png;base64,{source}">'
        )
