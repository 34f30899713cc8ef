"""From a config to a trained and evaluated run: training, evaluation, jobs, and the tables of the paper."""
