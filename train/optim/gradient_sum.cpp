#include "train/optim/gradient_sum.h"

#include <utility>

#include "core/error.h"

namespace mobius {

struct GradientSum::Buckets {
  Communicator& communicator;
  const ParameterArena& arena;
  SumScope scope;
  Tensor gradients = arena.zeros();
  std::vector<std::size_t> n_ready = std::vector<std::size_t>(arena.buckets().size());
  std::vector<std::unique_ptr<Pending>> sent{};  // always the first buckets
  bool is_started = false;

  // Makes the gradients views of the buffer, which frees their memory.
  void pack(std::size_t bucket) {
    for (const std::size_t i : arena.buckets()[bucket].parameters) {
      Tensor view = arena.parameter(gradients, i);
      Variable parameter = arena.parameters()[i].value;
      if (parameter.grad().defined()) {
        view.copy_from(parameter.grad());
        parameter.mutable_grad() = std::move(view);
      } else {
        view.fill(0);
      }
    }
  }

  void send_next() {
    const std::size_t next = sent.size();
    pack(next);
    const Tensor values = arena.bucket(gradients, next);
    sent.push_back(scope == SumScope::whole ? communicator.start_sum(values)
                                            : communicator.start_reduce_scatter(values));
  }

  void note_ready(std::size_t bucket) {
    if (!is_started) return;
    ++n_ready[bucket];
    for (const auto& pending : sent) pending->advance();
    while (sent.size() < n_ready.size() &&
           n_ready[sent.size()] == arena.buckets()[sent.size()].parameters.size())
      send_next();
  }

  void finish() {
    while (sent.size() < n_ready.size()) send_next();
    for (const auto& pending : sent) pending->wait();
    sent.clear();
    n_ready.assign(n_ready.size(), 0);
    is_started = false;
  }
};

GradientSum::GradientSum(Communicator& communicator, const ParameterArena& arena, SumScope scope)
    : communicator_(communicator) {
  if (communicator.size() == 1) return;
  if (arena.ranks() != communicator.size()) {
    throw Error("gradients: {} ranks, but the parameters are divided among {}", communicator.size(),
                arena.ranks());
  }
  buckets_ = std::make_shared<Buckets>(Buckets{communicator, arena, scope});
  for (std::size_t bucket = 0; bucket < arena.buckets().size(); ++bucket) {
    for (const std::size_t i : arena.buckets()[bucket].parameters) {
      Variable parameter = arena.parameters()[i].value;
      parameter.add_grad_hook([bucket, weak = std::weak_ptr(buckets_)](Variable&) {
        if (const auto buckets = weak.lock()) buckets->note_ready(bucket);
      });
    }
  }
}

GradientSum::~GradientSum() = default;

void GradientSum::start() {
  if (buckets_) buckets_->is_started = true;
}

void GradientSum::finish() {
  if (buckets_) buckets_->finish();
}

}  // namespace mobius
