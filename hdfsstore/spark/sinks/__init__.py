"""Where the output of a batch goes: the formats of writeStream, and tables."""
