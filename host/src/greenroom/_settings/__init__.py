"""The settings of a host: layers of tables, each value with its origin, checked before anything uses it."""
