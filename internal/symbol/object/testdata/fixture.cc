// What the tests want of a program: functions in namespaces, inlined ones in each other and out of line, templates, a
// lambda, a part that is moved away (cold), calls through the PLT, and data.
#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

namespace shop {

struct Item {
	std::string name;
	int price;
	bool operator<(const Item &other) const { return price < other.price; }
};

static inline int with_tax(int price) { return price + price / 5; }

template <class Key> struct Stock {
	std::map<Key, Item> items;

	void add(Key key, const char *name) { items[key] = Item{name, with_tax(key)}; }

	int sum() const
	{
		int sum = 0;
		for (const auto &entry : items)
			sum += with_tax(entry.second.price);
		return sum;
	}
};

int cheapest(std::vector<Item> &items)
{
	std::sort(items.begin(), items.end(), [](const Item &a, const Item &b) { return b < a; });
	return items.empty() ? 0 : items.back().price;
}

} // namespace shop

extern "C" {
int global_data = 42;

__attribute__((noinline)) int plain(int n)
{
	return n * global_data;
}
}

int main(int argc, char **argv)
{
	shop::Stock<int> stock;
	for (int i = 0; i < argc * 100; i++)
		stock.add(i, argv[0]);
	std::vector<shop::Item> items;
	for (const auto &entry : stock.items)
		items.push_back(entry.second);
	std::printf("%d %d\n", plain(stock.sum()), shop::cheapest(items));
}
