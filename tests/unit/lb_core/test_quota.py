"""The number of queues for each consumer when a zone has more than the average."""

from lb_core import quota


def test_a_zone_that_needs_more_choices_than_there_are_is_poured_alone() -> None:
    """Of 5 queues, 4 are bound to 2 of 4 consumers. These get 2 each; a third gets the last."""
    found = quota.level_by_zone([1, 1, 1, 1], [([0, 1], 4)], 5)
    assert found.base == [2, 2, 0, 0]
    assert [(list(choice.consumers), choice.count) for choice in found.choices if choice.count] == [
        ([2, 3], 1)
    ]
