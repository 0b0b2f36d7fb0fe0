"""Starts the runner; kept tiny because a script is compiled anew at each start."""

import sys

sys.path.insert(0, "/opt/run")
import runner

program = runner.serve()
program()
