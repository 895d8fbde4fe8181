"""What is not a test: it runs where PyTorch and Flax are."""

collect_ignore = ["programs_in_frameworks.py"]
