"""Random histories of stateful queries on a live Spark, with faults while they run, against a model.

    python -m tests.chaos --histories 500 [--seconds 60] [--seed N]     # make chaos
    python -m tests.chaos --replay SEED --lane local                # one history again
    python -m tests.chaos --places hdfs,minio                       # checkpoints there, while servers and links fail

A history is one checkpoint: input in several rounds, the query started on it again and again, and what its seed chose
to go wrong. When all input is read, each batch's output, as a sink that replaces its rows by batch id has them, the
rows that a sink which appends has, and the state are compared with a model in plain Python, which goes by the division
into batches that Spark's log tells.

functions.py holds the stateful functions and the model of them; query.py the query, its input and its sinks; check.py
what must be there; faults.py what goes wrong in tasks; deaths.py how drivers die; log.py reads Spark's log and sets it
back; storage.py says where checkpoints are, and starts servers; outages.py what goes wrong with those; history.py
chooses at random; killed.py has drivers that are processes and are killed; cases.py one case for each fault, for
tests/spark/test_stateful_faults.py; sessions.py starts Spark; campaign.py and __main__.py run many.
"""
