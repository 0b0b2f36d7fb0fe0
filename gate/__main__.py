"""`python -m gate` is the command `gate`."""

from gate.cli import main

main()
