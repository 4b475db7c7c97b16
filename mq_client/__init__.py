"""
A client for RocketMQ's remoting protocol, in Python alone.

`mq_client.blocking.Client` is for programs with threads or without, `mq_client.aio.Client` for
asyncio. Both can do the same, under the same names: what there is, is listed in
`mq_client.operations`. Everything but these two packages is pure: bytes in, values out.
"""
