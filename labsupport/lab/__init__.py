"""What a learner touches: explorers, predictions, exercise checks and the look of figures."""
