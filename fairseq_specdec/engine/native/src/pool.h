// A few threads that share the work of one large loop.
//
// Waking a thread can take longer than a product, above all on virtual machines. So the caller
// takes part, nothing waits for a thread that has not begun, and whoever is free takes the next
// piece: threads that come late find nothing to do. Pieces are whole outputs, so that their number
// and their order change no bits.
#pragma once

namespace specdec {

class Pool {
 public:
  // Threads that take part, the caller included; 1 at first.
  static void set_threads(int count);
  static int threads();

  // Calls body(0) to body(pieces - 1), each once, in any order, and returns when all have ended.
  // They must not throw. A second caller meanwhile runs its pieces alone.
  template <typename Body>
  static void run(int pieces, const Body& body) {
    if (pieces > 1 && threads() > 1) {
      run(
          pieces, [](const void* data, int piece) { (*static_cast<const Body*>(data))(piece); },
          &body);
    } else {
      for (int i = 0; i < pieces; i++) body(i);
    }
  }

 private:
  typedef void (*Call)(const void* data, int piece);
  static void run(int pieces, Call call, const void* data);
};

}  // namespace specdec
