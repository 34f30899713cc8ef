"""From a config to a trained, measured run: training, evaluation, jobs, and the tables of the paper."""
