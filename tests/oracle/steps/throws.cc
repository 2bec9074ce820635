// SPDX-License-Identifier: Apache-2.0
/* Exceptions through frames of different sizes, containers, virtual calls: what C++ does to a stack. */
#include <cstdio>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

struct Shape {
	virtual ~Shape() = default;
	virtual unsigned area(unsigned n) const = 0;
};

struct Square : Shape {
	unsigned area(unsigned n) const override { return n * n; }
};

struct Odd : Shape {
	unsigned area(unsigned n) const override
	{
		if (n % 3 == 1)
			throw std::runtime_error("odd " + std::to_string(n));
		return n;
	}
};

static unsigned descend(const Shape &s, unsigned n)
{
	volatile char frame[300] = {0};
	std::string here = std::to_string(n);

	return n ? descend(s, n - 1) + s.area(n) + frame[n % sizeof frame] : (unsigned)here.size();
}

int main()
{
	std::map<std::string, unsigned> seen;
	std::vector<std::unique_ptr<Shape>> shapes;

	shapes.emplace_back(new Square);
	shapes.emplace_back(new Odd);
	for (unsigned i = 0; i < 2000; i++) {
		try {
			seen[std::to_string(i % 97)] += descend(*shapes[i % 2], i % 11);
		} catch (const std::exception &e) {
			seen[e.what()]++;
		}
	}
	std::printf("%zu\n", seen.size());
}
