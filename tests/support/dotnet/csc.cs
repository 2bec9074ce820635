// SPDX-License-Identifier: Apache-2.0
//
// A C# compiler that writes the source lines of what it compiles: Roslyn, whose assemblies are in a folder.
//
//    csc ROSLYN OUT portable|embedded SOURCE...
//
// OUT is a program that refers to the runtime that this runs on. Its lines are in a file beside it (.pdb), or in it. The assemblies are for a
// newer runtime, and have no more in them than another program needs, so all of it is called by its name.
using System;
using System.Collections;
using System.IO;
using System.Linq;
using System.Reflection;
using System.Text;

public static class Csc {
    static string folder;
    static object context;
    static MethodInfo load;
    static Assembly common, csharp;

    static Assembly Load(string name) {
        return (Assembly)load.Invoke(context, new object[] {Path.Combine(folder, name + ".dll")});
    }

    /* What Roslyn needs in a newer version than the runtime's own comes from its folder, all else from the runtime, in its version. */
    public static Assembly Resolve<T>(T from, AssemblyName name) {
        if (name.Name.StartsWith("Microsoft.") || name.Name == "System.Collections.Immutable" || name.Name == "System.Reflection.Metadata")
            return Load(name.Name);
        return Assembly.Load(new AssemblyName(name.Name));
    }

    static void Open() {
        var type = Type.GetType("System.Runtime.Loader.AssemblyLoadContext, System.Private.CoreLib");
        var resolving = type.GetEvent("Resolving");
        context = Activator.CreateInstance(type, "roslyn", false);
        load = type.GetMethod("LoadFromAssemblyPath");
        resolving.AddEventHandler(context, Delegate.CreateDelegate(resolving.EventHandlerType,
            typeof(Csc).GetMethod("Resolve").MakeGenericMethod(type)));
        common = Load("Microsoft.CodeAnalysis");
        csharp = Load("Microsoft.CodeAnalysis.CSharp");
    }

    /* Arguments by position: those given, the others as they are by default. Parameters have no names any more. */
    static object[] Arguments(MethodBase m, params object[] given) {
        return m.GetParameters().Select((p, i) => {
            if (i < given.Length && given[i] != Type.Missing)
                return given[i];
            if (p.HasDefaultValue && p.DefaultValue != null)
                return p.DefaultValue;
            return p.ParameterType.IsValueType ? Activator.CreateInstance(p.ParameterType) : null;
        }).ToArray();
    }

    static object Call(Type type, object self, string name, int parameters, object[] first) {
        var m = type.GetMethods().First(x => x.Name == name && x.GetParameters().Length == parameters &&
            (first.Length == 0 || x.GetParameters()[0].ParameterType.IsInstanceOfType(first[0])));
        return m.Invoke(self, Arguments(m, first));
    }

    static object New(Assembly a, string name, params object[] given) {
        var c = a.GetType("Microsoft.CodeAnalysis." + name).GetConstructors().First(x => x.GetParameters().Length > 0);
        return c.Invoke(Arguments(c, given));
    }

    static object Value(Assembly a, string type, string name) {
        return Enum.Parse(a.GetType("Microsoft.CodeAnalysis." + type), name);
    }

    static Array ArrayOf(string type, object[] values) {
        var r = Array.CreateInstance(common.GetType("Microsoft.CodeAnalysis." + type), values.Length);
        for (int i = 0; i < values.Length; i++) r.SetValue(values[i], i);
        return r;
    }

    static object Tree(string path, object options) {
        var text = Call(common.GetType("Microsoft.CodeAnalysis.Text.SourceText"), null, "From", 3,
            new object[] {File.ReadAllText(path), Encoding.UTF8, Value(common, "Text.SourceHashAlgorithm", "Sha256")});
        return Call(csharp.GetType("Microsoft.CodeAnalysis.CSharp.CSharpSyntaxTree"), null, "ParseText", 4,
            new object[] {text, options, Path.GetFullPath(path)});
    }

    static object Reference(string path) {
        try {
            AssemblyName.GetAssemblyName(path);
        } catch (BadImageFormatException) {
            return null;
        }
        return Call(common.GetType("Microsoft.CodeAnalysis.MetadataReference"), null, "CreateFromFile", 3, new object[] {path});
    }

    static object[] AtPlaces(int n, params object[] placesAndValues) {
        var given = Enumerable.Repeat((object)Type.Missing, n).ToArray();
        for (int i = 0; i < placesAndValues.Length; i += 2)
            given[(int)placesAndValues[i]] = placesAndValues[i + 1];
        return given;
    }

    static object Compilation(string output, string[] sources) {
        string runtime = Path.GetDirectoryName(typeof(object).Assembly.Location);
        var parsing = New(csharp, "CSharp.CSharpParseOptions", Value(csharp, "CSharp.LanguageVersion", "Latest"));
        var trees = ArrayOf("SyntaxTree", sources.Select(x => Tree(x, parsing)).ToArray());
        var references = ArrayOf("MetadataReference",
            new[] {"System*.dll", "Microsoft.AspNetCore*.dll", "Microsoft.Extensions*.dll"}.SelectMany(x => Directory.GetFiles(runtime, x))
                .Select(Reference).Where(x => x != null).ToArray());
        var options = New(csharp, "CSharp.CSharpCompilationOptions", AtPlaces(19, 0, Value(common, "OutputKind", "ConsoleApplication"),
            6, Value(common, "OptimizationLevel", "Release"), 8 /* unsafe code */, true, 18 /* deterministic */, true));
        return Call(csharp.GetType("Microsoft.CodeAnalysis.CSharp.CSharpCompilation"), null, "Create", 4,
            new object[] {Path.GetFileNameWithoutExtension(output), trees, references, options});
    }

    static object Emit(object compilation, string output, bool embedded) {
        string lines = Path.ChangeExtension(output, ".pdb");
        var options = New(common, "Emit.EmitOptions", Type.Missing,
            Value(common, "Emit.DebugInformationFormat", embedded ? "Embedded" : "PortablePdb"), Path.GetFileName(lines));
        var emit = common.GetType("Microsoft.CodeAnalysis.Compilation").GetMethods().First(x => x.Name == "Emit");
        using (var code = File.Create(output))
        using (var symbols = embedded ? null : File.Create(lines))
            return emit.Invoke(compilation, Arguments(emit, AtPlaces(6, 0, code, 1, symbols, 5, options)));
    }

    static object Property(object of, string name) { return of.GetType().GetProperty(name).GetValue(of, null); }

    public static int Main(string[] a) {
        folder = a[0];
        Open();
        object result = Emit(Compilation(a[1], a.Skip(3).ToArray()), a[1], a[2] == "embedded");
        foreach (object d in (IEnumerable)Property(result, "Diagnostics"))
            if (Property(d, "Severity").ToString() == "Error")
                Console.Error.WriteLine(d);
        return (bool)Property(result, "Success") ? 0 : 1;
    }
}
