/** One way to move messages; only {@link #run} is measured. */
interface Work {
    default void prepare(Job job) throws Exception {}

    /** Return how many messages were moved. */
    int run(Job job) throws Exception;

    default void cleanUp() {}

    /** Shut the client down. */
    default void close() {}
}
