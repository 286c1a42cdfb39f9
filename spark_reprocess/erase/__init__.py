"""The verb ``erase``: deletes messages from the archive and from all that quotes them."""
