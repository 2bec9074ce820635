// SPDX-License-Identifier: Apache-2.0
//
// An application of ASP.NET Core: routes, JSON, regular expressions, LINQ, tasks.
//
//	Server PORT
using System;
using System.Collections.Generic;
using System.Linq;
using System.Security.Cryptography;
using System.Text.Json;
using System.Text.RegularExpressions;
using System.Threading.Tasks;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.Logging;

public record Item(string Name, int Count, double Price, string[] Tags) {
    public double Total => Count * Price;
}

public record Order(int Id, List<Item> Items, double Total);

public static class Server {
    static readonly Regex Word = new Regex(@"(\w+)-(\d+)", RegexOptions.Compiled);

    static Order Make(int id) {
        var items = Enumerable.Range(0, id % 9 + 3).Select(i => new Item("item-" + (id * 31 + i) % 97, i % 5 + 1, (id * 7919 + i) % 1000 / 10.0,
            new[] {"a" + i % 3, "b" + id % 4})).OrderBy(i => i.Name, StringComparer.Ordinal).ToList();
        return new Order(id, items, items.Sum(i => i.Total));
    }

    static List<Order> Orders(int n) => Enumerable.Range(0, n).Select(Make).OrderBy(o => o.Total).ToList();

    static async Task<string> Digest(string text) {
        await Task.Yield();
        return Convert.ToHexString(SHA256.HashData(System.Text.Encoding.UTF8.GetBytes(text)));
    }

    static SortedDictionary<string, int> Words(int n) {
        var sums = new SortedDictionary<string, int>(StringComparer.Ordinal);
        foreach (Match m in Word.Matches(string.Join(" ", Enumerable.Range(0, n).Select(i => $"word-{i % 37} other{i}")))) {
            string key = m.Groups[1].Value + m.Groups[2].Value;
            sums[key] = sums.GetValueOrDefault(key) + int.Parse(m.Groups[2].Value);
        }
        return sums;
    }

    public static void Main(string[] a) {
        var builder = WebApplication.CreateSlimBuilder();
        builder.Logging.ClearProviders();
        builder.WebHost.UseUrls("http://127.0.0.1:" + a[0]);
        var app = builder.Build();
        app.MapGet("/orders/{n}", async (int n) => {
            var found = Orders(n);
            return Results.Json(new {digest = await Digest(JsonSerializer.Serialize(found)), found});
        });
        app.MapGet("/words/{n}", (int n) => Results.Json(Words(n)));
        app.MapPost("/sum", async (HttpRequest request) => {
            using var body = await JsonDocument.ParseAsync(request.Body);
            var values = body.RootElement.GetProperty("values").EnumerateArray().Select(x => x.GetInt32()).Order().ToArray();
            return Results.Json(new {name = body.RootElement.GetProperty("name").GetString(), values, sum = values.Sum()});
        });
        app.Run();
    }
}
