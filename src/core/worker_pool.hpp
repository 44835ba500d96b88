// A few threads that sleep between rounds of numbered jobs: shared machines suffer from threads that spin.
#pragma once
#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace treadle {

class WorkerPool {
public:
    explicit WorkerPool(int threads) {
        for (int i = 1; i < threads; i++) workers_.emplace_back([this] { work(); });
    }
    ~WorkerPool() {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            stop_ = true;
        }
        wake_.notify_all();
        for (auto& worker : workers_) worker.join();
    }
    WorkerPool(const WorkerPool&) = delete;
    WorkerPool& operator=(const WorkerPool&) = delete;

    // Runs job(0) .. job(count - 1), each once, in any order, and returns when all are done. If one throws, such
    // as std::bad_alloc, the rest may be left undone, and one of the exceptions is thrown here.
    void run(int count, const std::function<void(int)>& job) {
        if (workers_.empty() || count < 2) {
            for (int i = 0; i < count; i++) job(i);
            return;
        }
        {
            std::lock_guard<std::mutex> lock(mutex_);
            job_ = &job;
            count_ = count;
            next_.store(0);
            busy_ = static_cast<int>(workers_.size());
            failure_ = nullptr;
            round_++;
        }
        wake_.notify_all();
        take(job, count);
        std::unique_lock<std::mutex> lock(mutex_);
        done_.wait(lock, [this] { return busy_ == 0; });
        if (failure_) std::rethrow_exception(failure_);
    }

private:
    void take(const std::function<void(int)>& job, int count) {
        try {
            for (int i = next_.fetch_add(1); i < count; i = next_.fetch_add(1)) job(i);
        } catch (...) {
            std::lock_guard<std::mutex> lock(mutex_);
            if (!failure_) failure_ = std::current_exception();
            next_.store(count);
        }
    }
    void work() {
        std::int64_t seen = 0;
        for (;;) {
            const std::function<void(int)>* job;
            int count;
            {
                std::unique_lock<std::mutex> lock(mutex_);
                wake_.wait(lock, [&] { return stop_ || round_ != seen; });
                if (stop_) return;
                seen = round_;
                job = job_;
                count = count_;
            }
            take(*job, count);
            {
                std::lock_guard<std::mutex> lock(mutex_);
                busy_--;
            }
            done_.notify_one();
        }
    }

    std::vector<std::thread> workers_;
    std::mutex mutex_;
    std::condition_variable wake_, done_;
    const std::function<void(int)>* job_ = nullptr;
    std::atomic<int> next_{0};
    std::exception_ptr failure_;
    int count_ = 0, busy_ = 0;
    std::int64_t round_ = 0;
    bool stop_ = false;
};

}  // namespace treadle
