"""Starts a cell; kept tiny because a script is compiled anew at each start."""

import sys

sys.path.insert(0, "/opt/run")
import cell

program = cell.main()
program()
