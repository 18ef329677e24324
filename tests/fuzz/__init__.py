"""Damages the input of every reader and looks for a crash, a hang, a wrong answer or an error that is not typed.

    python -m tests.fuzz --seconds 60 [--seed N] [--target NAME] [--case I]

damage.py makes a case from (seed, target, number), so that a case is told by three words; targets.py says what is read;
runner.py reads it in child processes, which a crash may take along.
"""
