"""What is run in another environment is not imported here."""

collect_ignore = ["flax_models.py", "torch_models.py", "in_frameworks.py"]
