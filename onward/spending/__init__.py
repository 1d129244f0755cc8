"""What runs cost: told of one run, step by step, or summed over many."""
