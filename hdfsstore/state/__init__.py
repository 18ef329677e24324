"""State stores: the files of a store's partition, and how a version is loaded from them."""
