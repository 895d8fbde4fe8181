"""What is not a test: it runs where PyTorch and Flax are."""

collect_ignore = ["blocks_in_frameworks.py", "programs_in_frameworks.py"]
