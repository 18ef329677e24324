"""Which files make up a version of a store, and which versions a process has cached."""
