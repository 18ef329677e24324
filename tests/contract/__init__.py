"""What every backend of the store promises, written against the protocols of hdfsstore.state.protocols only."""
