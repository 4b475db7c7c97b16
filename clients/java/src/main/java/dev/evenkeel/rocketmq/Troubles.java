package dev.evenkeel.rocketmq;

import java.util.HashMap;
import java.util.Map;
import java.util.logging.Logger;

/** Logs a problem when it is new, and again once a minute while it lasts. */
final class Troubles {
    private static final double SAY_AGAIN_SECONDS = 60.0;
    private static final Logger log = Logger.getLogger("dev.evenkeel.rocketmq");

    private final Map<Object, Double> saidAt = new HashMap<>();
    private final AwakeClock clock;

    Troubles(AwakeClock clock) {
        this.clock = clock;
    }

    /** Logs a problem of a subject, unless one was logged in the last minute. */
    synchronized void say(Object subject, String trouble) {
        double now = clock.now();
        if (now >= saidAt.getOrDefault(subject, Double.NEGATIVE_INFINITY) + SAY_AGAIN_SECONDS) {
            saidAt.put(subject, now);
            log.warning(trouble);
        }
    }

    synchronized void clear(Object subject) {
        saidAt.remove(subject);
    }
}
