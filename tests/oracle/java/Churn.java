// SPDX-License-Identifier: Apache-2.0
//
// A Java program whose classes live for some milliseconds. It runs on JDK 8 and later.
//
//	java Churn TRUTH KIND
//
// Turn N loads a class of its own, TurnN, with a loader of its own, runs its methods f_N and g_N until they are compiled, and drops it:
// a collection now and then frees the classes and their code, so that later ones take their memory. By KIND, a turn takes 4 ms (short)
// or 100 ms (long); or 20 ms, with frames of other sizes in each turn, four of them around g_N (sizes).
//
// TRUTH gets a record for each turn: when its methods began and ended to run (ns since 1970), and N: three 64-bit numbers.
import java.io.ByteArrayOutputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.lang.management.ManagementFactory;
import java.lang.reflect.Constructor;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.function.LongUnaryOperator;

public class Churn {
    static final int FIRST = 100000000; // in the names of the first template; twice that in those of the second, and so on

    static class Loader extends ClassLoader {
        Loader() {
            super(Churn.class.getClassLoader());
        }

        Class<?> define(String name, byte[] bytes) {
            return defineClass(name, bytes, 0, bytes.length);
        }
    }

    static byte[] template(int first) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        byte[] piece = new byte[4096];
        try (InputStream in = Churn.class.getResourceAsStream("Turn" + first + ".class")) {
            for (int n; (n = in.read(piece)) > 0;)
                out.write(piece, 0, n);
        }
        return out.toByteArray();
    }

    /* The template with another number, which has as many digits. */
    static byte[] of(byte[] template, int first, int n) {
        String text = new String(template, StandardCharsets.ISO_8859_1);
        return text.replace(Integer.toString(first), Integer.toString(n)).getBytes(StandardCharsets.ISO_8859_1);
    }

    static long now() {
        return System.nanoTime() + offset;
    }

    static long offset;

    /* A tick of the clock is seen late, never early. */
    static void findOffset() {
        offset = Long.MIN_VALUE;
        for (int i = 0; i < 50; i++) {
            long begin = System.currentTimeMillis(), ms;
            while ((ms = System.currentTimeMillis()) == begin)
                ;
            offset = Math.max(offset, ms * 1000000 - System.nanoTime());
        }
    }

    public static void main(String[] args) throws Exception {
        boolean sizes = args[1].equals("sizes");
        byte[][] templates = {template(FIRST), template(2 * FIRST), template(3 * FIRST), template(4 * FIRST)};
        long step = args[1].equals("long") ? 100000000 : sizes ? 20000000 : 4000000;
        ByteBuffer record = ByteBuffer.allocate(24).order(ByteOrder.LITTLE_ENDIAN);
        findOffset();
        System.out.println(ManagementFactory.getRuntimeMXBean().getName().split("@")[0]);
        try (FileOutputStream out = new FileOutputStream(args[0])) {
            for (int n = FIRST + 1;; n++) {
                int kind = sizes ? 1 + n % 3 : 0;
                Class<?> c = new Loader().define("Turn" + n, of(templates[kind], (kind + 1) * FIRST, n));
                Constructor<?> made = c.getConstructor();
                made.setAccessible(true); // another loader's class is in another package
                LongUnaryOperator turn = (LongUnaryOperator) made.newInstance();
                long begun = now();
                turn.applyAsLong(System.nanoTime() + step);
                record.clear();
                record.putLong(begun).putLong(now()).putLong(n);
                out.write(record.array());
                if (n % (sizes ? 10 : 50) == 0)
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

class Turn200000000 implements LongUnaryOperator {
    public Turn200000000() {
    }

    public long applyAsLong(long end) {
        return f_200000000(end);
    }

    static long f_200000000(long end) {
        long sum = 0;
        do
            sum += h_200000000(sum);
        while (System.nanoTime() - end < 0);
        return sum;
    }

    static long h_200000000(long n) {
        long sum, v0 = n + 0;
        sum = i_200000000(n);
        v0 += sum * 1;
        return sum + v0;
    }

    static long i_200000000(long n) {
        long sum, v0 = n + 0, v1 = n + 1, v2 = n + 2, v3 = n + 3, v4 = n + 4, v5 = n + 5, v6 = n + 6, v7 = n + 7, v8 = n + 8;
        sum = g_200000000(n);
        v0 += sum * 1;
        v1 += sum * 3;
        v2 += sum * 5;
        v3 += sum * 7;
        v4 += sum * 9;
        v5 += sum * 11;
        v6 += sum * 13;
        v7 += sum * 15;
        v8 += sum * 17;
        return sum + v0 + v1 + v2 + v3 + v4 + v5 + v6 + v7 + v8;
    }

    static long g_200000000(long n) {
        for (int i = 0; i < 200; i++)
            n = n * 31 + i;
        return n;
    }
}

class Turn300000000 implements LongUnaryOperator {
    public Turn300000000() {
    }

    public long applyAsLong(long end) {
        return f_300000000(end);
    }

    static long f_300000000(long end) {
        long sum = 0;
        do
            sum += h_300000000(sum);
        while (System.nanoTime() - end < 0);
        return sum;
    }

    static long h_300000000(long n) {
        long sum, v0 = n + 0, v1 = n + 1, v2 = n + 2, v3 = n + 3, v4 = n + 4, v5 = n + 5, v6 = n + 6, v7 = n + 7, v8 = n + 8, v9 = n + 9, v10 = n + 10, v11 = n + 11;
        sum = i_300000000(n);
        v0 += sum * 1;
        v1 += sum * 3;
        v2 += sum * 5;
        v3 += sum * 7;
        v4 += sum * 9;
        v5 += sum * 11;
        v6 += sum * 13;
        v7 += sum * 15;
        v8 += sum * 17;
        v9 += sum * 19;
        v10 += sum * 21;
        v11 += sum * 23;
        return sum + v0 + v1 + v2 + v3 + v4 + v5 + v6 + v7 + v8 + v9 + v10 + v11;
    }

    static long i_300000000(long n) {
        long sum, v0 = n + 0, v1 = n + 1, v2 = n + 2;
        sum = g_300000000(n);
        v0 += sum * 1;
        v1 += sum * 3;
        v2 += sum * 5;
        return sum + v0 + v1 + v2;
    }

    static long g_300000000(long n) {
        for (int i = 0; i < 200; i++)
            n = n * 31 + i;
        return n;
    }
}

class Turn400000000 implements LongUnaryOperator {
    public Turn400000000() {
    }

    public long applyAsLong(long end) {
        return f_400000000(end);
    }

    static long f_400000000(long end) {
        long sum = 0;
        do
            sum += h_400000000(sum);
        while (System.nanoTime() - end < 0);
        return sum;
    }

    static long h_400000000(long n) {
        long sum, v0 = n + 0, v1 = n + 1, v2 = n + 2, v3 = n + 3, v4 = n + 4;
        sum = i_400000000(n);
        v0 += sum * 1;
        v1 += sum * 3;
        v2 += sum * 5;
        v3 += sum * 7;
        v4 += sum * 9;
        return sum + v0 + v1 + v2 + v3 + v4;
    }

    static long i_400000000(long n) {
        long sum, v0 = n + 0, v1 = n + 1, v2 = n + 2, v3 = n + 3, v4 = n + 4, v5 = n + 5, v6 = n + 6, v7 = n + 7, v8 = n + 8, v9 = n + 9, v10 = n + 10, v11 = n + 11, v12 = n + 12, v13 = n + 13, v14 = n + 14, v15 = n + 15;
        sum = g_400000000(n);
        v0 += sum * 1;
        v1 += sum * 3;
        v2 += sum * 5;
        v3 += sum * 7;
        v4 += sum * 9;
        v5 += sum * 11;
        v6 += sum * 13;
        v7 += sum * 15;
        v8 += sum * 17;
        v9 += sum * 19;
        v10 += sum * 21;
        v11 += sum * 23;
        v12 += sum * 25;
        v13 += sum * 27;
        v14 += sum * 29;
        v15 += sum * 31;
        return sum + v0 + v1 + v2 + v3 + v4 + v5 + v6 + v7 + v8 + v9 + v10 + v11 + v12 + v13 + v14 + v15;
    }

    static long g_400000000(long n) {
        for (int i = 0; i < 200; i++)
            n = n * 31 + i;
        return n;
    }
}
