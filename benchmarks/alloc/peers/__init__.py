"""Programs that play a script on the assignors of other projects."""
