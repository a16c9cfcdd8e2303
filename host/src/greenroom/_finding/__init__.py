"""Finding plugins: what is installed or named by the settings, which of it may load, and importing one of them."""
