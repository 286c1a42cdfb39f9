"""The command line: ``cli`` reads it. Each verb is one module.

A verb's module has its help, its arguments, the call, and the answer that is printed. No body of a
message is printed, except by ``show`` where the user asks for it.
"""
