"""What brokers say unasked. All else that they ask is answered with "unknown" by the connection."""

from mq_client.frames import Frame

NOTIFY_CONSUMER_IDS_CHANGED = 40


def members_changed(frame: Frame) -> str | None:
    """Tell which group's members changed, if that is what the frame says."""
    is_notice = frame.code == NOTIFY_CONSUMER_IDS_CHANGED
    return frame.fields.get("consumerGroup") if is_notice else None
