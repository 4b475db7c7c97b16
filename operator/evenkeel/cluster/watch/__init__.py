"""Lists and watches objects, and keeps the newest version of each."""
