"""What `suites/convert.py` is made of: tests (`forms`), banks (`recipes`, `banks`), files (`files`)."""
