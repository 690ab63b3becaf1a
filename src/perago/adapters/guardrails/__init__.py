"""Guardrails: one set of rules, over files that are in a directory or elsewhere."""

from perago.adapters.guardrails.local import LocalGuardrailEvaluator

__all__ = ["LocalGuardrailEvaluator"]
