"""``python -m hockeystick``: the command line."""

from hockeystick.cli import main

if __name__ == "__main__":
    main()
