"""Tests of the keeper of agents."""
