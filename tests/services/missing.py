"""What says that a server cannot be had."""


class ServiceMissingError(Exception):
    """The server cannot be had on this machine; the message says what to install."""
