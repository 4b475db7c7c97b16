"""Everything in this repository that is made from something else in it."""
