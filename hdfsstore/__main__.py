"""`python -m hdfsstore` is the command `hdfsstore`."""

from hdfsstore.cli import main

main()
