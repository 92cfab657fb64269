"""python -m nmtkit: the same as the command nmtkit."""

from nmtkit.cli import main

if __name__ == "__main__":
    main()
