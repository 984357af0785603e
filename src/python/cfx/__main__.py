"""python3 -m cfx SCRIPT [ARG...]: runs a script with torch meaning cfx.torch."""
import sys

from ._run import main

sys.exit(main(sys.argv[1:]))
