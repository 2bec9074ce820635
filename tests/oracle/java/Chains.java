// SPDX-License-Identifier: Apache-2.0
//
// Runs through situations, each of which is a chain of calls of a known shape, and spends its time in the innermost method. Writes what
// a profiler must see of each (the truth, in the form that ../python/chains.py has) before it begins.
//
//	java -XX:+UnlockDiagnosticVMOptions -XX:+ShowHiddenFrames Chains TRUTH
//
// A situation is run once while its innermost method looks at the stack: that is its chain. Methods s12_… and classes S12… belong to
// situation 12.
import java.io.File;
import java.io.FileWriter;
import java.io.IOException;
import java.io.PrintWriter;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.management.ManagementFactory;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.IntUnaryOperator;
import java.util.function.Supplier;
import java.util.regex.Pattern;
import java.util.stream.IntStream;

public class Chains {
    static final int ROUNDS = Integer.getInteger("rounds", 20000);
    static final int TIMES = Integer.getInteger("times", 1); // that a situation is performed at least
    static final int IN_A_THREAD = 50; // what a thread's beginning and end take is little beside
    static StackTraceElement[] observed, waiting; // of the thread that is in the leaf; of the first one meanwhile
    static Thread first;
    static boolean observing;
    static volatile int sink;

    interface Situation {
        int run();
    }

    interface Observer {
        int observe(int seed);
    }

    /* Several, so that no compiler inlines the call: HotSpot's tables say of the code before a call only what the call is inlined into. */
    static class ObserverA implements Observer {
        public int observe(int seed) { return see(new Throwable().getStackTrace(), seed); }
    }

    static class ObserverB implements Observer {
        public int observe(int seed) { return see(new Throwable().getStackTrace(), seed); }
    }

    static class ObserverC implements Observer {
        public int observe(int seed) { return see(new Throwable().getStackTrace(), seed); }
    }

    static final Observer[] observers = {new ObserverA(), new ObserverB(), new ObserverC()};
    static int looks;

    static int see(StackTraceElement[] stack, int seed) {
        observed = Arrays.copyOfRange(stack, 1, stack.length);
        waiting = first.getStackTrace();
        return seed;
    }

    static int leaf(int seed) {
        if (observing)
            return observers[++looks % observers.length].observe(seed);
        int n = seed;
        for (int i = 0; i < ROUNDS; i++) {
            n = (n * 31 + i) % 1000003;
            if (n == 7)
                n++;
        }
        return n;
    }

    static int s01_recursion(int depth) {
        return depth == 0 ? leaf(1) : s01_recursion(depth - 1) + 1;
    }

    interface S02Shape {
        int area(int x);
    }

    static class S02Square implements S02Shape {
        public int area(int x) { return leaf(x) + 1; }
    }

    static class S02Circle implements S02Shape {
        public int area(int x) { return leaf(x) + 2; }
    }

    static class S02Line implements S02Shape {
        public int area(int x) { return leaf(x) + 3; }
    }

    static int s02_interfaces(S02Shape[] shapes) {
        int sum = 0;
        for (S02Shape shape : shapes)
            sum += shape.area(sum & 7);
        return sum;
    }

    static abstract class S03Base {
        int method(int x) { return inner(x + 1); }
        abstract int inner(int x);
    }

    static class S03Derived extends S03Base {
        int method(int x) { return super.method(x) + 1; }
        int inner(int x) { return leaf(x); }
    }

    static int s03_classes() {
        return new S03Derived().method(3);
    }

    static int s04_lambda() {
        int k = 4;
        IntUnaryOperator f = x -> leaf(x + k);
        return f.applyAsInt(1);
    }

    static int s05_method_reference() {
        IntUnaryOperator f = Chains::leaf;
        return f.applyAsInt(5);
    }

    static int s06_stream() {
        return IntStream.range(0, 2).map(x -> leaf(x)).sum();
    }

    static int s07_list() {
        int[] sum = new int[1];
        Arrays.asList(1, 2, 3).forEach(x -> sum[0] += leaf(x));
        return sum[0];
    }

    static int s08_sort() {
        Integer[] numbers = {3, 1};
        Arrays.sort(numbers, new Comparator<Integer>() {
            public int compare(Integer a, Integer b) { return leaf(a) == 0 ? 0 : a - b; }
        });
        return numbers[0];
    }

    static int s09_catch(int x) {
        try {
            return s09_throw(x);
        } catch (IllegalStateException e) {
            return leaf(e.getMessage().length());
        }
    }

    static int s09_throw(int x) {
        throw new IllegalStateException("situation 9: " + x);
    }

    static int s10_finally() {
        int n = 0;
        try {
            n = 10 / (n + 1);
        } finally {
            n += leaf(10);
        }
        return n;
    }

    static synchronized int s11_synchronized() {
        return leaf(11);
    }

    static final Object lock = new Object();

    static int s12_monitor() {
        synchronized (lock) {
            synchronized (observedLock) {
                return leaf(12);
            }
        }
    }

    static final Object observedLock = new Object();

    static class S13Outer {
        int base = 13;

        class Inner {
            int run() { return leaf(base); }
        }
    }

    static int s13_inner_class() {
        return new S13Outer().new Inner().run();
    }

    static class S14Static {
        static int value = leaf(14);
        static int get() { return leaf(value); }
    }

    static int s14_static() {
        return S14Static.get();
    }

    static class S15Constructor {
        final int value;
        S15Constructor(int x) { value = leaf(x); }
    }

    static int s15_constructor() {
        return new S15Constructor(15).value;
    }

    static class S16Numbers implements Iterator<Integer>, Iterable<Integer> {
        int n = 0;
        public boolean hasNext() { return n < 2; }
        public Integer next() { return leaf(n++); }
        public Iterator<Integer> iterator() { return this; }
    }

    static int s16_iterator() {
        int sum = 0;
        for (int n : new S16Numbers())
            sum += n;
        return sum;
    }

    enum S17Kind {
        ONE {
            int run(int x) { return leaf(x); }
        },
        TWO {
            int run(int x) { return leaf(x + 1); }
        };
        abstract int run(int x);
    }

    static int s17_enum() {
        int sum = 0;
        for (int i = 0; i < 2; i++)
            sum += S17Kind.valueOf("TWO").run(i);
        return sum;
    }

    static int s18_many_arguments(int a, long b, double c, float d, String e, int f, int g, int h, long i, double j) {
        return leaf((int) (a + b + c + d + e.length() + f + g + h + i + j));
    }

    static <T extends Supplier<Integer>> int s19_generic(T t) {
        return t.get() + 1;
    }

    static class S19Supplier implements Supplier<Integer> {
        public Integer get() { return leaf(19); }
    }

    static int s20_long_loop() {
        int sum = 0;
        for (int i = 0; i < 3; i++)
            sum += leaf(i) ^ sum;
        return sum;
    }

    static int s21_map() {
        Map<String, Integer> map = new TreeMap<>();
        return map.computeIfAbsent("a", k -> leaf(k.length()));
    }

    static int s22_mutual_a(int n) {
        return n == 0 ? leaf(22) : s22_mutual_b(n - 1);
    }

    static int s22_mutual_b(int n) {
        return n == 0 ? leaf(23) : s22_mutual_a(n - 1);
    }

    static int s23_array(int[][] m) {
        int sum = 0;
        for (int[] row : m)
            for (int x : row)
                sum += leaf(x);
        return sum;
    }

    static int s24_string(String s) {
        return s.chars().map(c -> leaf(c)).limit(2).sum();
    }

    static int s25_switch(String s) {
        switch (s) {
        case "one":
            return leaf(1);
        case "two":
            return leaf(2);
        default:
            return 0;
        }
    }

    static int s26_deep(int depth, long a, double b) {
        return depth == 0 ? leaf((int) (a + b)) : s26_deep(depth - 1, a + 1, b * 2) + 1;
    }

    static int s27_reflection() throws ReflectiveOperationException {
        return (Integer) reflected.invoke(null, 27);
    }

    static Method reflected;

    static int s28_method_handle() throws Throwable {
        return (int) handle.invokeExact(28);
    }

    static MethodHandle handle;

    static int s29_native(int x) {
        return s29_call(x) + 1;
    }

    static native int s29_call(int x); // chains.c: calls s29_back

    static int s29_back(int x) {
        return leaf(x);
    }

    static int s30_thread() throws InterruptedException {
        Thread t = new Thread(() -> s30_inside());
        t.start();
        t.join();
        return sink;
    }

    static void s30_inside() {
        for (int i = 0; i < IN_A_THREAD; i++)
            sink += leaf(30);
    }

    static int s31_virtual_thread() throws Exception {
        ((Thread) startVirtualThread.invoke(null, (Runnable) () -> s31_inside())).join();
        return sink;
    }

    static void s31_inside() {
        for (int i = 0; i < IN_A_THREAD; i++)
            sink += s31_recursion(5);
    }

    static int s31_recursion(int depth) {
        return depth == 0 ? leaf(31) : s31_recursion(depth - 1) + 1;
    }

    static Method startVirtualThread; // JDK 21 and later

    interface Throwing {
        int run() throws Throwable;
    }

    /* A situation that is on the stack of a thread of its own has the name of its thread's kind. */
    static final Map<String, String> threads = new LinkedHashMap<>();

    static Situation throwing(Throwing t) {
        return () -> {
            try {
                return t.run();
            } catch (Throwable e) {
                throw new IllegalStateException(e);
            }
        };
    }

    static void more(Map<String, Situation> s) throws ReflectiveOperationException {
        reflected = Chains.class.getDeclaredMethod("leaf", int.class);
        handle = MethodHandles.lookup().findStatic(Chains.class, "leaf", MethodType.methodType(int.class, int.class));
        s.put("s27_reflection", throwing(() -> s27_reflection()));
        s.put("s28_method_handle", throwing(() -> s28_method_handle()));
        s.put("s29_native", () -> s29_native(29));
        s.put("s30_thread", throwing(() -> s30_thread()));
        threads.put("s30_thread", "platform");
        try {
            startVirtualThread = Thread.class.getMethod("startVirtualThread", Runnable.class);
            s.put("s31_virtual_thread", throwing(() -> s31_virtual_thread()));
            threads.put("s31_virtual_thread", "virtual");
        } catch (NoSuchMethodException e) {
            startVirtualThread = null;
        }
        for (int i = 0; i < 300; i++) // what they go through is replaced when they have been called several times
            sink += s.get("s27_reflection").run() + s.get("s28_method_handle").run();
    }

    static Map<String, Situation> situations() throws ReflectiveOperationException {
        Map<String, Situation> s = new LinkedHashMap<>();
        S02Shape[] shapes = {new S02Square(), new S02Circle(), new S02Line()};
        int[][] matrix = {{1, 2}, {3}};
        s.put("s01_recursion", () -> s01_recursion(30));
        for (S02Shape shape : shapes)
            s.put("s02_" + shape.getClass().getSimpleName(), () -> s02_interfaces(new S02Shape[] {shape}));
        s.put("s03_classes", () -> s03_classes());
        s.put("s04_lambda", () -> s04_lambda());
        s.put("s05_method_reference", () -> s05_method_reference());
        s.put("s06_stream", () -> s06_stream());
        s.put("s07_list", () -> s07_list());
        s.put("s08_sort", () -> s08_sort());
        s.put("s09_catch", () -> s09_catch(9));
        s.put("s10_finally", () -> s10_finally());
        s.put("s11_synchronized", () -> s11_synchronized());
        s.put("s12_monitor", () -> s12_monitor());
        s.put("s13_inner_class", () -> s13_inner_class());
        s.put("s14_static", () -> s14_static());
        s.put("s15_constructor", () -> s15_constructor());
        s.put("s16_iterator", () -> s16_iterator());
        s.put("s17_enum", () -> s17_enum());
        s.put("s18_many_arguments", () -> s18_many_arguments(1, 2, 3.0, 4.0f, "five", 6, 7, 8, 9, 10.0));
        s.put("s19_generic", () -> s19_generic(new S19Supplier()));
        s.put("s20_long_loop", () -> s20_long_loop());
        s.put("s21_map", () -> s21_map());
        s.put("s22_mutual", () -> s22_mutual_a(7));
        s.put("s23_array", () -> s23_array(matrix));
        s.put("s24_string", () -> s24_string("abc"));
        s.put("s25_switch", () -> s25_switch("two"));
        s.put("s26_deep", () -> s26_deep(200, 1, 2));
        more(s);
        return s;
    }

    static int perform(Situation s) {
        return s.run();
    }

    public static void main(String[] args) throws IOException, ReflectiveOperationException {
        System.load(new File(new File(args[0]).getAbsoluteFile().getParent(), "libchains.so").getPath());
        first = Thread.currentThread();
        observing = true;
        Truth truth = new Truth();
        Map<String, Situation> all = situations();
        while (true) {
            for (Map.Entry<String, Situation> e : all.entrySet()) {
                long end = System.nanoTime() + 20000000;
                int times = observing || threads.containsKey(e.getKey()) ? 1 : TIMES;
                do {
                    sink += perform(e.getValue());
                } while (--times > 0 || (!observing && System.nanoTime() - end < 0));
                if (observing)
                    truth.add(e.getKey(), observed, waiting, threads.get(e.getKey()));
            }
            if (observing)
                truth.write(args[0]);
            observing = false;
        }
    }
}

class Truth {
    static final int NO_LINE = 1000000; // JDK 8: beyond, it is no line
    static final int LAST_LINE = 100000; // of every method, as the stack does not say where one ends
    final StringBuilder situations = new StringBuilder();
    final Set<String> own = new LinkedHashSet<>();

    static String quote(String s) {
        return '"' + s.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }

    /* The lines at which a method may be: of the innermost one all that it has. */
    String lines(StackTraceElement e, boolean leaf) {
        StringBuilder s = new StringBuilder("[");
        if (leaf)
            for (int i = 0; i < 14; i++)
                s.append(i == 0 ? "" : ",").append(LEAF_FIRST + i);
        else
            s.append(e.getLineNumber() >= NO_LINE ? 0 : Math.max(0, e.getLineNumber())); // hidden classes have none
        return s.append("]").toString();
    }

    /* What a hidden class has behind its name. */
    static final Pattern HIDDEN = Pattern.compile("[/+](0x[0-9a-f]{16}|[0-9]+)$");
    static final int LEAF_FIRST = leafFirst();

    static int leafFirst() {
        Chains.leaf(0);
        return Chains.observed[0].getLineNumber() - 2;
    }

    static String file(StackTraceElement e) {
        return isWithoutFile(e) ? "" : e.getFileName();
    }

    /* JDK 8 says so of classes that it makes at run time. */
    static boolean isWithoutFile(StackTraceElement e) {
        return e.getFileName() == null || e.getFileName().equals("<Unknown>");
    }

    void known(String file, String className, String method) {
        own.add("[" + quote(file) + "," + quote(className + "." + method) + ",0," + LAST_LINE + "]");
    }

    static String plain(StackTraceElement e) {
        return HIDDEN.matcher(e.getClassName()).replaceAll("");
    }

    void knownOne(StackTraceElement e) {
        known(file(e), plain(e), e.getMethodName());
        knownFile(e);
    }

    /* All methods of a file's classes: they may be on the way to those that it is here for. */
    void knownFile(StackTraceElement e) {
        try {
            Class<?> c = outermost(Class.forName(e.getClassName(), false, Truth.class.getClassLoader()));
            if (!isWithoutFile(e) && files.add(file(e)))
                knownClass(file(e), c);
        } catch (ClassNotFoundException | LinkageError x) {
            return; // hidden
        }
    }

    final Set<String> files = new LinkedHashSet<>();
    static final int ANONYMOUS_MAX = 30;

    void knownClass(String file, Class<?> c) throws ClassNotFoundException {
        for (Method m : c.getDeclaredMethods())
            known(file, c.getName(), m.getName());
        known(file, c.getName(), "<init>");
        known(file, c.getName(), "<clinit>");
        for (Class<?> inner : c.getDeclaredClasses())
            knownClass(file, inner);
        for (int i = 1; i < ANONYMOUS_MAX; i++) {
            try {
                knownClass(file, Class.forName(c.getName() + "$" + i, false, c.getClassLoader()));
            } catch (ClassNotFoundException x) {
                continue; // there is none of this number
            }
        }
    }

    static Class<?> outermost(Class<?> c) {
        while (c.getEnclosingClass() != null)
            c = c.getEnclosingClass();
        return c;
    }

    /* What a thread begins with, by files: the threads of a pool have their own. */
    static final String BEGINS = "{\"files\":[\"ForkJoinWorkerThread.java\",\"ForkJoinPool.java\",\"ForkJoinTask.java\",\"Continuation.java\"," +
        "\"VirtualThread.java\",\"Thread.java\"],\"optional\":false}";

    void add(String name, StackTraceElement[] stack, StackTraceElement[] waiting, String thread) {
        for (StackTraceElement e : waiting)
            knownOne(e);
        StringBuilder chain = new StringBuilder(thread == null ? "" : BEGINS);
        for (int i = stack.length - 1; i >= 0; i--) {
            StackTraceElement e = stack[i];
            String file = file(e), method = quote(plain(e) + "." + e.getMethodName());
            knownOne(e);
            if (thread != null && BEGINS.contains(quote(file)))
                continue;
            chain.append(chain.length() == 0 ? "" : ",")
                .append("{\"name\":").append(method)
                .append(",\"file\":").append(quote(file)).append(",\"first\":0,\"lines\":").append(lines(e, i == 0))
                .append(",\"leaf\":").append(i == 0).append(",\"direct\":false,\"between\":null,\"prepared\":true}");
        }
        situations.append(situations.length() == 0 ? "" : ",").append(quote(name)).append(":{\"thread\":").append(thread == null ? "null" : quote(thread)).append(",\"chain\":[").append(chain).append("]}");
    }

    void write(String path) throws IOException {
        String pid = ManagementFactory.getRuntimeMXBean().getName().split("@")[0];
        try (PrintWriter w = new PrintWriter(new FileWriter(path + ".children"))) {
            w.println();
        }
        try (PrintWriter w = new PrintWriter(new FileWriter(path + ".new"))) {
            w.println("{\"pid\":" + pid + ",\"language\":\"jvm\",\"loop\":\"Interpreter$\",\"native_threads\":true,\"own\":[" + String.join(",", own) + "],\"library\":{},\"situations\":{" + situations + "}}");
        }
        new File(path + ".new").renameTo(new File(path));
    }
}
