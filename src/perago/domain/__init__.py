"""The protocol of one attempt as pure values and functions.

Nothing in this package does I/O, reads a clock, logs, or imports a third-party package:
whatever is decided here can be tested exhaustively, and is (100 % branch coverage).
"""
