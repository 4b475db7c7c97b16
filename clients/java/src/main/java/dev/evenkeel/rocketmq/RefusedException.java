package dev.evenkeel.rocketmq;

/** The coordinator has refused a request. */
final class RefusedException extends Exception {
    private static final long serialVersionUID = 1;

    /** The reason in one word, for programs. */
    final String reason;

    RefusedException(String reason, String message) {
        super(message + " (" + reason + ")");
        this.reason = reason;
    }
}
