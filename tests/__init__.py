"""The tests of Perago; subfolders need no `__init__.py`."""
