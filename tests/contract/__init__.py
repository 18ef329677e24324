"""What every backend of the store promises, written against the protocols of hdfsstore.state.provider only."""
