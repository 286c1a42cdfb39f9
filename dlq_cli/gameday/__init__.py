"""``dlq gameday``: sends a test message through a live installation and watches each joint.

==============  =======================================================================
``joints``      a joint and its verdict; what was seen of the test message gives both; pure
``alarms``      the same for alarms, topics and the Spark job, of which nothing is sent; pure
``watch`` *     asks AWS, and the queues
``run``         one game day: sends, watches, cleans up
==============  =======================================================================

The one marked * makes the calls. Causes are found by the rules of ``dlq doctor``
(``dlq_cli.stack.rules``) wherever they know one.
"""
