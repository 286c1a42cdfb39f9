"""The built function under ``sam local``: every event of ``events/``, and what it does to queues.

======================  ============================================================
``local_template``      the built template with the endpoint that a container needs
``engines`` *           who runs the function: Docker, or the Runtime API's emulator
``local_queues`` *      three queues on a server of this machine
``trial``               one event: invoke, then look at what arrived
``__main__`` *          the command line
======================  ============================================================

Those marked * touch processes or the network.
"""
