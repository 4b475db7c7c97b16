"""Check that the protocol can carry a value, before anything is sent."""

INT32_MAX, INT64_MAX = (1 << 31) - 1, (1 << 63) - 1


def is_whole(value: object, least: int, most: int) -> bool:
    """Whether it is a whole number in this range. True and False are not."""
    return type(value) is int and least <= value <= most
