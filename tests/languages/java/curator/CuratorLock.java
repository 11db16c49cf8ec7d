import java.nio.file.Path;
import java.util.concurrent.TimeUnit;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.RetryOneTime;

/**
 * Locks with Curator.
 *
 * <pre>
 *   CuratorLock hold  KIND ADDRESS PATH                       hold until the input ends
 *   CuratorLock turns KIND ADDRESS PATH FOLDER WORKERS TURNS  take turns, each noted in FOLDER
 * </pre>
 *
 * KIND is mutex, read, write, or rw, which reads and writes by turns.
 */
public final class CuratorLock {
    private static final int SESSION_MS = 60_000;

    private CuratorLock() {}

    public static void main(String[] given) throws Exception {
        String kind = given[1];
        String path = given[3];
        try (CuratorFramework client = connect(given[2])) {
            if (given[0].equals("hold")) {
                hold(lock(client, kind, path));
            } else {
                turns(client, given);
            }
        }
    }

    private static CuratorFramework connect(String address) throws InterruptedException {
        CuratorFramework client = CuratorFrameworkFactory.newClient(
                address, SESSION_MS, SESSION_MS, new RetryOneTime(1000));
        client.start();
        client.blockUntilConnected();
        return client;
    }

    private static InterProcessMutex lock(CuratorFramework client, String kind, String path) {
        InterProcessReadWriteLock both = new InterProcessReadWriteLock(client, path);
        switch (kind) {
            case "mutex":
                return new InterProcessMutex(client, path);
            case "read":
                return both.readLock();
            default:
                return both.writeLock();
        }
    }

    private static void hold(InterProcessMutex lock) throws Exception {
        lock.acquire();
        Register.say("held");
        lock.release();
    }

    private static void turns(CuratorFramework client, String[] given) throws Exception {
        Path folder = Path.of(given[4]);
        int workers = Integer.parseInt(given[5]);
        Register.say("ready");
        Register.together(workers, who -> takeTurns(client, given, folder, who));
    }

    private static void takeTurns(
            CuratorFramework client, String[] given, Path folder, String who) throws Exception {
        String kind = given[1];
        String path = given[3];
        int count = Integer.parseInt(given[6]);
        for (int number = 0; number < count; number++) {
            boolean reads = kind.equals("rw") && number % 2 == 0;
            String asked = kind.equals("rw") ? (reads ? "read" : "write") : kind;
            InterProcessMutex lock = lock(client, asked, path);
            if (!lock.acquire(60, TimeUnit.SECONDS)) {
                throw new IllegalStateException(who + " waited for a minute");
            }
            if (reads) {
                Register.read(folder, who + "-" + number);
            } else {
                Register.record(folder, who, czxid(client, lock));
            }
            lock.release();
        }
    }

    /** What the node of the holder was created by, which our engine calls the fence. */
    private static long czxid(CuratorFramework client, InterProcessMutex lock) throws Exception {
        String first = lock.getParticipantNodes().iterator().next();
        return client.checkExists().forPath(first).getCzxid();
    }
}
