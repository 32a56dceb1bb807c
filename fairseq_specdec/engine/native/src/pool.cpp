#include "pool.h"

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <system_error>
#include <thread>

namespace specdec {
namespace {

// Looks for work before a thread goes to sleep, some 20 microseconds: the products of one pass
// follow each other closely.
constexpr int kLooks = 2000;

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// What threads share. Never freed: its threads may sleep in it when the process ends.
class Crew {
 public:
  void run(int threads, int pieces, void (*call)(const void*, int), const void* data) {
    if (busy_.test_and_set(std::memory_order_acquire)) {  // by another thread, or a piece of ours
      for (int i = 0; i < pieces; i++) call(data, i);
      return;
    }
    hire(threads - 1);
    call_ = call;
    data_ = data;
    done_ = 0;
    const uint64_t job = (ticket_ >> 32) + 1;
    ticket_ = job << 32 | static_cast<uint32_t>(pieces);
    if (asleep_ > 0) {
      std::lock_guard<std::mutex> lock(sleep_);
      wake_.notify_all();
    }
    work(job);
    for (int looks = 0; done_ < pieces; looks++) {
      looks < kLooks ? pause() : std::this_thread::yield();
    }
    busy_.clear(std::memory_order_release);
  }

 private:
  // Starts threads until there are `wanted`; as many as there are, if the system gives no more.
  // They take no signals: Python expects those in its own threads.
  void hire(int wanted) {
    if (hired_ < wanted) {
      sigset_t all, before;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before);
      try {
        for (; hired_ < wanted; hired_++) {
          std::thread([this, number = hired_] { serve(number); }).detach();
        }
      } catch (const std::system_error&) {
      }
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }
    wanted_ = wanted;
  }

  // Pieces of a job while some are left. A ticket is the job's number and how many pieces are left,
  // so that an old job's ticket can never be taken for a new one's. Who has drawn a piece knows
  // that call_ and data_ are the job's, since its caller waits for the piece.
  void work(uint64_t job) {
    uint64_t ticket = ticket_;
    while (ticket >> 32 == job && static_cast<uint32_t>(ticket) > 0) {
      if (!ticket_.compare_exchange_weak(ticket, ticket - 1)) continue;
      call_.load()(data_, static_cast<int>(static_cast<uint32_t>(ticket) - 1));
      done_++;
      ticket = ticket_;
    }
  }

  void serve(int number) {
    uint64_t seen = 0;
    for (int looks = 0;; looks++) {
      const uint64_t job = ticket_ >> 32;
      if (job != seen && number < wanted_) {
        work(job);
        seen = job;
        looks = 0;
      } else if (looks < kLooks) {
        pause();
      } else {
        std::unique_lock<std::mutex> lock(sleep_);
        asleep_++;
        wake_.wait(lock, [&] { return ticket_ >> 32 != job; });
        asleep_--;
        looks = 0;
      }
    }
  }

  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
  std::mutex sleep_;
  std::condition_variable wake_;
  std::atomic<int> asleep_{0}, wanted_{0}, done_{0};
  std::atomic<uint64_t> ticket_{0};
  std::atomic<void (*)(const void*, int)> call_{nullptr};
  std::atomic<const void*> data_{nullptr};
  int hired_ = 0;  // used by the caller alone
};

std::atomic<int> thread_count{1};
std::atomic<Crew*> crew{nullptr};

// The crew of this process: a child of fork() has none of its parent's threads, and gets a new one.
Crew& crew_here() {
  Crew* here = crew.load();
  if (here) return *here;
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, [] { crew.store(nullptr); }); });
  Crew* made = new Crew;
  if (crew.compare_exchange_strong(here, made)) return *made;
  delete made;  // another thread was faster; this one has no threads yet
  return *here;
}

}  // namespace

void Pool::set_threads(int count) { thread_count.store(count); }

int Pool::threads() { return thread_count.load(std::memory_order_relaxed); }

void Pool::run(int pieces, Call call, const void* data) {
  crew_here().run(threads(), pieces, call, data);
}

}  // namespace specdec
