/**
 * One way to plan a group.
 *
 * @param <I> the peer's ordinary input, including its last result
 * @param <R> the peer's result
 */
interface Peer<I, R> {
    /** Build the input. Not timed. {@code previous} is null when there is no last result. */
    I input(Group group, R previous);

    /** Plan; only this is timed. Throws {@link TooSlow} when it notices that the time is over. */
    R plan(I input, long deadlineNanos) throws TooSlow;

    /** Run the further rounds that the protocol needs until the result is final. Not timed. */
    default R settled(Group group, R result) throws TooSlow {
        return result;
    }

    /** Return the owner of each queue: one row per topic, null for a queue without an owner. */
    String[][] owners(Group group, R result);

    /** One run took longer than it may. */
    final class TooSlow extends Exception {
        private static final long serialVersionUID = 1;
    }
}
