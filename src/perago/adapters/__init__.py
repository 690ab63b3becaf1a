"""The ports on real technology: one package per technology, each the only place that imports it."""
