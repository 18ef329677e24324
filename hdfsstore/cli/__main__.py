"""`python -m hdfsstore.cli` is the command `hdfsstore`."""

from hdfsstore.cli import main

main()
