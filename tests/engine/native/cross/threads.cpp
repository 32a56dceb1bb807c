// The pool under ThreadSanitizer: changing numbers of threads, several callers, pieces that call
// it.
#include <cstdio>
#include <numeric>
#include <thread>
#include <vector>

#include "pool.cpp"

namespace {

// Each piece writes numbers that the caller then reads, without any other lock.
bool sums_are_right(int rounds) {
  bool right = true;
  for (int round = 1; round <= rounds; round++) {
    const int pieces = round % 13 + 1;
    std::vector<int> results(pieces, 0);
    specdec::Pool::run(pieces, [&](int piece) {
      int halves[2] = {0, 0};
      specdec::Pool::run(2, [&](int half) { halves[half] = half + 1; });
      results[piece] += (halves[0] + halves[1]) * round;
    });
    right = right && std::accumulate(results.begin(), results.end(), 0) == 3 * round * pieces;
  }
  return right;
}

}  // namespace

int main() {
  bool right = true;
  for (int threads : {1, 2, 4, 3, 8}) {
    specdec::Pool::set_threads(threads);
    right = right && sums_are_right(300);
    std::vector<char> answers(3);
    std::vector<std::thread> callers;
    for (char& answer : answers) {
      callers.emplace_back([&answer] { answer = sums_are_right(300); });
    }
    for (std::thread& caller : callers) caller.join();
    for (char answer : answers) right = right && answer;
  }
  std::printf(right ? "right\n" : "wrong\n");
  return right ? 0 : 1;
}
