"""Recorded cases of a chat model that is served: see model.py, server.py,
traffic.py, writers.py and faults.py."""
