"""Settings that all tests share."""

from hypothesis import settings

# Speed is measured in bench/, on purpose; a shared machine's hiccup is no failure.
settings.register_profile("hdfsstore", deadline=None)
settings.load_profile("hdfsstore")
