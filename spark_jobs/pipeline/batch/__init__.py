"""The engine Batch: one batch of all queues after another, each with a DataFrame."""
