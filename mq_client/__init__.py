"""
A client for RocketMQ's remoting protocol, in pure Python.

`mq_client.blocking.Client` is for programs with threads or without, `mq_client.aio.Client` for
asyncio. Both have the operations of `mq_client.operations`, under the same names. Other modules do
no I/O, apart from the command line.
"""
