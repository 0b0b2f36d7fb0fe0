# I would add the two numbers.
