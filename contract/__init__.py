"""What operator and jobs say to each other, typed once: the kinds, names and documents. No I/O."""
