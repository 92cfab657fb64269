"""Hostile files: valid ones changed at random, read by the commands that read such files.

Whatever a file holds, a command must end in a result or in one line that says what is wrong: never
in a traceback, in a crash, without end, in memory that grows with a lie, or in a file written
outside its output folder.

An input is a function of the seed, its kind and its number; benchmarks/fuzz.py reads many.
"""
