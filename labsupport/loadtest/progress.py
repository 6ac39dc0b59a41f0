"""A progress bar that shows in notebooks and terminals, drawn by the caller's thread a few times a second."""

import sys


class Progress:
    """A bar over `total_s` seconds; `close(text)` leaves `text` in its place."""

    def __init__(self, total_s, shown=True):
        self.total_s = total_s
        self._handle = self._terminal = None
        if shown and (kernel := _in_notebook()):
            self._handle = kernel.display(_Bar(0, "starting"), display_id=True)
        elif shown and sys.stderr.isatty():
            self._terminal = sys.stderr

    def update(self, elapsed_s, text):
        share = min(1.0, elapsed_s / self.total_s) if self.total_s else 1.0
        text = f"{min(elapsed_s, self.total_s):.0f} of {self.total_s:.0f} s, {text}"
        if self._handle:
            self._handle.update(_Bar(share, text))
        elif self._terminal:
            self._terminal.write(f"\r\x1b[K[{'#' * round(30 * share):<30}] {text}")
            self._terminal.flush()

    def close(self, text):
        if self._handle:
            self._handle.update(_Bar(None, text))
        elif self._terminal:
            self._terminal.write("\r\x1b[K")
            print(text, file=self._terminal)


class _Bar:
    """What a notebook shows; plain HTML, so it needs no widget and is still there in a saved page."""

    def __init__(self, share, text):
        self.share, self.text = share, text

    def __repr__(self):
        return self.text

    def _repr_html_(self):
        bar = (
            ""
            if self.share is None
            else f'<progress value="{self.share:.3f}" aria-label="progress"></progress> '
        )
        return f"<div>{bar}{self.text}</div>"


def _in_notebook():
    """IPython's display module if its front end shows HTML, else None."""
    interactive = sys.modules.get("IPython")
    shell = interactive and interactive.get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython import display

    return display
