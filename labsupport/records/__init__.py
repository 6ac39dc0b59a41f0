"""Readers for what real tools and clusters write."""
