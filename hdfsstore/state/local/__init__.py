"""The cache of images on a local disk, which all processes of a user on a host share."""
