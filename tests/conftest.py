"""Settings that all tests share."""

from hypothesis import settings

# Speed is measured in bench/, on purpose; a shared machine's hiccup is no failure.
settings.register_profile("hdfsstore", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=20)  # make test-asan
settings.load_profile("hdfsstore")
