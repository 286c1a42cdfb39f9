"""The verb ``erase``: deletes messages from the archive, with what quotes them."""
