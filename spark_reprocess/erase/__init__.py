"""The verb ``erase``: messages leave the archive for good, with what quotes them."""
