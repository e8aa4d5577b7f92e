"""Makers of the models in target/models; scripts/models runs them."""
