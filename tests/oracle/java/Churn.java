// SPDX-License-Identifier: Apache-2.0
//
// A Java program whose classes live for some milliseconds. It runs on JDK 8 and later.
//
//	java Churn TRUTH KIND
//
// Turn N loads a class of its own, TurnN, with a loader of its own, runs its methods f_N and g_N until they are compiled, and drops it:
// a collection now and then frees the classes and their code, so that later ones take their memory. By KIND, a turn takes 4 ms (short)
// or 100 ms (long).
//
// TRUTH gets a record for each turn: when its methods began and ended to run (ns since 1970), and N: three 64-bit numbers.
import java.io.ByteArrayOutputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.function.LongUnaryOperator;

public class Churn {
    static final int FIRST = 100000000; // in the names of the template

    static class Loader extends ClassLoader {
        Loader() {
            super(Churn.class.getClassLoader());
        }

        Class<?> define(String name, byte[] bytes) {
            return defineClass(name, bytes, 0, bytes.length);
        }
    }

    static byte[] template() throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        byte[] piece = new byte[4096];
        try (InputStream in = Churn.class.getResourceAsStream("Turn" + FIRST + ".class")) {
            for (int n; (n = in.read(piece)) > 0;)
                out.write(piece, 0, n);
        }
        return out.toByteArray();
    }

    /* The template with another number, which has as many digits. */
    static byte[] of(byte[] template, int n) {
        String text = new String(template, StandardCharsets.ISO_8859_1);
        return text.replace(Integer.toString(FIRST), Integer.toString(n)).getBytes(StandardCharsets.ISO_8859_1);
    }

    static long now() {
        return System.nanoTime() + offset;
    }

    static long offset;

    static void findOffset() {
        long begin = System.currentTimeMillis(), ms;
        while ((ms = System.currentTimeMillis()) == begin)
            ;
        offset = ms * 1000000 - System.nanoTime();
    }

    public static void main(String[] args) throws Exception {
        byte[] template = template();
        long step = args[1].equals("long") ? 100000000 : 4000000;
        ByteBuffer record = ByteBuffer.allocate(24).order(ByteOrder.LITTLE_ENDIAN);
        findOffset();
        System.out.println(ManagementFactory.getRuntimeMXBean().getName().split("@")[0]);
        try (FileOutputStream out = new FileOutputStream(args[0])) {
            for (int n = FIRST + 1;; n++) {
                Class<?> c = new Loader().define("Turn" + n, of(template, n));
                LongUnaryOperator turn = (LongUnaryOperator) c.getConstructor().newInstance();
                long begun = now();
                turn.applyAsLong(System.nanoTime() + step);
                record.clear();
                record.putLong(begun).putLong(now()).putLong(n);
                out.write(record.array());
                if (n % 50 == 0)
                    System.gc();
            }
        }
    }
}

class Turn100000000 implements LongUnaryOperator {
    public Turn100000000() {
    }

    public long applyAsLong(long end) {
        return f_100000000(end);
    }

    static long f_100000000(long end) {
        long sum = 0;
        do
            sum += g_100000000(sum);
        while (System.nanoTime() - end < 0);
        return sum;
    }

    static long g_100000000(long n) {
        for (int i = 0; i < 200; i++)
            n = n * 31 + i;
        return n;
    }
}
