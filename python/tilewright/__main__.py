"""python -m tilewright: the command line, with its exit code."""
import subprocess
import sys

from . import command

if __name__ == "__main__":
    sys.exit(subprocess.call([*command(), *sys.argv[1:]]))
