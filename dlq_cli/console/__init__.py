"""The console: a web page on this machine with which a person handles an archive's dead letters."""
