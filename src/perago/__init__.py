"""Perago: a typed Python worker runtime that makes data tasks safe."""

__version__ = "0.1.0"
