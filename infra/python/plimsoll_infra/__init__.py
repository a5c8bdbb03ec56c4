"""Buckets and a load generator for Plimsoll."""
