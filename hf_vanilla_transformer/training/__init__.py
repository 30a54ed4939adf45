"""Train a model: arguments, learning-rate schedule, the loop, checkpoints, and the whole run."""
