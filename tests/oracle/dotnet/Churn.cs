// SPDX-License-Identifier: Apache-2.0
//
// A program of .NET whose methods live for some milliseconds.
//
//	Chains TRUTH KIND
//
// Turn N makes two methods of its own, f_N and g_N (System.Reflection.Emit.DynamicMethod), runs them, and drops them: a collection now and
// then frees them and their code, so that later ones take their memory. By KIND, a turn takes 4 ms (short) or 100 ms (long).
//
// TRUTH gets a record for each turn: when its methods began and ended to run (ns since 1970), and N: three 64-bit numbers.
using System;
using System.Diagnostics;
using System.IO;
using System.Reflection.Emit;

static class Churn {
    const int First = 100000000;
    static readonly long epoch = new DateTime(1970, 1, 1, 0, 0, 0, DateTimeKind.Utc).Ticks;
    static long offset; // of the stopwatch, whose unit is 1 ns here

    static long Now() { return Stopwatch.GetTimestamp() + offset; }

    static void FindOffset() {
        long begin = DateTime.UtcNow.Ticks, ticks;
        while ((ticks = DateTime.UtcNow.Ticks) == begin) {
        }
        offset = (ticks - epoch) * 100 - Stopwatch.GetTimestamp();
    }

    /* n → 200 times n * 31 + i */
    static Func<long, long> Inner(int number) {
        var method = new DynamicMethod("g_" + number, typeof(long), new[] {typeof(long)}, typeof(Churn).Module, true);
        ILGenerator il = method.GetILGenerator();
        LocalBuilder i = il.DeclareLocal(typeof(long));
        Label loop = il.DefineLabel();
        il.MarkLabel(loop);
        il.Emit(OpCodes.Ldarg_0);
        il.Emit(OpCodes.Ldc_I8, 31L);
        il.Emit(OpCodes.Mul);
        il.Emit(OpCodes.Ldloc, i);
        il.Emit(OpCodes.Add);
        il.Emit(OpCodes.Starg, 0);
        il.Emit(OpCodes.Ldloc, i);
        il.Emit(OpCodes.Ldc_I8, 1L);
        il.Emit(OpCodes.Add);
        il.Emit(OpCodes.Stloc, i);
        il.Emit(OpCodes.Ldloc, i);
        il.Emit(OpCodes.Ldc_I8, 200L);
        il.Emit(OpCodes.Blt, loop);
        il.Emit(OpCodes.Ldarg_0);
        il.Emit(OpCodes.Ret);
        return (Func<long, long>)method.CreateDelegate(typeof(Func<long, long>));
    }

    /* Calls the inner one until the end. */
    static Func<Func<long, long>, long, long> Outer(int number) {
        var method = new DynamicMethod("f_" + number, typeof(long), new[] {typeof(Func<long, long>), typeof(long)}, typeof(Churn).Module, true);
        ILGenerator il = method.GetILGenerator();
        LocalBuilder sum = il.DeclareLocal(typeof(long));
        Label loop = il.DefineLabel();
        il.MarkLabel(loop);
        il.Emit(OpCodes.Ldarg_0);
        il.Emit(OpCodes.Ldloc, sum);
        il.Emit(OpCodes.Callvirt, typeof(Func<long, long>).GetMethod("Invoke"));
        il.Emit(OpCodes.Stloc, sum);
        il.Emit(OpCodes.Call, typeof(Stopwatch).GetMethod("GetTimestamp"));
        il.Emit(OpCodes.Ldarg_1);
        il.Emit(OpCodes.Blt, loop);
        il.Emit(OpCodes.Ldloc, sum);
        il.Emit(OpCodes.Ret);
        return (Func<Func<long, long>, long, long>)method.CreateDelegate(typeof(Func<Func<long, long>, long, long>));
    }

    public static void Run(string path, string kind) {
        long step = kind == "long" ? 100000000 : 4000000;
        FindOffset();
        Console.WriteLine(Process.GetCurrentProcess().Id);
        using (var file = new BinaryWriter(new FileStream(path, FileMode.Create)))
            for (int n = First + 1;; n++) {
                var g = Inner(n);
                var f = Outer(n);
                long begun = Now();
                f(g, Stopwatch.GetTimestamp() + step);
                file.Write(begun);
                file.Write(Now());
                file.Write((long)n);
                file.Flush();
                if (n % 20 == 0) {
                    f = null;
                    g = null;
                    GC.Collect();
                    GC.WaitForPendingFinalizers();
                }
            }
    }
}
