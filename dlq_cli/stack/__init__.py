"""A live installation from the outside: what ``dlq doctor`` finds and says about it.

==============  ==================================================================
``facts``       what was found, as values; a fact that could not be had is None
``rules``       what is wrong with the facts, and how to fix it; pure
``survey``      asks AWS for the facts
``trial``       sends a test message through the installation
==============  ==================================================================
"""
