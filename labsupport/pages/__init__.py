"""Pages that need no kernel: lessons run beforehand, their explorers as frames."""
