"""
A client for RocketMQ's remoting protocol, in Python alone.

`mq_client.blocking.Client` is for programs with threads or without, `mq_client.aio.Client` for
asyncio. Both have the operations of `mq_client.operations`, under the same names. Everything
outside these two packages is pure: bytes in, values out.
"""
