"""Check values before they are sent: the protocol must be able to represent them."""

INT32_MAX, INT64_MAX = (1 << 31) - 1, (1 << 63) - 1


def is_whole(value: object, least: int, most: int) -> bool:
    """Return whether the value is a whole number in this range. True and False are not numbers."""
    return type(value) is int and least <= value <= most
