"""The version of the host, read by the build and by `greenroom --version`."""

__version__ = "0.1.0"
