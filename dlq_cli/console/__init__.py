"""The console: a web page on this machine with which a person handles an archive's dead letters.

``app`` wires routes and pages; ``security`` stands before all of them; ``site`` has what each page
needs; ``reading`` queries the archive.
"""
