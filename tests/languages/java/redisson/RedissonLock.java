import java.nio.file.Path;
import java.time.Duration;
import java.util.UUID;
import java.util.concurrent.TimeUnit;

import org.redisson.Redisson;
import org.redisson.api.RBucket;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/**
 * Locks with Redisson: by SET NX PX, as any program does, and by its own RLock.
 *
 * <pre>
 *   RedissonLock hold  ADDRESS NAME                       hold until the input ends
 *   RedissonLock turns ADDRESS NAME FOLDER WORKERS TURNS  take turns, each noted in FOLDER
 *   RedissonLock rlock ADDRESS NAME                       hold an RLock until the input ends
 * </pre>
 *
 * ADDRESS is host:port/database.
 */
public final class RedissonLock {
    private static final Duration TTL = Duration.ofSeconds(60);
    private static final long REST_MS = 2;

    private RedissonLock() {}

    public static void main(String[] given) throws Exception {
        String[] address = given[1].split("/");
        Config config = new Config();
        config.useSingleServer()
                .setAddress("redis://" + address[0])
                .setDatabase(Integer.parseInt(address[1]))
                .setConnectionMinimumIdleSize(1)
                .setConnectionPoolSize(8);
        RedissonClient client = Redisson.create(config);
        try {
            if (given[0].equals("hold")) {
                hold(client, given[2]);
            } else if (given[0].equals("rlock")) {
                holdTheirs(client, given[2]);
            } else {
                turns(client, given);
            }
        } finally {
            client.shutdown();
        }
    }

    private static void hold(RedissonClient client, String name) throws Exception {
        String token = acquire(client, name);
        Register.say("held");
        release(client, name, token);
    }

    private static void holdTheirs(RedissonClient client, String name) throws Exception {
        if (!client.getLock(name).tryLock(0, TTL.toMillis(), TimeUnit.MILLISECONDS)) {
            throw new IllegalStateException("the RLock is busy");
        }
        Register.say("held");
        client.getLock(name).unlock();
    }

    private static void turns(RedissonClient client, String[] given) throws Exception {
        Path folder = Path.of(given[3]);
        int count = Integer.parseInt(given[5]);
        Register.say("ready");
        Register.together(Integer.parseInt(given[4]), who -> {
            for (int number = 0; number < count; number++) {
                String token = acquire(client, given[2]);
                Register.record(folder, who, 0);
                release(client, given[2], token);
                Thread.sleep(REST_MS); // whoever polls without a break keeps everybody else out
            }
        });
    }

    private static String acquire(RedissonClient client, String name) throws InterruptedException {
        RBucket<String> key = client.getBucket(name, StringCodec.INSTANCE);
        String token = UUID.randomUUID().toString();
        while (!key.setIfAbsent(token, TTL)) {
            Thread.sleep(REST_MS);
        }
        return token;
    }

    private static void release(RedissonClient client, String name, String token) {
        RBucket<String> key = client.getBucket(name, StringCodec.INSTANCE);
        if (!key.compareAndSet(token, null)) {
            throw new IllegalStateException("the lock " + name + " was not ours any more");
        }
    }
}
