"""What Perago needs of the operating system: directories of its own, locks, processes.

Used by adapters and by the runtime alike. The standard library and psutil only.
"""
