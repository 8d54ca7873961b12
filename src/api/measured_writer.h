// Tells when an answer is complete, and how it went.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "api/http_types.h"
#include "base/clock.h"

namespace erne {

// Passes everything on to another writer. `on_end` is called once: with the status and the seconds
// since this writer was made, when the whole answer has been handed over; when the writer goes
// without one, with 499 because its client has gone, or with 500 if an exception took it: http then
// answers with that.
class MeasuredWriter : public ResponseWriter {
 public:
  using OnEnd = std::function<void(int status, double seconds)>;

  MeasuredWriter(std::shared_ptr<ResponseWriter> inner, OnEnd on_end)
      : inner_(std::move(inner)), on_end_(std::move(on_end)), begin_(SteadySeconds()) {}
  ~MeasuredWriter() override {
    try {
      End(std::uncaught_exceptions() > exceptions_ ? kFailed : kClientGone);
    } catch (const std::exception&) {  // no memory to count it
    }
  }

  void Send(HttpResponse response) override {
    const int status = response.status;
    inner_->Send(std::move(response));
    End(status);
  }
  void BeginStream(HttpResponse head) override {
    status_ = head.status;
    inner_->BeginStream(std::move(head));
  }
  void Write(std::string bytes) override { inner_->Write(std::move(bytes)); }
  void EndStream() override {
    inner_->EndStream();
    End(status_);
  }
  void Post(std::function<void()> work) override { inner_->Post(std::move(work)); }
  size_t pending_bytes() const override { return inner_->pending_bytes(); }
  void OnDrained(std::function<void()> callback) override {
    inner_->OnDrained(std::move(callback));
  }
  void OnDisconnect(std::function<void()> callback) override {
    inner_->OnDisconnect(std::move(callback));
  }

 private:
  static constexpr int kFailed = 500;
  static constexpr int kClientGone = 499;  // nginx's code for a client that closed its request

  void End(int status) {
    if (on_end_) std::exchange(on_end_, nullptr)(status, SteadySeconds() - begin_);
  }

  const std::shared_ptr<ResponseWriter> inner_;
  OnEnd on_end_;
  const double begin_;
  const int exceptions_ = std::uncaught_exceptions();
  int status_ = 200;
};

}  // namespace erne
