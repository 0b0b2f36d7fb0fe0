"""The outside world, one file each. Backends never import the engine, nor it them."""
