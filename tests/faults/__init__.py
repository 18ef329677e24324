"""Kills a writer of a store at each call that writes, and at random, and looks whether every committed version is left.

    python -m tests.faults --seconds 60 [--seed N] [--formats 1|2|both]

shim.c counts the calls and kills, or lets them fail; shim.py builds and controls it; server.py forks processes with it
from one that has everything imported; history.py says what a writer does and what must then be there; writer.py does it
and checks it; campaign.py kills.
"""
