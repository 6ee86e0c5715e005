"""Proofs that a store keeps what it acknowledged: kills, power cuts, failing system calls and damage, on anybody's machine.

`torture` is the command, ``python -m rmqcore.testing.torture DIR``; the other modules are its parts, which the tests of this
project use too. But for `served_broker`: a broker for tests of applications, which the pytest plugin gives to a test. The
package sits beside the command line and may import everything below; nothing imports it.
"""
