"""How often Python looks for garbage that only a search can find.

By default it searches after every 700 new objects, and a batch of messages is thousands of objects
of which none is such garbage: they refer to each other in one direction only, and are gone with
their last reference. The searches took a fifth of the time.
"""

import gc

YOUNG_OBJECTS = 50_000
"""So many new ones before a search: about 10 MB at most, were all of them garbage."""


def search_rarely() -> None:
    """Search for garbage less often from now on, in this process."""
    gc.set_threshold(YOUNG_OBJECTS)
