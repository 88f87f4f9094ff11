#include "threads.hpp"

#include <algorithm>
#if TABGPT_THREADS
#include <thread>
#endif

namespace tabgpt {

uint64_t Pool::tiles(size_t thread) const {
  return thread < size() ? slots_[thread].tiles.load(std::memory_order_relaxed) : 0;
}

void Pool::run_here(size_t n_tasks, Task task, void* context) {
  for (size_t i = 0; i < n_tasks; i++) task(context, i, 0);
  slots_[0].tiles.fetch_add(n_tasks, std::memory_order_relaxed);
}

#if !TABGPT_THREADS

Pool::Pool(size_t) {}
Pool::~Pool() = default;
void Pool::run(size_t n_tasks, Task task, void* context) { run_here(n_tasks, task, context); }

#else

namespace {

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

#if defined(__wasm__)
// The instructions themselves: libc++'s atomic wait on this target may poll with growing sleeps.
void wait_while(std::atomic<uint32_t>& word, uint32_t value) {
  __builtin_wasm_memory_atomic_wait32(reinterpret_cast<int*>(&word), static_cast<int>(value), -1);
}
void wake_all(std::atomic<uint32_t>& word) {
  __builtin_wasm_memory_atomic_notify(reinterpret_cast<int*>(&word), ~0u);
}
constexpr int spin_limit = 20000;  // about 30 us of plain atomic loads; there is no pause instruction
#else
void wait_while(std::atomic<uint32_t>& word, uint32_t value) { word.wait(value); }
void wake_all(std::atomic<uint32_t>& word) { word.notify_all(); }
constexpr int spin_limit = 2000;  // about 30 us of pause (40 to 60 cycles each)
#endif

constexpr uint64_t unclaimed_mask = 0xffffffffu;

}  // namespace

Pool::Pool(size_t n_threads) {
  n_threads = std::clamp<size_t>(n_threads, 1, max_threads);
  // More threads than cores: a spinning thread would hold the core that the working one needs.
  const size_t cores = std::thread::hardware_concurrency();
  spins_ = cores != 0 && n_threads > cores ? 0 : spin_limit;
  for (size_t i = 1; i < n_threads; i++) {
    slots_[i].pool = this;
    if (pthread_create(&slots_[i].handle, nullptr, worker_main, &slots_[i]) != 0) break;
    size_.store(i + 1, std::memory_order_relaxed);
  }
}

Pool::~Pool() {
  stop_.store(true);
  epoch_.fetch_add(1);
  wake_all(epoch_);
  for (size_t i = 1; i < size(); i++) pthread_join(slots_[i].handle, nullptr);
}

void Pool::work(size_t thread) {
  // Its own share of the tasks first, then what the others have left.
  const size_t threads = size();
  for (size_t i = 0; i < threads; i++) {
    Slot& share = slots_[(thread + i) % threads];
    uint64_t ticket = share.ticket.load(std::memory_order_acquire);
    while ((ticket & unclaimed_mask) != 0) {
      const Task task = task_.load(std::memory_order_relaxed);
      void* const context = context_.load(std::memory_order_relaxed);
      const size_t end = share.end.load(std::memory_order_relaxed);
      if (!share.ticket.compare_exchange_weak(ticket, ticket - 1, std::memory_order_acq_rel,
                                              std::memory_order_acquire))
        continue;
      task(context, end - static_cast<size_t>(ticket & unclaimed_mask), thread);
      slots_[thread].tiles.fetch_add(1, std::memory_order_relaxed);
      if (pending_.fetch_sub(1) == 1 && caller_waits_.load() != 0) wake_all(pending_);
      ticket = share.ticket.load(std::memory_order_acquire);
    }
  }
}

void* Pool::worker_main(void* argument) {
  Slot* const slot = static_cast<Slot*>(argument);
  Pool& pool = *slot->pool;
  const size_t thread = static_cast<size_t>(slot - pool.slots_);
  for (;;) {
    const uint32_t epoch = pool.epoch_.load();
    if (pool.stop_.load()) return nullptr;
    pool.work(thread);
    int spins = pool.spins_;
    while (pool.epoch_.load(std::memory_order_acquire) == epoch && spins > 0) {
      relax();
      spins--;
    }
    if (spins > 0) continue;
    pool.sleepers_.fetch_add(1);
    wait_while(pool.epoch_, epoch);
    pool.sleepers_.fetch_sub(1);
  }
}

void Pool::run(size_t n_tasks, Task task, void* context) {
  const size_t threads = size();
  if (threads == 1 || n_tasks <= 1) return run_here(n_tasks, task, context);
  task_.store(task, std::memory_order_relaxed);
  context_.store(context, std::memory_order_relaxed);
  pending_.store(static_cast<uint32_t>(n_tasks), std::memory_order_relaxed);
  ++generation_;
  for (size_t i = 0, end = 0; i < threads; i++) {
    const size_t begin = end;
    end = n_tasks * (i + 1) / threads;
    slots_[i].end.store(end, std::memory_order_relaxed);
    slots_[i].ticket.store(uint64_t{generation_} << 32 | (end - begin));
  }
  epoch_.fetch_add(1);
  if (sleepers_.load() != 0) wake_all(epoch_);
  work(0);
  for (int spins = spins_; spins > 0; spins--) {
    if (pending_.load(std::memory_order_acquire) == 0) return;
    relax();
  }
  caller_waits_.store(1);
  for (uint32_t pending = pending_.load(); pending != 0; pending = pending_.load())
    wait_while(pending_, pending);
  caller_waits_.store(0);
}

#endif

}  // namespace tabgpt
