import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Stream;

/** The witness of exclusion, as in tests/languages/register.py: files that holders write in turn. */
final class Register {
    private Register() {}

    /** What one of several threads does. */
    interface Work {
        void run(String who) throws Exception;
    }

    /** Run the work of so many threads at once; the error of one is that of all. */
    static void together(int workers, Work work) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(workers);
        List<Future<Void>> jobs = new ArrayList<>();
        for (int number = 0; number < workers; number++) {
            String who = "java-" + number;
            Callable<Void> job = () -> {
                work.run(who);
                return null;
            };
            jobs.add(pool.submit(job));
        }
        pool.shutdown();
        for (Future<Void> job : jobs) {
            job.get();
        }
    }

    /**
     * Note one turn of the holder. The file "inside" can be made by one at a time; whoever finds it
     * there, or finds a reader, writes to "clashes".
     */
    static void record(Path folder, String who, long fence) throws IOException {
        Path inside = folder.resolve("inside");
        try {
            Files.createFile(inside);
        } catch (FileAlreadyExistsException met) {
            add(folder, "clashes", who);
            return;
        }
        try (Stream<Path> readers = Files.list(folder.resolve("readers"))) {
            if (readers.findAny().isPresent()) {
                add(folder, "clashes", who + " met a reader");
            }
        }
        Path count = folder.resolve("count");
        int before = Integer.parseInt(Files.readString(count).trim());
        Files.writeString(count, Integer.toString(before + 1));
        add(folder, "history", who + " " + fence);
        Files.delete(inside);
    }

    /** A reader must find no writer: each makes its mark before it looks for the other's. */
    static void read(Path folder, String who) throws IOException {
        Path mark = folder.resolve("readers").resolve(who);
        Files.createFile(mark);
        if (Files.exists(folder.resolve("inside"))) {
            add(folder, "clashes", who + " met a writer");
        }
        add(folder, "reads", who + " " + Files.readString(folder.resolve("count")).trim());
        Files.delete(mark);
    }

    private static void add(Path folder, String name, String line) throws IOException {
        Files.writeString(folder.resolve(name), line + "\n",
                StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }

    /** Print a word, and wait for a line or the end of the input. */
    static void say(String word) throws IOException {
        System.out.println(word);
        System.out.flush();
        int read = System.in.read();
        while (read != -1 && read != '\n') {
            read = System.in.read();
        }
    }
}
