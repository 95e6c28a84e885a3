"""The checkpoints that the project ships, and the recipe that makes them."""
