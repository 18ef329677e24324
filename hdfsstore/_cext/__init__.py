"""The compiled codecs: built from cext/*.pyx, one module a file."""
