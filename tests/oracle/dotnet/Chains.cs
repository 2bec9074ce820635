// SPDX-License-Identifier: Apache-2.0
//
// Runs through situations, each of which is a chain of calls of a known shape, and spends its time in the innermost method. Writes what
// a profiler must see of each (the truth, in the form that ../python/chains.py has) once the runtime has compiled all of them as it will.
//
//	Chains TRUTH [LINES | KIND]
//
// With KIND (short, long), it is the program in Churn.cs.
//
// A situation's chain is what the runtime itself says of the stack (System.Diagnostics.StackTrace), asked by the innermost method. Methods
// S12_… and classes S12… belong to situation 12. In optimized code, what the compiler has to insert belongs to no line, and the runtime says
// it is the method's first one; elsewhere it knows an earlier line only. So a line is right if it is that of code that is not optimized, or
// the runtime's. A run of such code (DOTNET_JITMinOpts) writes LINES, which is not there yet, and ends; others read them.
using System;
using System.Collections;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Reflection;
using System.Reflection.Emit;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Text;
using System.Text.RegularExpressions;
using System.Threading;
using System.Threading.Tasks;

public static class Chains {
    const MethodImplOptions OwnFrame = MethodImplOptions.NoInlining;
    const int ShortRounds = 2000, Rounds = 400000; // of the leaf's loop: until the truth is written, and then
    const int SituationMs = 50;
    const int WarmRounds = 4, WarmMs = 100, WarmTimes = 400; // of each situation, before it is looked at: methods are compiled again while they run
    static int rounds = ShortRounds;
    static volatile bool observing;
    static StackFrame[] observed;
    static int sink;

    [MethodImpl(OwnFrame)]
    static int See(int seed) {
        observed = new StackTrace(1, true).GetFrames();
        return seed;
    }

    [MethodImpl(OwnFrame)]
    public static int Leaf(int seed) {
        if (observing)
            return See(seed) + 1;
        int n = seed;
        for (int i = 0; i < rounds; i++)
            n = (n * 31 + i) % 1000003;
        return n;
    }

    /* Where handlers are, of which the runtime says that they are where the exception came from. */
    public static readonly Dictionary<string, int> Handlers = new Dictionary<string, int>();

    static int Here(int x, [CallerMemberName] string method = "", [CallerLineNumber] int line = 0) {
        if (observing)
            Handlers["Chains." + method] = line;
        return x;
    }

    [MethodImpl(OwnFrame)]
    static int S01_Recursion(int depth) { return depth == 0 ? Leaf(1) : S01_Recursion(depth - 1) + 1; }

    interface S02Shape { int Area(int x); }

    class S02Square : S02Shape {
        [MethodImpl(OwnFrame)]
        public int Area(int x) { return Leaf(x) + 1; }
    }

    class S02Circle : S02Shape {
        [MethodImpl(OwnFrame)]
        int S02Shape.Area(int x) { return Leaf(x) + 2; }
    }

    static readonly S02Shape[] shapes = {new S02Circle()};

    [MethodImpl(OwnFrame)]
    static int S02_Interfaces() { return shapes[0].Area(3) + 1; }

    abstract class S03Base {
        [MethodImpl(OwnFrame)]
        public virtual int Method(int x) { return Inner(x + 1) + 1; }
        public abstract int Inner(int x);
    }

    class S03Derived : S03Base {
        [MethodImpl(OwnFrame)]
        public override int Method(int x) { return base.Method(x) + 1; }
        [MethodImpl(OwnFrame)]
        public override int Inner(int x) { return Leaf(x) + 1; }
    }

    [MethodImpl(OwnFrame)]
    static int S03_Classes() { return new S03Derived().Method(3) + 1; }

    [MethodImpl(OwnFrame)]
    static int S04_Lambda() {
        int k = sink & 3;
        Func<int, int> f = x => Leaf(x + k) + 1;
        return f(1) + 1;
    }

    [MethodImpl(OwnFrame)]
    static int S05_MethodGroup() {
        Func<int, int> f = Leaf;
        return f(5) + 1;
    }

    [MethodImpl(OwnFrame)]
    static int S06_Linq() { return Enumerable.Range(0, 3).Where(x => x == 1).Select(x => Leaf(x) & 0xff).Sum() + 1; }

    [MethodImpl(OwnFrame)]
    static int S07_List() {
        int sum = 0;
        new List<int> {1}.ForEach(x => sum += Leaf(x));
        return sum + 1;
    }

    class S08Order : IComparer<string> {
        [MethodImpl(OwnFrame)]
        public int Compare(string a, string b) { return Leaf(a.Length) == 0 ? 0 : string.CompareOrdinal(a, b); }
    }

    [MethodImpl(OwnFrame)]
    static int S08_Sort() {
        string[] words = {"b", "a"};
        Array.Sort(words, new S08Order());
        return words[0].Length + 1;
    }

    [MethodImpl(OwnFrame)]
    static int S09_Catch(int x) {
        try {
            return S09_Throw(x);
        } catch (InvalidOperationException e) {
            return Leaf(Here(e.HResult & 7)) + 1;
        }
    }

    [MethodImpl(OwnFrame)]
    static int S09_Throw(int x) { throw new InvalidOperationException(); }

    [MethodImpl(OwnFrame)]
    static int S10_Finally(int x) {
        int n = 1;
        try {
            n = 10 / (x + 1);
        } finally {
            n += Leaf(Here(10));
        }
        return n;
    }

    static readonly object gate = new object();

    [MethodImpl(OwnFrame)]
    static int S11_Lock() {
        lock (gate)
            return Leaf(11) + 1;
    }

    class S12Outer {
        public class Inner {
            public struct Deep {
                public int X;
                [MethodImpl(OwnFrame)]
                public int Run() { return Leaf(X) + 1; }
            }
        }
    }

    [MethodImpl(OwnFrame)]
    static int S12_Nested() { return new S12Outer.Inner.Deep {X = 12}.Run() + 1; }

    [MethodImpl(OwnFrame)]
    static int S13Generic<T>(T x) { return Leaf(x.GetHashCode() & 7) + 1; }

    [MethodImpl(OwnFrame)]
    static int S13_OfValues() { return S13Generic(13) + 1; }

    [MethodImpl(OwnFrame)]
    static int S14_OfReferences() { return S13Generic("x") + 1; }

    class S15Box<T, U> {
        readonly T x;
        public S15Box(T x) { this.x = x; }
        [MethodImpl(OwnFrame)]
        public int Run(Func<T, U, int> f) { return f(x, default(U)) + 1; }
    }

    [MethodImpl(OwnFrame)]
    static int S15_GenericClass() { return new S15Box<int, string>(15).Run((x, y) => Leaf(x) + 1) + 1; }

    [MethodImpl(OwnFrame)]
    static IEnumerable<int> S16Numbers() {
        yield return 1;
        yield return Leaf(2);
    }

    [MethodImpl(OwnFrame)]
    static int S16_Iterator() {
        int n = 0;
        foreach (int x in S16Numbers())
            n += x;
        return n;
    }

    [MethodImpl(OwnFrame)]
    static async Task<int> S17Inner(int x) {
        if (x == 100)
            await Task.Yield();
        return Leaf(x) + 1;
    }

    [MethodImpl(OwnFrame)]
    static async Task<int> S17Outer(int x) { return await S17Inner(x) + 1; }

    [MethodImpl(OwnFrame)]
    static int S17_Async() { return S17Outer(3).Result + 1; }

    [MethodImpl(OwnFrame)]
    public static int S18Invoked(int x) { return Leaf(x) + 1; }

    static readonly MethodInfo invoked = typeof(Chains).GetMethod("S18Invoked");

    [MethodImpl(OwnFrame)]
    static int S18_Reflection() { return (int)invoked.Invoke(null, new object[] {18}) + 1; }

    class S19Value {
        public int Property { [MethodImpl(OwnFrame)] get { return Leaf(19) + 1; } }
        [MethodImpl(OwnFrame)]
        public static S19Value operator +(S19Value a, int b) { Leaf(b); return a; }
        public int this[int i] { [MethodImpl(OwnFrame)] get { return Leaf(i) + 1; } }
    }

    [MethodImpl(OwnFrame)]
    static int S19_Property() { return new S19Value().Property + 1; }

    [MethodImpl(OwnFrame)]
    static int S20_Operator() { return (new S19Value() + 20).GetHashCode(); }

    [MethodImpl(OwnFrame)]
    static int S21_Indexer() { return new S19Value()[21] + 1; }

    [MethodImpl(OwnFrame)]
    static int S22_Regex() { return Regex.Replace("a1b", "[0-9]", m => Leaf(m.Length).ToString()).Length + 1; }

    class S23Key {
        [MethodImpl(OwnFrame)]
        public override int GetHashCode() { return Leaf(23) & 1; }
        public override bool Equals(object o) { return ReferenceEquals(this, o); }
    }

    [MethodImpl(OwnFrame)]
    static int S23_Dictionary() { return new Dictionary<object, int> {{new S23Key(), 1}}.Count + 1; }

    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    delegate int S24Compare(IntPtr a, IntPtr b);

    [DllImport("libc.so.6", EntryPoint = "qsort")]
    static extern void S24Qsort(int[] numbers, IntPtr n, IntPtr size, S24Compare compare);

    [MethodImpl(OwnFrame)]
    static int S24Order(IntPtr a, IntPtr b) { return Leaf(24) == 0 ? 0 : Marshal.ReadInt32(a) - Marshal.ReadInt32(b); }

    static readonly S24Compare order = S24Order;

    [MethodImpl(OwnFrame)]
    static int S24_NativeCallback() {
        int[] numbers = {2, 1};
        S24Qsort(numbers, (IntPtr)2, (IntPtr)4, order);
        return numbers[0] + 1;
    }

    static readonly Func<int, int> emitted = S25Emit();

    static Func<int, int> S25Emit() {
        var method = new DynamicMethod("S25Emitted", typeof(int), new[] {typeof(int)}, typeof(Chains).Module, true);
        ILGenerator il = method.GetILGenerator();
        il.Emit(OpCodes.Ldarg_0);
        il.Emit(OpCodes.Call, typeof(Chains).GetMethod("Leaf"));
        il.Emit(OpCodes.Ldc_I4_1);
        il.Emit(OpCodes.Add);
        il.Emit(OpCodes.Ret);
        return (Func<int, int>)method.CreateDelegate(typeof(Func<int, int>));
    }

    [MethodImpl(OwnFrame)]
    static int S25_DynamicMethod() { return emitted(25) + 1; }

    struct S26Large {
        public long A, B, C, D, E, F, G, H;
    }

    [MethodImpl(OwnFrame)]
    static S26Large S26Return(S26Large x, int a, int b, int c, int d, int e, int f, int g) {
        x.A += Leaf(a + b + c + d + e + f + g);
        return x;
    }

    [MethodImpl(OwnFrame)]
    static int S26_Arguments() { return (int)S26Return(new S26Large(), 1, 2, 3, 4, 5, 6, 7).A + 1; }

    [MethodImpl(OwnFrame)]
    static unsafe int S27_StackAllocation(int n) {
        byte* bytes = stackalloc byte[n];
        bytes[0] = (byte)Leaf(27);
        return bytes[0] + 1;
    }

    [MethodImpl(OwnFrame)]
    static bool S28Filter(int x) { return Leaf(x) != 1; }

    [MethodImpl(OwnFrame)]
    static int S28_ExceptionFilter(int x) {
        try {
            return S09_Throw(x);
        } catch (InvalidOperationException) when (S28Filter(28)) {
            return x + 1;
        }
    }

    [MethodImpl(OwnFrame)]
    static int S29_InTask() { return Task.Run(() => Leaf(29) + 1).Result + 1; }

    [MethodImpl(OwnFrame)]
    static int S30_InThread() {
        int n = 0;
        var thread = new Thread(() => {
            var clock = Stopwatch.StartNew(); // what a thread's beginning and end take is little beside
            do
                n = Leaf(30) + 1;
            while (rounds == Rounds && clock.ElapsedMilliseconds < SituationMs);
        });
        thread.Start();
        thread.Join();
        return n;
    }

    static readonly Dictionary<string, Func<int>> situations = new Dictionary<string, Func<int>> {
        {"s01_recursion", () => S01_Recursion(30)},
        {"s02_interfaces", S02_Interfaces},
        {"s03_classes", S03_Classes},
        {"s04_lambda", S04_Lambda},
        {"s05_method_group", S05_MethodGroup},
        {"s06_linq", S06_Linq},
        {"s07_list", S07_List},
        {"s08_sort", S08_Sort},
        {"s09_catch", () => S09_Catch(9)},
        {"s10_finally", () => S10_Finally(1)},
        {"s11_lock", S11_Lock},
        {"s12_nested", S12_Nested},
        {"s13_of_values", S13_OfValues},
        {"s14_of_references", S14_OfReferences},
        {"s15_generic_class", S15_GenericClass},
        {"s16_iterator", S16_Iterator},
        {"s17_async", S17_Async},
        {"s18_reflection", S18_Reflection},
        {"s19_property", S19_Property},
        {"s20_operator", S20_Operator},
        {"s21_indexer", S21_Indexer},
        {"s22_regex", S22_Regex},
        {"s23_dictionary", S23_Dictionary},
        {"s24_native_callback", S24_NativeCallback},
        {"s25_dynamic_method", S25_DynamicMethod},
        {"s26_arguments", S26_Arguments},
        {"s27_stack_allocation", () => S27_StackAllocation(400 + (sink & 7))},
        {"s28_exception_filter", () => S28_ExceptionFilter(28)},
        {"s29_in_task", S29_InTask},
        {"s30_in_thread", S30_InThread},
    };
    static readonly string[] names = situations.Keys.ToArray();
    static readonly Func<int>[] all = situations.Values.ToArray();
    static readonly string[] inThreads = {"s29_in_task", "s30_in_thread"};

    [MethodImpl(OwnFrame)]
    static int Perform(Func<int> situation) { return situation() + 1; }

    [MethodImpl(OwnFrame)]
    static void PerformFor(Func<int> situation, int ms, int times) {
        var clock = Stopwatch.StartNew();
        do
            sink += Perform(situation);
        while (!observing && (--times > 0 || clock.ElapsedMilliseconds < ms));
    }

    public static void Main(string[] args) {
        if (args.Length > 1 && !Path.IsPathRooted(args[1]))
            Churn.Run(args[0], args[1]);
        var truth = new Truth(args.Length > 1 ? args[1] : null);
        for (int round = 0;; round++) { // of which all call the situations in the same line
            bool warm = round < WarmRounds, look = round == WarmRounds;
            for (int i = 0; i < all.Length; i++) {
                observing = look;
                PerformFor(all[i], warm ? WarmMs : look ? 0 : SituationMs, warm ? WarmTimes : 1);
                observing = false;
                if (look)
                    truth.Add(names[i], observed, inThreads.Contains(names[i]));
            }
            if (warm)
                Thread.Sleep(500); // what is being compiled is ready then
            if (!look)
                continue;
            rounds = Rounds;
            truth.Write(args[0]);
        }
    }
}

class Truth {
    readonly Dictionary<string, List<int>> lines = new Dictionary<string, List<int>>(); // of "SITUATION METHOD"
    readonly string linesPath;
    readonly bool known; // the lines are
    const BindingFlags All = BindingFlags.Public | BindingFlags.NonPublic | BindingFlags.Static | BindingFlags.Instance | BindingFlags.DeclaredOnly;
    readonly StringBuilder situations = new StringBuilder();
    readonly HashSet<string> own = new HashSet<string>();
    readonly HashSet<Assembly> assemblies = new HashSet<Assembly>();

    public Truth(string linesPath) {
        this.linesPath = linesPath;
        known = linesPath != null && File.Exists(linesPath);
        foreach (string line in known ? File.ReadAllLines(linesPath) : new string[0]) {
            string[] parts = line.Split(' ');
            lines[parts[0] + " " + parts[1]] = parts.Skip(2).Select(int.Parse).ToList();
        }
    }

    static string Quote(string s) { return '"' + s.Replace("\\", "\\\\").Replace("\"", "\\\"") + '"'; }

    static string NameOf(Type type) {
        if (type.IsGenericType)
            type = type.GetGenericTypeDefinition();
        return type.DeclaringType != null ? NameOf(type.DeclaringType) + "." + type.Name : type.FullName;
    }

    static string NameOf(MethodBase m) { return m.DeclaringType != null ? NameOf(m.DeclaringType) + "." + m.Name : m.Name; }

    /* A frame as a profiler shows it. Without the file of lines, a method has none. */
    class Step {
        public readonly string Name;
        public string File;
        public readonly int Line; // as the runtime says
        /* All methods of the program are in the innermost one's file, or have none. */
        public Step(StackFrame frame, string file) {
            Name = NameOf(frame.GetMethod());
            File = frame.GetMethod().DeclaringType?.Assembly == typeof(Truth).Assembly ? file : "";
            Line = frame.GetFileLineNumber();
        }
    }

    /* Of the program's own methods, all lines of its files are known ones. */
    void Known(string name, IEnumerable<string> files) {
        foreach (string file in files)
            own.Add("[" + Quote(file) + "," + Quote(name) + ",0," + (file == "" ? "0]" : "100000]"));
    }

    /* All methods of an assembly: they may be on the way to those that it is here for. */
    void KnownAssembly(Assembly assembly, IEnumerable<string> files) {
        if (!assemblies.Add(assembly))
            return;
        foreach (Type type in assembly.GetTypes())
            foreach (MethodBase m in type.GetMethods(All).Cast<MethodBase>().Concat(type.GetConstructors(All)))
                Known(NameOf(m), files);
    }

    static bool IsHandling(string name) {
        return name.StartsWith("System.Runtime.EH.") || name.StartsWith("System.Runtime.ExceptionServices.InternalCalls.");
    }

    /* Without what handles exceptions: a handler stands in the place of its method. The runtime gives stubs of a native function its name. */
    static List<Step> Plain(IEnumerable<Step> steps) {
        var plain = new List<Step>();
        bool handled = false;
        foreach (Step step in steps.Where(x => x.Name != "Chains.S24Qsort")) {
            if (!IsHandling(step.Name)) {
                int before = handled ? plain.FindLastIndex(x => x.Name == step.Name) : -1;
                if (before >= 0)
                    plain.RemoveRange(before, plain.Count - before);
                plain.Add(step);
            }
            handled = IsHandling(step.Name);
        }
        return plain;
    }

    /* The innermost method was asked in front of the loop in which it spends its time. Methods that the compiler made have no lines. */
    string LinesOf(string situation, Step step, bool leaf) {
        string key = situation + " " + step.Name;
        if (!lines.ContainsKey(key))
            lines[key] = new List<int>();
        int exact = Chains.Handlers.TryGetValue(step.Name, out int handler) ? handler : step.Line;
        if (!known && !lines[key].Contains(exact))
            lines[key].Add(exact);
        int[] found = lines[key].Append(step.Line).Distinct().Where(x => x > 0).ToArray();
        if (found.Length == 0) {
            step.File = "";
            return "0";
        }
        return string.Join(",", leaf ? Enumerable.Range(found[0] - 1, 6) : found);
    }

    public void Add(string name, StackFrame[] stack, bool inThread) {
        var chain = new StringBuilder();
        string[] files = {"", stack[0].GetFileName() ?? ""};
        foreach (StackFrame frame in stack) {
            MethodBase m = frame.GetMethod();
            Known(NameOf(m), files);
            if (m.DeclaringType != null)
                KnownAssembly(m.DeclaringType.Assembly, m.DeclaringType.Assembly == typeof(Truth).Assembly ? files : new[] {""});
        }
        List<Step> steps = Plain(stack.Reverse().Select(x => new Step(x, files[1])));
        int first = 0;
        if (inThread) { // what begins it is compiled anew at any time, with other methods in it
            first = steps.FindIndex(x => x.File != "");
            chain.Append("{\"files\":[\"\"],\"optional\":true}");
        }
        for (int i = first; i < steps.Count; i++) {
            bool leaf = i == steps.Count - 1;
            string stepLines = LinesOf(name, steps[i], leaf);
            chain.Append(chain.Length == 0 ? "" : ",").Append("{\"name\":").Append(Quote(steps[i].Name)).Append(",\"file\":").Append(Quote(steps[i].File))
                .Append(",\"first\":0,\"lines\":[").Append(stepLines).Append("],\"leaf\":").Append(leaf ? "true" : "false")
                .Append(",\"direct\":false,\"between\":null,\"prepared\":true")
                .Append(steps[i].Name.StartsWith("InvokeStub_") || steps[i].Name == "S25Emitted" ? ",\"freed\":true}" : "}");
        }
        situations.Append(situations.Length == 0 ? "" : ",").Append(Quote(name)).Append(":{\"thread\":").Append(inThread ? "\"thread\"" : "null")
            .Append(",\"chain\":[").Append(chain).Append("]}");
    }

    public void Write(string path) {
        if (linesPath != null && !known) {
            File.WriteAllLines(linesPath + ".new", lines.Select(x => x.Key + " " + string.Join(" ", x.Value)));
            File.Move(linesPath + ".new", linesPath);
            Environment.Exit(0);
        }
        File.WriteAllText(path + ".children", "\n");
        File.WriteAllText(path + ".new", "{\"pid\":" + Process.GetCurrentProcess().Id + ",\"language\":\"dotnet\",\"loop\":\"no interpreter\",\"native_threads\":true,"
            + "\"elsewhere\":[\"System.Threading.PortableThreadPool.GateThread.GateThreadStart\"],\"own\":["
            + string.Join(",", own) + "],\"library\":{},\"situations\":{" + situations + "}}");
        File.Move(path + ".new", path);
    }
}
