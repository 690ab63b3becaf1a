"""`python -m perago` is `perago`."""

from perago.cli import main

# Executors are spawned: they import this module under another name and must not run it.
if __name__ == "__main__":
    main()
