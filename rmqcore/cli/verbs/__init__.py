"""The verbs on one machine, a file for each: a verb takes arguments and returns an exit code.

Imports `cli.common` and the layers below the command line; no verb imports another.
"""
