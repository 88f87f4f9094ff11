/**
 * A persistent pool of threads that runs numbered tasks.
 *
 * Workers are started once (in a browser they must exist before the first step), spin for a few
 * microseconds between jobs and then sleep on a futex. Every thread has an equal share of a job's tasks,
 * contiguous, and claims one at a time: its own first, then what others have left. Kernels number their
 * tasks by the rows they touch, so that a row mostly meets the same thread, and its cache, from kernel to
 * kernel; task grids do not depend on the number of threads and every task has its own output, so results
 * do not depend on who ran what. The caller is thread 0 and takes part.
 *
 * This is not a general scheduler: one job at a time, no nesting, no exceptions out of a task.
 * TABGPT_THREADS=0 compiles a pool that always runs on the caller.
 */
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#ifndef TABGPT_THREADS
#define TABGPT_THREADS 1
#endif
#if TABGPT_THREADS
#include <pthread.h>
#endif

namespace tabgpt {

class Pool {
 public:
  static constexpr size_t max_threads = 64;

  /** Starts n_threads - 1 workers. Where the system refuses one, size() is less than n_threads. */
  explicit Pool(size_t n_threads);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /** Threads that take part, the caller included; at least 1. */
  size_t size() const { return size_.load(std::memory_order_relaxed); }
  /** Tasks that a thread has run since the pool was made. */
  uint64_t tiles(size_t thread) const;

  /** Calls f(task, thread) once for each task in [0, n_tasks); returns when all are done. n_tasks < 2^32. */
  template <class F>
  void parallel_for(size_t n_tasks, F&& f) {
    using Function = std::remove_reference_t<F>;
    run(
        n_tasks,
        [](void* context, size_t task, size_t thread) { (*static_cast<Function*>(context))(task, thread); },
        const_cast<void*>(static_cast<const void*>(&f)));
  }

 private:
  using Task = void (*)(void* context, size_t task, size_t thread);

  void run(size_t n_tasks, Task task, void* context);
  void run_here(size_t n_tasks, Task task, void* context);

  struct alignas(64) Slot {
    std::atomic<uint64_t> tiles{0};
    Pool* pool = nullptr;
#if TABGPT_THREADS
    pthread_t handle{};
    // The thread's share of the job: tasks up to `end`; generation << 32 | tasks not yet claimed. While
    // that count is above 0 the job's fields stand still, so a claim that succeeds has read its own job's.
    std::atomic<size_t> end{0};
    std::atomic<uint64_t> ticket{0};
#endif
  };

  std::atomic<size_t> size_{1};  ///< a worker may already read it while the next one is started
  Slot slots_[max_threads];

#if TABGPT_THREADS
  static void* worker_main(void* slot);
  void work(size_t thread);

  int spins_ = 0;
  // The job.
  std::atomic<Task> task_{nullptr};
  std::atomic<void*> context_{nullptr};
  uint32_t generation_ = 0;                       ///< one more for each job
  alignas(64) std::atomic<uint32_t> pending_{0};  ///< tasks not yet finished
  std::atomic<uint32_t> caller_waits_{0};
  alignas(64) std::atomic<uint32_t> epoch_{0};  ///< one more for each job; what sleepers wait on
  std::atomic<uint32_t> sleepers_{0};
  std::atomic<bool> stop_{false};
#endif
};

}  // namespace tabgpt
