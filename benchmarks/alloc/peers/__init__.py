"""Programs that play a script on somebody else's assignor."""
