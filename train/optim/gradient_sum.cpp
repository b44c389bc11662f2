#include "train/optim/gradient_sum.h"

#include <utility>

#include "core/error.h"

namespace mobius {

namespace {

struct Bucket {
  std::vector<Variable> parameters;
  std::int64_t numel = 0;
  std::size_t n_ready = 0;
  Tensor values;  // of all its gradients, one after another; while they travel
  std::unique_ptr<Pending> pending;
};

bool has_room(const Bucket& bucket, const Variable& parameter, std::int64_t bucket_bytes) {
  const Variable& first = bucket.parameters.front();
  const auto bytes =
      (bucket.numel + parameter.numel()) * static_cast<std::int64_t>(size_of(parameter.dtype()));
  return parameter.dtype() == first.dtype() && parameter.device() == first.device() &&
         bytes <= bucket_bytes;
}

std::vector<Bucket> divide(const std::vector<TrainedParameter>& parameters,
                           std::int64_t bucket_bytes) {
  std::vector<Bucket> buckets;
  for (auto entry = parameters.rbegin(); entry != parameters.rend(); ++entry) {
    if (buckets.empty() || !has_room(buckets.back(), entry->value, bucket_bytes)) {
      buckets.emplace_back();
    }
    buckets.back().parameters.push_back(entry->value);
    buckets.back().numel += entry->value.numel();
  }
  return buckets;
}

// Calls fn(parameter, its part of the bucket's values).
template <typename Fn>
void for_each_part(Bucket& bucket, Fn&& fn) {
  std::int64_t begin = 0;
  for (Variable& parameter : bucket.parameters) {
    const std::int64_t end = begin + parameter.numel();
    fn(parameter, bucket.values.slice(0, begin, end));
    begin = end;
  }
}

void pack(Bucket& bucket) {
  const Variable& first = bucket.parameters.front();
  bucket.values = Tensor::empty({bucket.numel}, first.dtype(), first.device());
  for_each_part(bucket, [](const Variable& parameter, Tensor part) {
    if (parameter.grad().defined()) {
      part.copy_from(parameter.grad().reshape({-1}));
    } else {
      part.fill(0);
    }
  });
}

// The gradients become views of the values: nothing is copied back.
void unpack(Bucket& bucket) {
  for_each_part(bucket, [](Variable& parameter, const Tensor& part) {
    if (parameter.grad().defined()) parameter.mutable_grad() = part.reshape(parameter.shape());
  });
  bucket.values = Tensor();
}

}  // namespace

struct GradientSum::Buckets {
  Communicator& communicator;
  std::vector<Bucket> all;
  std::size_t n_sent = 0;  // always the first ones
  bool is_started = false;

  void send_next() {
    Bucket& bucket = all[n_sent++];
    pack(bucket);
    bucket.pending = communicator.start_sum(bucket.values);
  }

  void note_ready(Bucket& bucket) {
    if (!is_started) return;
    ++bucket.n_ready;
    for (std::size_t i = 0; i < n_sent; ++i) all[i].pending->advance();
    while (n_sent < all.size() && all[n_sent].n_ready == all[n_sent].parameters.size()) send_next();
  }
};

GradientSum::GradientSum(Communicator& communicator,
                         const std::vector<TrainedParameter>& parameters, std::int64_t bucket_bytes)
    : communicator_(communicator) {
  if (communicator.size() == 1) return;
  buckets_ = std::make_shared<Buckets>(Buckets{communicator, divide(parameters, bucket_bytes)});
  for (std::size_t i = 0; i < buckets_->all.size(); ++i) {
    for (Variable& parameter : buckets_->all[i].parameters) {
      parameter.add_grad_hook([i, weak = std::weak_ptr(buckets_)](Variable&) {
        if (const auto buckets = weak.lock()) buckets->note_ready(buckets->all[i]);
      });
    }
  }
}

GradientSum::~GradientSum() = default;

void GradientSum::start() {
  if (buckets_) buckets_->is_started = true;
}

void GradientSum::finish() {
  if (!buckets_) return;
  while (buckets_->n_sent < buckets_->all.size()) buckets_->send_next();
  for (Bucket& bucket : buckets_->all) {
    std::exchange(bucket.pending, nullptr)->wait();
    bucket.n_ready = 0;
    unpack(bucket);
  }
  buckets_->n_sent = 0;
  buckets_->is_started = false;
}

}  // namespace mobius
