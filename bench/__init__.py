"""Benchmarks: `python -m bench [NAME ...]`. Each module has a `main()` that prints its results."""
