import com.hazelcast.client.HazelcastClient;
import com.hazelcast.client.config.ClientConfig;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.cp.lock.FencedLock;
import java.io.BufferedReader;
import java.io.FileWriter;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Uses a FencedLock of Hazelcast's Java client: cluster name, address, name of the lock.
 *
 * With a folder and a number it takes so many turns: each adds one to the number in the file count,
 * and its fence to the file fences. Without, it obeys the lines lock, unlock and end on its input,
 * and answers each with a line: the fence, 0 where an unlock was done, or the name of an exception.
 */
public class Contender {
    public static void main(String[] arguments) throws Exception {
        ClientConfig config = new ClientConfig();
        config.setClusterName(arguments[0]);
        config.getNetworkConfig().addAddress(arguments[1]);
        HazelcastInstance client = HazelcastClient.newHazelcastClient(config);
        FencedLock lock = client.getCPSubsystem().getLock(arguments[2]);
        if (arguments.length > 3) {
            turns(lock, Path.of(arguments[3]), Integer.parseInt(arguments[4]));
        } else {
            obey(lock);
        }
        client.shutdown();
    }

    private static void turns(FencedLock lock, Path folder, int turns) throws Exception {
        for (int turn = 0; turn < turns; turn++) {
            long fence = lock.lockAndGetFence();
            try {
                Path count = folder.resolve("count");
                long before = Long.parseLong(Files.readString(count).trim());
                Files.writeString(count, (before + 1) + "\n");
                try (FileWriter fences = new FileWriter(folder.resolve("fences").toFile(), true)) {
                    fences.write(fence + "\n");
                }
            } finally {
                lock.unlock();
            }
        }
    }

    private static void obey(FencedLock lock) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        for (String line = lines.readLine(); line != null && !line.equals("end"); line = lines.readLine()) {
            try {
                long answer = 0;
                if (line.equals("lock")) {
                    answer = lock.lockAndGetFence();
                } else {
                    lock.unlock();
                }
                System.out.println(answer);
            } catch (RuntimeException exception) {
                System.out.println(exception.getClass().getSimpleName());
            }
        }
    }
}
