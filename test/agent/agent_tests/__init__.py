"""Tests of the agent; agent-test runs them."""
