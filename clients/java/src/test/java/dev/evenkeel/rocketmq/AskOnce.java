package dev.evenkeel.rocketmq;

import java.io.IOException;
import java.net.URI;
import java.nio.file.Paths;
import java.util.Collections;

/** Sends one request and ends the session. Arguments: URL, token file, trusted certificates. */
public final class AskOnce {
    private AskOnce() {}

    public static void main(String[] args) throws RefusedException {
        Coordinator coordinator = new Coordinator(
                URI.create(args[0]), "shop/billing", "a b", Paths.get(args[1]), Paths.get(args[2]));
        try {
            Answer answer = coordinator.ask(new Ask("s", 1, 0, Collections.emptySet(), 0, "", 5));
            System.out.println("may read " + QueueIds.show(answer.grants));
            coordinator.leave("s");
        } catch (IOException error) {
            System.out.println("cannot ask: " + error);
        }
    }
}
