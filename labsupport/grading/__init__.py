"""Making exercises from solutions, and grading what comes back."""
