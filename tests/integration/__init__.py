"""The store on real storage services."""
