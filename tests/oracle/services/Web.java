// SPDX-License-Identifier: Apache-2.0
//
// An application of Spring Boot: routes, JSON, regular expressions, streams, templates of text.
package shop;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.catalina.webresources.TomcatURLStreamHandlerFactory;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.RestController;

@SpringBootApplication
@RestController
public class Web {
    static final Pattern WORD = Pattern.compile("(\\w+)-(\\d+)");

    public record Item(String name, int count, double price, List<String> tags) {}
    public record Order(int id, List<Item> items, double total) {}
    public record Values(List<Integer> values, String name) {}

    /** What is returned is closed to end it. */
    public static AutoCloseable start(int port) {
        TomcatURLStreamHandlerFactory.disable(); // a process has one of all deployments
        SpringApplication application = new SpringApplication(Web.class);
        application.setRegisterShutdownHook(false);
        application.setDefaultProperties(Map.of("server.port", port, "server.address", "127.0.0.1", "server.tomcat.threads.max", 8,
            "spring.main.banner-mode", "off", "server.tomcat.mbeanregistry.enabled", false));
        return application.run();
    }

    static Item item(int order, int i) {
        return new Item("item-" + (order * 31 + i) % 97, i % 5 + 1, ((order * 7919 + i) % 1000) / 10.0, List.of("a" + i % 3, "b" + order % 4));
    }

    static Order order(int id) {
        List<Item> items = IntStream.range(0, id % 9 + 3).mapToObj(i -> item(id, i)).sorted(Comparator.comparing(Item::name)).toList();
        return new Order(id, items, items.stream().mapToDouble(i -> i.count() * i.price()).sum());
    }

    @GetMapping("/orders/{n}")
    public List<Order> orders(@PathVariable int n) {
        return IntStream.range(0, n).mapToObj(Web::order).sorted(Comparator.comparingDouble(Order::total)).collect(Collectors.toList());
    }

    @GetMapping("/words/{n}")
    public Map<String, Integer> words(@PathVariable int n) {
        String text = IntStream.range(0, n).mapToObj(i -> "word-" + i % 37 + " other" + i).collect(Collectors.joining(" "));
        Map<String, Integer> sums = new TreeMap<>();
        var found = WORD.matcher(text);
        while (found.find())
            sums.merge(found.group(1) + found.group(2), Integer.parseInt(found.group(2)), Integer::sum);
        return sums;
    }

    @GetMapping("/report/{n}")
    public String report(@PathVariable int n) {
        StringBuilder out = new StringBuilder();
        for (Order o : orders(n))
            for (Item i : o.items())
                out.append(String.format("%-12s %3d %8.2f %s%n", i.name(), i.count(), i.price(), String.join(",", i.tags())));
        return out.toString();
    }

    @PostMapping("/sum")
    public Map<String, Object> sum(@RequestBody Values v) {
        List<Integer> sorted = new ArrayList<>(v.values());
        sorted.sort(null);
        return Map.of("name", v.name(), "sum", sorted.stream().mapToInt(x -> x).sum(), "sorted", sorted);
    }
}
