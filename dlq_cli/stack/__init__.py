"""A live installation from the outside: examine it, pause it, resume it.

``dlq doctor``, ``dlq pause`` and ``dlq resume``.

==============  ==================================================================
``facts``       what was found, as values; a fact that could not be had is None
``rules``       what is wrong with the facts, and how to mend it; pure
``policies``    whether a resource policy lets a service of AWS do something; pure
``survey`` *    asks AWS for the facts
``trigger`` *   what feeds the function: off and on
``__main__`` *  the command line
==============  ==================================================================

Those marked * speak to AWS.
"""
